package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// fleet is an installation whose roles are processes of their own.
type fleet struct {
	*world
	control, gw, host *process
}

func (w *world) startControl() *process {
	p := w.start("control", "--data", w.data, "--api", w.api, "--ops", w.ops)
	p.waitFor("control is up", 20*time.Second)
	return p
}

func (w *world) token(role string) string {
	w.t.Helper()
	return strings.TrimSpace(w.must("token", "create", "--role", role).stdout)
}

func (w *world) startGateway(extra ...string) *process {
	p := w.start(append([]string{"gateway", "--name", "gw", "--data", w.data, "--control", w.api, "--listen", w.gateway, "--poll", w.poll, "--ops", "127.0.0.1:0"}, extra...)...)
	p.waitFor("gateway is up", 20*time.Second)
	return p
}

func (w *world) startHost(extra ...string) *process {
	p := w.start(append([]string{"host", "--name", "h1", "--zone", "a", "--data", w.data, "--control", w.api, "--ops", "127.0.0.1:0"}, extra...)...)
	p.waitFor("host is up", 20*time.Second)
	return p
}

func newFleet(t *testing.T) *fleet {
	w := newWorld(t)
	f := &fleet{world: w}
	f.control = w.startControl()
	f.gw = w.startGateway("--token", w.token("gateway"))
	f.host = w.startHost("--token", w.token("host"))
	return f
}

func (w *world) pidOf(service string) int {
	w.t.Helper()
	_, body, _ := w.get(service, "/pid")
	pid, err := strconv.Atoi(body)
	if err != nil {
		w.t.Fatalf("the instance should say its pid: %q", body)
	}
	return pid
}

func TestControlKilledWhileIdleRequestsGoOnAndItTakesUpAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--", testapp)
	l := f.startLoad("hello", "/", 4)
	l.more(50)
	f.control.kill()
	if r := f.run("status", "hello"); r.code != 3 {
		t.Errorf("exit %d without a control plane, expected 3:\n%s", r.code, r.all())
	}
	l.more(200)
	f.control = f.startControl()
	f.must("deploy", "hello", "--env", "A=b")
	l.more(50)
	l.end()
	if got := f.status("hello").serving(); got != "hello-00002" {
		t.Errorf("%q serves, expected hello-00002", got)
	}
}

func TestControlKilledInMidDeployIsFinishedByTheSameRevision(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--", testapp)
	l := f.startLoad("hello", "/", 4)
	d := f.start("deploy", "hello", "--env", "A=b")
	d.waitFor("instances", 10*time.Second)
	f.control.kill()
	l.more(100)
	f.control = f.startControl()
	if err := d.wait(60 * time.Second); err != nil {
		t.Errorf("the command should have reconnected and seen the deploy done: %v\n%s", err, d.out)
	}
	l.more(50)
	l.end()
	s := f.status("hello")
	if s.serving() != "hello-00002" || len(s.Revisions) != 2 {
		t.Errorf("the deploy should be finished by the same revision: %+v", s)
	}
	f.couldBe("hello")
}

func TestTheGatewayStartedWithoutControlRoutesFromItsDisk(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--", testapp)
	f.control.kill()
	f.gw.kill()
	f.gw = f.startGateway()
	eventually(t, 10*time.Second, "the gateway routes from its disk", func() bool {
		code, body, _, err := f.tryGet("hello", "/")
		return err == nil && code == 200 && strings.HasPrefix(body, "hello-00001")
	})
}

func TestTheHostKilledAndStartedTheSamePidsServe(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--", testapp) // prints at every request
	pid := f.pidOf("hello")
	l := f.startLoad("hello", "/", 4)
	l.more(50)
	f.host.kill()
	l.more(200)
	f.host = f.startHost()
	l.more(200)
	l.end()
	if now := f.pidOf("hello"); now != pid {
		t.Errorf("pid %d serves, expected %d as before", now, pid)
	}
	eventually(t, 10*time.Second, "the host reports the adopted process", func() bool {
		s := f.status("hello")
		return len(s.Instances) == 1 && s.Instances[0].Pid == pid && s.Instances[0].State == "live"
	})
	f.must("delete", "hello")
	if alive(pid) {
		t.Errorf("the adopted process %d outlived its service", pid)
	}
}

