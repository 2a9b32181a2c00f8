package shelter

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Tests()
	m.Run()
}

func TestWhatTestsLeaveRunningEndsWithThemAndNothingElseDoes(t *testing.T) {
	dir := t.TempDir()
	over, err := startReaper(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left, other *exec.Cmd
	for _, c := range []struct {
		cmd **exec.Cmd
		env string
	}{{&left, "HOME=" + dir + "/host/work"}, {&other, "HOME=/nowhere"}} {
		*c.cmd = exec.Command("sleep", "600")
		(*c.cmd).Env = []string{c.env}
		(*c.cmd).SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := (*c.cmd).Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*c.cmd).Process.Kill() }) // it may have ended
	}
	runtime.GC() // an *os.File that nobody refers to would be closed
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("it ended before the tests: %v", err)
	case <-time.After(300 * time.Millisecond): // longer than the reaper looks
	}
	if err := syscall.Close(over); err != nil { // as the end of the process does
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("it outlived the tests")
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another process was ended: %v", err)
	}
}
