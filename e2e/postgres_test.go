package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
)

// plane is one of two controls, in a data folder of its own.
type plane struct {
	*process
	data, api, ops string
}

// region is an installation of two controls on one database, with a gateway
// and a host that know both.
type region struct {
	*world
	server *postgrestest.Server
	a, b   plane // a leads at first
}

// succession is how long it may take until the other leads: a term of 5 s, a
// look each second, and the noise of a busy machine.
const succession = 12 * time.Second

func newRegion(t *testing.T) *region {
	w := newWorld(t)
	r := &region{world: w, server: postgrestest.Start(t)}
	r.a = r.startPlane("a")
	r.a.waitFor("this control leads", 10*time.Second)
	r.b = r.startPlane("b")
	r.b.waitFor("stands by", 10*time.Second)
	both := r.a.api + "," + r.b.api
	token := func(role string) string {
		return strings.TrimSpace(w.must("token", "create", "--role", role, "--data", r.b.data).stdout)
	}
	w.startGateway("--control", both, "--token", token("gateway"))
	w.startHost("--control", both, "--token", token("host"))
	return r
}

func (r *region) startPlane(name string) plane {
	r.t.Helper()
	p := plane{data: filepath.Join(r.data, name), api: freeAddress(r.t), ops: freeAddress(r.t)}
	p.process = r.start("control", "--data", p.data, "--api", p.api, "--ops", p.ops, "--store", r.server.URL,
		"--authority", filepath.Join(r.data, "authority"), "--bucket", filepath.Join(r.data, "bucket"))
	p.waitFor("control is up", 20*time.Second)
	return p
}

// by asks one of the controls.
func (r *region) by(p plane, args ...string) []string {
	return append([]string{args[0], "--data", p.data}, args[1:]...)
}

func (r *region) statusBy(p plane, service string) status {
	r.t.Helper()
	return readStatus(r.t, r.must(r.by(p, "status", service, "-o", "json")...).stdout)
}

func readStatus(t *testing.T, text string) status {
	t.Helper()
	var s status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("cannot read status: %v\n%s", err, text)
	}
	return s
}

// led waits until the control leads, and the host and the gateway have found it.
func (r *region) led(p plane) {
	r.t.Helper()
	p.waitFor("this control leads", succession)
	since := time.Now()
	eventually(r.t, 5*time.Second, "host and gateway found the new leader", func() bool {
		hosts, gateways := r.run(r.by(p, "hosts")...), r.run(r.by(p, "gateways")...)
		return strings.Contains(hosts.stdout, " yes ") && strings.Contains(gateways.stdout, " yes ")
	})
	r.t.Logf("host and gateway found the new leader within %s", time.Since(since).Round(time.Millisecond))
}

func TestTheLeaderKilledInMidDeployIsSucceededAndTheSameRevisionIsFinished(t *testing.T) {
	t.Parallel()
	r := newRegion(t)
	r.must(r.by(r.a, "deploy", "hello", "--", testapp)...)
	l := r.startLoad("hello", "/", 4)
	l.more(50)
	d := r.start(r.by(r.b, "deploy", "hello", "--", testapp2)...) // an artifact that comes by the standby
	d.waitFor("instances", 10*time.Second)
	r.a.kill()
	died := time.Now()
	r.led(r.b)
	if took := time.Since(died); took < 4*time.Second {
		t.Errorf("it led after %s, before the term had passed", took)
	}
	if err := d.wait(60 * time.Second); err != nil {
		t.Errorf("the deploy should have been finished by the other: %v\n%s", err, d.out)
	}
	l.more(50)
	seen := l.end()
	if seen["hello-00001"] == 0 || seen["hello-00002"] == 0 {
		t.Errorf("both revisions should have answered: %v", seen)
	}
	s := r.statusBy(r.b, "hello")
	if s.serving() != "hello-00002" || len(s.Revisions) != 2 {
		t.Errorf("the deploy should be finished by the same revision: %+v", s)
	}
	// The dead one returns, and stands by.
	r.a.process = r.start("control", "--data", r.a.data, "--api", r.a.api, "--ops", r.a.ops, "--store", r.server.URL,
		"--authority", filepath.Join(r.data, "authority"), "--bucket", filepath.Join(r.data, "bucket"))
	r.a.waitFor("stands by", 20*time.Second)
	if s := r.statusBy(r.a, "hello"); s.serving() != "hello-00002" || len(s.Instances) == 0 || s.Routes.Acknowledged != 1 {
		t.Errorf("the standby should tell what the leader knows: %+v", s)
	}
}