func TestAllOfUpKilledTheNextUpAdoptsWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.up()
	w.must("deploy", "hello", "--", testapp)
	pid := w.pidOf("hello")
	p.kill()
	if !alive(pid) {
		t.Fatalf("the instance should live on after SIGKILL of everything else")
	}
	w.up()
	eventually(t, 10*time.Second, "the same process serves", func() bool {
		code, body, _, err := w.tryGet("hello", "/pid")
		return err == nil && code == 200 && body == strconv.Itoa(pid)
	})
	w.must("deploy", "hello", "--env", "A=b")
	if got := w.status("hello").serving(); got != "hello-00002" {
		t.Errorf("%q serves, expected hello-00002", got)
	}
}

func TestCtrlCDrainsAndStopsAndUpStartsAgainWhatIsDesired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.up()
	w.must("deploy", "hello", "--", testapp)
	pid := w.pidOf("hello")
	p.signal(syscall.SIGINT)
	if err := p.wait(30 * time.Second); err != nil {
		t.Errorf("up ended with %v\n%s", err, p.out.tail(40))
	}
	if alive(pid) {
		t.Errorf("process %d still runs", pid)
	}
	w.up()
	eventually(t, 20*time.Second, "the service runs again", func() bool {
		code, body, _, err := w.tryGet("hello", "/")
		return err == nil && code == 200 && strings.HasPrefix(body, "hello-00001")
	})
}

func TestKeepInstancesLeavesThemToBeAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.up("--keep-instances")
	w.must("deploy", "hello", "--", testapp)
	pid := w.pidOf("hello")
	p.signal(syscall.SIGTERM)
	if err := p.wait(30 * time.Second); err != nil {
		t.Errorf("up ended with %v", err)
	}
	if !alive(pid) {
		t.Fatal("the instance should have been left running")
	}
	w.up()
	eventually(t, 10*time.Second, "the same process serves", func() bool {
		code, body, _, err := w.tryGet("hello", "/pid")
		return err == nil && code == 200 && body == strconv.Itoa(pid)
	})
}

func TestAStoreDeletedUnderARunningGatewayIsFollowedAndSaidSo(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--", testapp)
	l := f.startLoad("hello", "/", 2)
	f.control.kill()
	stores, err := filepath.Glob(filepath.Join(f.data, "control", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stores {
		if err := os.RemoveAll(s); err != nil {
			t.Fatal(err)
		}
	}
	f.control = f.startControl()
	f.gw.waitFor("incarnation", 15*time.Second)
	l.more(100)
	l.end()
	f.must("deploy", "other", "--", testapp)
	if code, body, _ := f.get("other", "/"); code != 200 {
		t.Errorf("the gateway should follow the new store: %d %s", code, body)
	}
}

func TestTheWholeDataFolderDeletedTheGatewayServesOnAlarmsAndJoinsAgainByToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	apart, err := os.MkdirTemp("", "flgw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killStrays(t, apart); os.RemoveAll(apart) })
	control := w.startControl()
	tokenFile := filepath.Join(apart, "token")
	writeToken := func() {
		if err := os.WriteFile(tokenFile, []byte(w.token("gateway")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeToken()
	gw := w.startGateway("--data", apart, "--token-file", tokenFile)
	w.startHost("--data", apart, "--token", w.token("host"))
	w.must("deploy", "hello", "--", testapp)
	l := w.startLoad("hello", "/", 2)
	control.kill()
	if err := os.RemoveAll(w.data); err != nil {
		t.Fatal(err)
	}
	w.startControl()
	gw.waitFor("join again", 20*time.Second)
	l.more(100)
	writeToken()
	eventually(t, 20*time.Second, "the gateway follows the new control plane", func() bool {
		return strings.Contains(w.must("gateways", "-o", "json").stdout, `"gw"`)
	})
	l.more(100)
	l.end()
}

func TestADataFolderRemovedUnderUpIsSaidAndNothingIsAcknowledgedAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp)
	// The credential is kept apart: the socket and the operator's key go with the folder.
	apart := t.TempDir()
	for _, name := range []string{"operator.crt", "operator.key", "ca.crt"} {
		b, err := os.ReadFile(filepath.Join(w.data, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(apart, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := w.startLoad("hello", "/", 2)
	l.more(50)
	eventually(t, 10*time.Second, "the folder is removed, whatever is written there meanwhile", func() bool { return os.RemoveAll(w.data) == nil })
	r := w.run("scale", "hello", "2", "--data", apart, "--api", w.api)
	if r.code == 0 || !strings.Contains(r.all(), "removed") {
		t.Errorf("exit %d, expected a refusal that says that the folder was removed:\n%s", r.code, r.all())
	}
	eventually(t, 10*time.Second, "/readyz says so", func() bool {
		resp, err := http.Get("http://" + w.ops + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "store: not ready")
	})
	l.more(200)
	l.end()
}
