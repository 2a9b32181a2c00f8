package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// inside runs a shell command in the mount namespace of a process.
func inside(t *testing.T, p *process, command string) string {
	t.Helper()
	out, err := exec.Command("nsenter", "-t", strconv.Itoa(p.cmd.Process.Pid), "-m", "sh", "-ec", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// runInside runs the command line where the process sees its data folder.
func (w *world) runInside(p *process, args ...string) result {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "nsenter", append([]string{"-t", strconv.Itoa(p.cmd.Process.Pid), "-m", fairlead}, args...)...)
	cmd.Env = w.env()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

func TestOnAFullDiskWhatIsServedGoesOnAndADeletionIsStillRecorded(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts a small disk in a namespace of its own: run it as root")
	}
	w := newWorld(t)
	up := fmt.Sprintf("mount -t tmpfs -o size=80m,mode=755 none %s && exec %s up --data %s --api %s --gateway %s --ops %s --poll %s",
		w.data, fairlead, w.data, w.api, w.gateway, w.ops, w.poll)
	p := w.startCommand(exec.Command("unshare", "-m", "sh", "-ec", up))
	p.waitFor("fairlead is up", 20*time.Second)
	for _, name := range []string{"hello", "other"} {
		if r := w.runInside(p, "deploy", name, "--", testapp); r.code != 0 {
			t.Fatalf("exit %d\n%s", r.code, r.all())
		}
	}
	l := w.startLoad("hello", "/", 2)
	l.more(50)
	inside(t, p, "dd if=/dev/zero of="+w.data+"/filler bs=64k 2>/dev/null || true; sync")

	r := w.runInside(p, "deploy", "hello", "--env", "A=b", "--wait", "20s")
	if r.code == 0 || !strings.Contains(r.all(), "full") {
		t.Errorf("a deploy on a full disk: exit %d, expected a refusal that says that the disk is full:\n%s", r.code, r.all())
	}
	eventually(t, 10*time.Second, "the host is said to take nothing", func() bool {
		return strings.Contains(w.runInside(p, "hosts").stdout, "takes no more instances: ")
	})
	l.more(200)
	if r := w.runInside(p, "delete", "other"); r.code != 0 {
		t.Errorf("a deletion on a full disk: exit %d\n%s", r.code, r.all())
	}
	if code, _, _ := w.get("other", "/"); code != 404 {
		t.Errorf("the deleted service answers %d", code)
	}
	l.more(200)
	inside(t, p, "rm "+w.data+"/filler")
	eventually(t, 60*time.Second, "deploys go on once there is room", func() bool {
		return w.runInside(p, "deploy", "hello", "--env", "C=d").code == 0
	})
	l.more(50)
	l.end()
}
