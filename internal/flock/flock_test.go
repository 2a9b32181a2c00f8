package flock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// leave has a child hold the lock, whose file names pid, for a time.
func leave(t *testing.T, path string, pid int, d time.Duration) {
	t.Helper()
	f := open(t, path)
	if err := Take(f); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(fmt.Sprintf("%d\n", pid)); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", fmt.Sprint(d.Seconds()))
	child.ExtraFiles = []*os.File{f}
	if err := errors.Join(child.Start(), f.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		child.Process.Kill() // it may have ended
		child.Wait()
	})
}

func TestTheLockOfOneThatWasKilledIsWaitedForAndOfOneThatLivesIsRefusedAtOnce(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lock")
	leave(t, path, dead.Process.Pid, 500*time.Millisecond)
	if err := Take(open(t, path)); err != nil {
		t.Errorf("its child has ended: %v", err)
	}
	path = filepath.Join(t.TempDir(), "lock")
	leave(t, path, os.Getpid(), time.Minute)
	began := time.Now()
	if err := Take(open(t, path)); !errors.Is(err, ErrHeld) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > orphaned/2 {
		t.Errorf("refused after %s", took)
	}
}
