// Command mutants takes the rules of deployments out of the code, one at a time, and
// says whether the test that is named for each fails. Nothing is written into
// the tree: the compiler is given an overlay. With -table it prints the list as
// it stands in docs/reference/invariants.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// mutant is one rule, and what takes it out.
type mutant struct {
	rule     string // in words
	file     string
	old, new string // old is there once
	pkg      string
	test     string // that fails without the rule; with a slash, which cases of it
}

func (m mutant) apply() ([]byte, error) {
	b, err := os.ReadFile(m.file)
	if err != nil {
		return nil, fmt.Errorf("cannot read what %q is taken out of: %w", m.rule, err)
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		return nil, fmt.Errorf("%s has %d times what %q is taken out of: %q", m.file, n, m.rule, m.old)
	}
	return []byte(strings.Replace(string(b), m.old, m.new, 1)), nil
}

// overlay writes the files without the rule into dir, and what tells the compiler of them.
func (m mutant) overlay(dir string) (string, error) {
	replaced := map[string]string{}
	for i, e := range append([]mutant{m}, m.also()...) {
		body, err := e.apply()
		if err != nil {
			return "", err
		}
		file, err := filepath.Abs(e.file)
		if err != nil {
			return "", fmt.Errorf("cannot name %s: %w", e.file, err)
		}
		replaced[file] = filepath.Join(dir, fmt.Sprintf("mutant%d.go", i))
		if err := os.WriteFile(replaced[file], body, 0o600); err != nil {
			return "", fmt.Errorf("cannot write a mutant: %w", err)
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err != nil {
		return "", fmt.Errorf("cannot write an overlay: %w", err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		return "", fmt.Errorf("cannot write an overlay: %w", err)
	}
	return name, nil
}

// noticed runs the test without the rule. It is an error where that cannot be told.
func (m mutant) noticed() (bool, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return false, fmt.Errorf("cannot make room for a mutant: %w", err)
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	if err != nil {
		return false, err
	}
	args := []string{"test", "-vet=off", "-count=1", "-overlay", overlay, "-run", "^" + strings.ReplaceAll(m.test, "/", "$/") + "$", m.pkg}
	switch m.pkg {
	case inPoints:
		args = append(args, "-pairs=none")
	case inService, inLease:
		args = append(args, "-rapid.nofailfile")
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	name, _, _ := strings.Cut(m.test, "/")
	switch text := string(out); {
	case strings.Contains(text, "--- FAIL: "+name), strings.Contains(text, "panic: "):
		return true, nil
	case err == nil && !strings.Contains(text, "no tests to run"):
		return false, nil
	default:
		return false, fmt.Errorf("cannot be told:\n%s", text)
	}
}

func table(list []mutant) string {
	var b strings.Builder
	b.WriteString("| rule | where | test that fails without it |\n|---|---|---|\n")
	for _, m := range list {
		where := "`" + m.file + "`"
		for _, e := range m.also() {
			where += ", `" + e.file + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.rule, where, m.test)
	}
	return b.String()
}

func main() {
	printed := flag.Bool("table", false, "print the list, and try nothing")
	only := flag.String("only", "", "try those whose rule, file or test contains this")
	at := flag.Int("p", 2, "how many are tried at once")
	flag.Parse()
	if *printed {
		fmt.Print(table(mutants()))
		return
	}
	room := make(chan struct{}, *at)
	var wait sync.WaitGroup
	var mu sync.Mutex
	bad := 0
	for _, m := range mutants() {
		if !strings.Contains(m.rule+m.file+m.test, *only) {
			continue
		}
		wait.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			noticed, err := m.noticed()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				bad++
				fmt.Printf("?         %s: %v\n", m.rule, err)
			case !noticed:
				bad++
				fmt.Printf("unnoticed %s: %s passes\n", m.rule, m.test)
			default:
				fmt.Printf("noticed   %s: by %s\n", m.rule, m.test)
			}
		})
	}
	wait.Wait()
	if bad > 0 {
		os.Exit(1)
	}
}
