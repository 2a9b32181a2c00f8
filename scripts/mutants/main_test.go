package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestEachRuleStandsOnceWhereItIsTakenOutAndItsTestIsThere(t *testing.T) {
	t.Chdir("../..")
	for _, m := range mutants() {
		for _, e := range append([]mutant{m}, m.also()...) {
			if _, err := e.apply(); err != nil {
				t.Error(err)
			}
		}
		name, _, _ := strings.Cut(m.test, "/")
		if !declares(t, m.pkg, name) {
			t.Errorf("%s has no %s, which is to fail without %q", m.pkg, name, m.rule)
		}
	}
}

func declares(t *testing.T, pkg, test string) bool {
	t.Helper()
	files, err := os.ReadDir(pkg)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^func ` + test + `\(t `)
	for _, f := range files {
		if b, err := os.ReadFile(pkg + "/" + f.Name()); err == nil && want.Match(b) {
			return true
		}
	}
	return false
}

func TestTheListInTheReferenceIsTheOneThatIsTried(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), table(mutants())) {
		t.Error("docs/reference/invariants.md does not hold what go run ./scripts/mutants -table prints")
	}
}