func TestALeaderStoppedSucceededAndContinuedIsNotObeyedAndStandsBy(t *testing.T) {
	t.Parallel()
	r := newRegion(t)
	r.must(r.by(r.a, "deploy", "hello", "--", testapp)...)
	l := r.startLoad("hello", "/", 4)
	d := r.start(r.by(r.b, "deploy", "hello", "--env", "A=b")...)
	d.waitFor("instances", 10*time.Second)
	r.a.signal(syscall.SIGSTOP) // it holds open streams, and is about to command
	r.led(r.b)
	if err := d.wait(60 * time.Second); err != nil {
		t.Errorf("the deploy should have been finished by the other: %v\n%s", err, d.out)
	}
	r.must(r.by(r.b, "deploy", "hello", "--env", "A=c")...)
	pid := r.pidOf("hello")
	r.a.signal(syscall.SIGCONT)
	r.a.waitFor("this control leads no more", 10*time.Second)
	eventually(t, 10*time.Second, "the one that slept stands by", func() bool {
		resp, err := http.Get("http://" + r.a.ops + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	l.more(200)
	l.end()
	if now := r.pidOf("hello"); now != pid {
		t.Errorf("pid %d serves, expected %d: somebody obeyed who slept", now, pid)
	}
	if strings.Contains(r.b.out.String(), "leads no more") {
		t.Error("the successor should not have been disturbed")
	}
	for name, p := range map[string]plane{"the leader": r.b, "the one that stands by": r.a} {
		s := r.statusBy(p, "hello")
		if s.serving() != "hello-00003" || len(s.Revisions) != 3 || s.Routes.Acknowledged != 1 {
			t.Errorf("by %s: %+v", name, s)
		}
	}
	r.must(r.by(r.a, "deploy", "hello", "--env", "A=d")...)
	if s := r.statusBy(r.a, "hello"); s.serving() != "hello-00004" {
		t.Errorf("a deploy by the one that stands by: %+v", s)
	}
}

func TestPostgreSQLRestartedInMidSagaTheDeployIsFinished(t *testing.T) {
	t.Parallel()
	r := newRegion(t)
	r.must(r.by(r.a, "deploy", "hello", "--", testapp)...)
	l := r.startLoad("hello", "/", 4)
	for i, interrupt := range []func() error{
		r.server.Restart,
		func() error { // a crash, and away for longer than a term
			if err := r.server.Crash(); err != nil {
				return err
			}
			eventually(t, succession, "nobody leads", func() bool {
				said := r.a.out.String() + r.b.out.String()
				return strings.Count(said, "this control leads no more") == strings.Count(said, "this control leads\n")
			})
			l.more(200)
			return r.server.StartAgain()
		},
	} {
		d := r.start(r.by(r.a, "deploy", "hello", "--env", "ROUND="+string(rune('a'+i)))...)
		d.waitFor("instances", 10*time.Second)
		if err := interrupt(); err != nil {
			t.Fatal(err)
		}
		if err := d.wait(90 * time.Second); err != nil {
			t.Errorf("round %d: the deploy should have been finished: %v\n%s", i, err, d.out)
		}
	}
	l.more(50)
	l.end()
	var s status
	eventually(t, 20*time.Second, "one of them leads", func() bool {
		got := r.run(r.by(r.a, "status", "hello", "-o", "json")...)
		if got.code != 0 {
			return false
		}
		s = readStatus(t, got.stdout)
		return s.serving() == "hello-00003"
	})
	if len(s.Revisions) != 3 {
		t.Errorf("each deploy should be finished by its own revision: %+v", s)
	}
}
