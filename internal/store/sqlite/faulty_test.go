package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// faults counts what a faulty disk led to.
type faults struct {
	mu               sync.Mutex
	refused, unknown int
}

// writeUntilDone repeats the Apply until it is done, and checks that "nothing
// was written" was true each time it was said.
func (f *faults) writeUntilDone(s *Store, name string) error {
	var last error
	for range 100 {
		_, err := s.Apply(context.Background(), writing(name))
		if err == nil {
			return nil
		}
		f.mu.Lock()
		last = err
		unknown := errors.Is(err, store.ErrUnknown)
		if unknown {
			f.unknown++
		} else {
			f.refused++
		}
		f.mu.Unlock()
		if unknown {
			continue
		}
		if _, err := s.Get(context.Background(), store.Key{Kind: "thing", Name: name}); err == nil {
			return fmt.Errorf("%s is there, after it was said that nothing was written", name)
		}
	}
	return fmt.Errorf("%s was not done in 100 attempts: %v", name, last)
}

// strace returns the path of strace, which records and injects system calls.
func strace(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal("strace is missing: install it (Debian: apt-get install strace)")
	}
	return path
}

func TestAFailedCommitIsLookedUpAndItsAnswerIsTrue(t *testing.T) {
	for name, inject := range map[string]string{
		"syncs of the log":      "inject=fdatasync,fsync:error=EIO:when=5+6",
		"writes of the log":     "inject=pwrite64:error=EIO:when=31+47",
		"every sync for a time": "inject=fdatasync,fsync:error=EIO:when=2..6",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			if err := mustOpen(t, Options{Path: path}).Close(); err != nil {
				t.Fatal(err)
			}
			child := command("faulty", path, strace(t), "-f", "-qq", "-o", "/dev/null", "-P", path+"-wal", "-e", inject)
			lines, _ := startChild(t, child)
			var refused, unknown int
			if !lines.Scan() {
				t.Fatalf("the child said nothing: %v", child.Wait())
			}
			if _, err := fmt.Sscanf(lines.Text(), "refused %d unknown %d", &refused, &unknown); err != nil {
				t.Fatal(err)
			}
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			if refused+unknown == 0 {
				t.Fatal("no commit failed: nothing was tested")
			}
			t.Logf("refused %d, unknown %d", refused, unknown)
			s := mustOpen(t, Options{Path: path})
			list, sequence, err := s.List(t.Context(), "thing")
			if err != nil || len(list) != 60 || sequence != 60 {
				t.Fatalf("%d documents at %d, want each done once: %v", len(list), sequence, err)
			}
		})
	}
}

// writeOnSlowDisk gives up on a commit that hangs in the disk, and on one that
// waits behind it: the first is unknown and settled by repeating it, the
// second was withdrawn.
func writeOnSlowDisk(s *Store) error {
	impatient := func(name string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := s.Apply(ctx, writing(name))
		return err
	}
	if err := impatient("hangs"); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the commit that hangs: got %w, want unknown", err)
	}
	if err := impatient("waits"); errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the one that waits: got %w, want only the deadline", err)
	}
	r, err := s.Apply(context.Background(), writing("hangs"))
	if err != nil || r != (store.Result{Sequence: 1, Repeated: true}) {
		return fmt.Errorf("repeated: got %+v, %w", r, err)
	}
	list, sequence, err := s.List(context.Background(), "thing")
	if err != nil || len(list) != 1 || sequence != 1 {
		return fmt.Errorf("%d documents at %d: %w", len(list), sequence, err)
	}
	return nil
}

func TestOnlyACommitThatHangsInTheDiskIsUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := mustOpen(t, Options{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	child := command("slow", path, strace(t), "-f", "-qq", "-o", "/dev/null", "-P", path+"-wal", "-e", "inject=fdatasync,fsync:delay_enter=1500000")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
}
