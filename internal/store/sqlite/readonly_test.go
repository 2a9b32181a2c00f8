package sqlite

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestADiskThatBecomesReadOnlyIsToldAndReadingGoesOn has every write of a
// running child answered as a read-only disk does, for a while.
func TestADiskThatBecomesReadOnlyIsToldAndReadingGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	child := command("obey", path)
	lines, stdin := startChild(t, child)
	c := &obedient{t, lines, stdin}
	c.expect("open")
	c.say("apply a", "done")

	release := injectInto(t, child.Process.Pid, "inject=pwrite64,openat,open:error=EROFS", path+"-wal", path+".probe")
	c.say("apply b", "unknown") // the disk failed within its commit
	c.say("apply c", "read-only")
	c.say("apply b", "unknown") // still: nobody could look
	c.say("get a", "done")
	c.say("get c", "not found")
	release()

	c.say("get b", "not found")
	c.say("apply c", "done")
	c.say("apply b", "done")
	c.say("get b", "done")
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}

type obedient struct {
	*testing.T
	lines *bufio.Scanner
	stdin io.Writer
}

func (c *obedient) expect(want string) {
	c.Helper()
	if !c.lines.Scan() || c.lines.Text() != want {
		c.Fatalf("the child said %q, want %q", c.lines.Text(), want)
	}
}

func (c *obedient) say(what, want string) {
	c.Helper()
	if _, err := fmt.Fprintln(c.stdin, what); err != nil {
		c.Fatal(err)
	}
	c.Logf("%s", what)
	c.expect(want)
}

// injectInto attaches strace to the running process, for the calls on the paths.
func injectInto(t *testing.T, pid int, inject string, paths ...string) (release func()) {
	t.Helper()
	args := []string{"-f", "-qq", "-o", "/dev/null", "-p", fmt.Sprint(pid), "-e", inject}
	for _, p := range paths {
		args = append(args, "-P", p)
	}
	c := exec.Command(strace(t), args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	awaitTracer(t, pid, true)
	ended := false
	release = func() {
		if ended {
			return
		}
		ended = true
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		_ = c.Wait() // it tells of the signal
		awaitTracer(t, pid, false)
	}
	t.Cleanup(release)
	return release
}

// awaitTracer waits until all threads of the process are traced, or none.
func awaitTracer(t *testing.T, pid int, traced bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		all := true
		statuses, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil || len(statuses) == 0 {
			return // it ended
		}
		for _, name := range statuses {
			b, err := os.ReadFile(name)
			if err == nil && strings.Contains(string(b), "TracerPid:\t0\n") == traced {
				all = false
			}
		}
		if all {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d: traced is not %t", pid, traced)
		}
	}
}
