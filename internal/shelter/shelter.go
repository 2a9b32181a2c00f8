// Package shelter is for tests that start processes: it has everything that
// they start end with them, however they end. Instances live in sessions of
// their own and outlive a host that is killed, so that tests which were killed,
// or ran out of time, would leave them behind. Read [Tests].
package shelter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// envShelter names the folder of a test binary's own to whatever it starts.
const envShelter = "FAIRLEAD_TEST_SHELTER"

// reaperArg makes a test binary the process that outlives the tests.
const reaperArg = "shelter-reaper"

// Tests puts temporary files into a folder of the test binary's own from now
// on, and starts a process beside it that kills what names that folder, in its
// environment or its command line, once the tests are over. TestMain calls it
// first.
func Tests() {
	if len(os.Args) == 3 && os.Args[1] == reaperArg {
		reap(os.Args[2])
		os.Exit(0)
	}
	if os.Getenv(envShelter) != "" {
		return // a process that the tests started
	}
	if err := begin(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot shelter the tests:", err)
		os.Exit(1)
	}
}

func begin() error {
	dir, err := os.MkdirTemp("", "flt")
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // instances may run as others
		return err
	}
	if _, err := startReaper(dir); err != nil {
		return err
	}
	if err := os.Setenv(envShelter, dir); err != nil {
		return err
	}
	return os.Setenv("TMPDIR", dir)
}

// startReaper returns a descriptor whose end, at the latest with this process,
// is the end of the tests. It is no *os.File, which would be closed once nobody
// refers to it.
func startReaper(dir string) (over int, err error) {
	self, err := os.Executable()
	if err != nil {
		return -1, err
	}
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return -1, fmt.Errorf("cannot make a pipe: %w", err)
	}
	r := os.NewFile(uintptr(pipe[0]), "the end of the tests")
	defer r.Close()
	cmd := exec.Command(self, reaperArg, dir)
	cmd.Stdin, cmd.Env = r, []string{}                   // of no shelter
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the tests' group is none to it
	if err := cmd.Start(); err != nil {
		return -1, errors.Join(err, syscall.Close(pipe[1]))
	}
	return pipe[1], nil
}

// reap waits for the end of the tests. It looks again until nothing is left:
// what was about to start something when it was ended may have done so. The
// folder is left when there is something in it to look at.
func reap(dir string) {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "reaper:", err)
	}
	for calm := 0; calm < 3; calm++ {
		if endAllOf(dir) > 0 {
			calm = -1
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = os.Remove(dir)
}

// endAllOf kills what names the folder in its environment or command line, and
// says how much it was.
func endAllOf(dir string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile(filepath.Join("/proc", e.Name(), file))
			if err == nil && bytes.Contains(b, []byte(dir)) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				n++
				break
			}
		}
	}
	return n
}
