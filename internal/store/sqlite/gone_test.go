package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// losses are ways in which a running store loses its files. :: what happened → how
var losses = map[string]func(path string) error{
	"the folder was removed":      func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	"the folder was moved away":   func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
	"the database was removed":    func(path string) error { return os.Remove(path) },
	"the database was replaced":   func(path string) error { return replace(path) },
	"the log was removed":         func(path string) error { return os.Remove(path + "-wal") },
	"the log was replaced":        func(path string) error { return replace(path + "-wal") },
	"the log's index was removed": func(path string) error { return os.Remove(path + "-shm") },
	"the lock file was removed":   func(path string) error { return os.Remove(path + ".lock") },
	"the lock file was replaced":  func(path string) error { return replace(path + ".lock") },
}

func replace(path string) error {
	if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func TestNothingIsAcknowledgedOnceTheFilesAreGoneAndReadingGoesOn(t *testing.T) {
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "data", "store.db")
			s := mustOpen(t, Options{Path: path})
			if _, err := s.Apply(t.Context(), writing("before")); err != nil {
				t.Fatal(err)
			}
			if err := s.Health(); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"after", "before", "after"} { // "before" would be a repetition
				_, err := s.Apply(t.Context(), writing(name))
				if !errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrUnknown) {
					t.Fatalf("%s: got %v, want %v", name, err, store.ErrGone)
				}
			}
			isGone(t, s.Health(), path)
			if _, err := s.Watch(t.Context(), 1); !errors.Is(err, store.ErrGone) {
				t.Fatalf("watching: got %v", err)
			}
			list, _, err := s.List(t.Context(), "thing")
			if err != nil || len(list) != 1 || list[0].Name != "before" {
				t.Fatalf("reading: %v, %v", list, err)
			}
		})
	}
}

// isGone checks that the error says what happened and what to do.
func isGone(t *testing.T, err error, path string) {
	t.Helper()
	if !errors.Is(err, store.ErrGone) {
		t.Fatalf("got %v, want %v", err, store.ErrGone)
	}
	for _, want := range []string{path, "nothing more is recorded", "stop it", "from a copy"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestAnIdleStoreWhoseFilesAreGoneEndsItsWatchers(t *testing.T) {
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "data", "store.db")
			s := mustOpen(t, Options{Path: path})
			w, err := s.Watch(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err = w.Next(ctx)
			isGone(t, err, path)
		})
	}
}

func TestHealthSeesAtOnceThatTheFilesAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "store.db")
	s := mustOpen(t, Options{Path: path})
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	isGone(t, s.Health(), path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Health(); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
}

func TestAStoreWhoseFilesAreThereStaysHealthyWhileItWritesAndAnotherReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := mustOpen(t, Options{Path: path, checkpoint: 4})
	for i := range 50 {
		if _, err := s.Apply(t.Context(), writing(fmt.Sprint("a", i))); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 { // as an operator's sqlite3 does
			if n := countOutside(t, path); n != i+1 {
				t.Fatalf("another process reads %d documents, want %d", n, i+1)
			}
		}
		if err := s.Health(); err != nil {
			t.Fatal(err)
		}
	}
}

// countOutside counts the documents from another process, without the store.
func countOutside(t *testing.T, path string) (n int) {
	t.Helper()
	out, err := command("count", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAFolderLostWithinACommitLeavesThatCommitUnknown has the sync of the log
// take long, and the folder removed while it lasts.
func TestAFolderLostWithinACommitLeavesThatCommitUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "store.db")
	if err := mustOpen(t, Options{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	child := command("obey", path, strace(t), "-f", "-qq", "-o", "/dev/null", "-P", path+"-wal", "-e", "inject=fdatasync,fsync:delay_enter=1500000")
	lines, stdin := startChild(t, child)
	c := &obedient{t, lines, stdin}
	c.expect("open")
	before := length(t, path+"-wal")
	if _, err := fmt.Fprintln(stdin, "apply hangs"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); length(t, path+"-wal") == before; {
		if time.Now().After(end) {
			t.Fatal("the commit does not begin")
		}
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	c.expect("unknown gone")
	c.say("apply other", "gone")
	c.say("apply hangs", "unknown gone")
	c.say("get other", "not found")
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}

func length(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func TestASecondProcessIsRefusedAlsoWhereTheLockFileWasRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	child := command("hold", path)
	lines, stdin := startChild(t, child)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the child said %q", lines.Text())
	}
	stop(t, child.Process.Pid) // it cannot see what happens
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := Open(Options{Path: path})
		if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "lock file was removed") {
			t.Fatalf("got %v, want %v", err, store.ErrLocked)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = stdin.Close()
	_ = child.Wait()
	mustOpen(t, Options{Path: path})
}

// TestAStoreThatLostItsFolderLeavesItsSuccessorAlone: a second process may
// begin anew at the path; the end of the first must not touch its files.
func TestAStoreThatLostItsFolderLeavesItsSuccessorAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "store.db")
	child := command("obey", path)
	lines, stdin := startChild(t, child)
	c := &obedient{t, lines, stdin}
	c.expect("open")
	c.say("apply old", "done")
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, Options{Path: path})
	if _, err := s.Apply(t.Context(), writing("new")); err != nil {
		t.Fatal(err)
	}
	c.say("apply more", "gone")
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), writing("newer")); err != nil {
		t.Fatal(err)
	}
	if err := s.Health(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Options{Path: path})
	list, _, err := s.List(t.Context(), "thing")
	if err != nil || len(list) != 2 {
		t.Fatalf("the successor has %v, %v", list, err)
	}
}
