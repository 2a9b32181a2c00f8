package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestTheDemoLeavesNothingRunningAfterTheCtrlCOfATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := exec.Command("../scripts/demo.sh")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's foreground group
	cmd.Env = []string{"PATH=" + filepath.Dir(fairlead) + ":" + os.Getenv("PATH"), "TMPDIR=" + w.data}
	demo := w.startCommand(cmd)
	demo.waitFor("It stays up until Ctrl-C", 2*time.Minute)
	// With what runs out of the folder are the demo's own processes, which have it as TMPDIR.
	if n := len(processesOf(w.data)); n < 3 {
		t.Fatalf("%d processes run, expected the script, everything in one, and instances", n)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := demo.wait(time.Minute); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	if left := processesOf(w.data); len(left) != 0 {
		t.Errorf("left running: %v", left)
	}
}
