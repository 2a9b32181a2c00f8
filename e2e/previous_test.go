package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// productCode is what the program is built from.
var productCode = []string{"go.mod", "go.sum", "cmd", "internal", "resolver", "view", "api", ":(exclude)*_test.go"}

// previousProgram builds the program before this tree's into a folder of the
// test's own, and returns its path and its commit: the nearest first parent
// whose product code differs from the tree's, or, where the history that is
// here ends before there is one, its oldest commit but HEAD.
func previousProgram(t *testing.T) (program, commit string) {
	t.Helper()
	commit, err := previousCommit(gitIn(".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program = filepath.Join(dir, "fairlead")
	if err := buildCommit(commit, filepath.Join(dir, "source"), program); err != nil {
		t.Fatal(err)
	}
	return program, commit
}

// git runs one command in a repository.
type git func(args ...string) (string, error)

func gitIn(dir string) git {
	return func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
		}
		return strings.TrimSpace(string(out)), err
	}
}

func previousCommit(run git) (string, error) {
	const missing = "cannot find the commit before this one, which this test builds: %s; run it in a clone with at least one commit before HEAD (git fetch --deepen 20)"
	out, err := run("rev-list", "--first-parent", "--max-count=100", "HEAD")
	if err != nil {
		return "", fmt.Errorf(missing, err)
	}
	commits := strings.Fields(out)
	if len(commits) < 2 {
		return "", fmt.Errorf(missing, "the history here has HEAD only")
	}
	for _, c := range commits {
		changed, err := run(append([]string{"diff", "--name-only", c, "--"}, productCode...)...)
		if err != nil {
			return "", fmt.Errorf("cannot compare with commit %s: %w", c, err)
		}
		if changed != "" {
			return c, nil
		}
	}
	return commits[len(commits)-1], nil
}

// buildCommit builds the product of a commit of this repository. Nothing of
// the working tree goes in; what is compiled already is taken from Go's cache.
func buildCommit(commit, source, program string) error {
	if err := os.MkdirAll(source, 0o755); err != nil {
		return err
	}
	unpack := exec.Command("sh", "-c", `git archive "$0" | tar -x -C "$1"`, commit, source)
	unpack.Dir = ".."
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot unpack commit %s: %w\n%s", commit, err, out)
	}
	build := exec.Command("go", "build", "-o", program, "./cmd/fairlead")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build commit %s: %w\n%s", commit, err, out)
	}
	return nil
}

func TestThePreviousCommitIsTheNearestWhoseProductDiffersAndItsAbsenceIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := gitIn(dir)
	if _, err := previousCommit(run); err == nil || !strings.Contains(err.Error(), "run it in a clone") {
		t.Errorf("without a repository: %v", err)
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	commit := func(file, content string) string {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
		must("add", "-A")
		must("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "-m", file)
		return must("rev-parse", "HEAD")
	}
	must("init", "-q")
	first := commit("cmd/fairlead/main.go", "1")
	if _, err := previousCommit(run); err == nil || !strings.Contains(err.Error(), "HEAD only") {
		t.Errorf("with one commit: %v", err)
	}
	expect := func(want, when string) {
		t.Helper()
		if got, err := previousCommit(run); err != nil || got != want {
			t.Errorf("%s: %s, %v; expected %s", when, got, err, want)
		}
	}
	commit("README.md", "a")
	expect(first, "where the product never changed, the oldest")
	second := commit("internal/x_test.go", "a")
	commit("cmd/fairlead/main.go", "2")
	expect(second, "the parent of a change")
	last := commit("docs/a.md", "a")
	expect(second, "documents and tests are no product")
	if err := os.WriteFile(filepath.Join(dir, "cmd/fairlead/main.go"), []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(last, "a change that is not committed yet")
}
