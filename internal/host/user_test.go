package host_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// script serves with the system's own interpreter, which every user can run,
// and says what it can read.
const script = `
import http.server, os, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        out = ["uid=%d gid=%d groups=%s" % (os.getuid(), os.getgid(), sorted(os.getgroups())), "cwd=" + os.getcwd(), "home=" + os.environ["HOME"]]
        for p in sys.argv[2:]:
            try:
                os.listdir(p) if os.path.isdir(p) else open(p).close()
                out.append("reads " + p)
            except OSError:
                out.append("cannot read " + p)
        for d in (os.getcwd(), os.environ["TMPDIR"]):
            open(d + "/mine", "w").close()
        self.send_response(200); self.end_headers(); self.wfile.write("\n".join(out).encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
`

func TestANamedUserCannotReadTheHostsFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		r := start(t)
		tmpl := hosttest.TemplateOf(hosttest.Serves)
		tmpl.User = "root"
		r.assign(t, tmpl)
		r.awaitDetail(t, "this host does not run as root")
		return
	}
	data := t.TempDir()
	dir := filepath.Join(data, "host")
	users := filepath.Join("/var/tmp", "fairlead-test-"+filepath.Base(filepath.Dir(data)))
	t.Cleanup(func() {
		if err := os.RemoveAll(users); err != nil {
			t.Error(err)
		}
	})
	sock := filepath.Join(data, "api.sock")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := os.Chmod(sock, 0o600); err != nil {
		t.Fatal(err)
	}
	r := startIn(t, dir, func(c *host.Config) { c.UserDir = users; c.Path = "/usr/bin:/bin" })
	r.assign(t, service.Template{
		User:    "nobody",
		Command: []string{"/usr/bin/python3", "-c", script, "$(PORT)", dir, filepath.Join(dir, "slots"), filepath.Join(dir, "marker.json"), sock},
	})
	in := r.awaitLive(t)
	got := get(t, in.GetAddress(), "/")
	for _, want := range []string{"uid=65534", "cwd=" + users, "home=/nonexistent"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "\nreads ") || strings.Count(got, "cannot read") != 4 {
		t.Errorf("it can read: %s", got)
	}
	if strings.Contains(got, "groups=[0") {
		t.Errorf("it kept root's groups: %s", got)
	}
}

func TestAUserThatDoesNotExistIsRefused(t *testing.T) {
	r := start(t)
	tmpl := hosttest.TemplateOf(hosttest.Serves)
	tmpl.User = "nobody-by-this-name"
	r.assign(t, tmpl)
	r.awaitDetail(t, "there is no such user on this host")
}

func TestAStrayThatNoRecordKnowsIsEnded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	r := startIn(t, dir, nil)
	marker := r.Marker()
	r.end(t)
	stray := exec.Command("sleep", "600") // made by a host that died before it could record it
	stray.Env = []string{"FAIRLEAD_HOST=" + marker, "FAIRLEAD_INSTANCE=unrecorded"}
	stray.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	other := exec.Command("sleep", "600")
	other.Env = []string{"FAIRLEAD_HOST=another-installation", "FAIRLEAD_INSTANCE=theirs"}
	for _, c := range []*exec.Cmd{stray, other} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	startIn(t, dir, nil)
	if err := stray.Wait(); err == nil || !strings.Contains(fmt.Sprint(err), "terminated") {
		t.Errorf("the stray ended with %v", err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another installation's process: %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // killed, as it should be
}
