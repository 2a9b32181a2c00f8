package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// release is one version of the program.
type release struct{ name, program string }

// upgrade is an installation whose roles are each of one version or the other,
// with a service that is asked through both gateways all the time.
type upgrade struct {
	*world
	control, host *process
	gateways      []*upgradeGateway
	pid           int // of the instance that serves
	deploys       int
}

type upgradeGateway struct {
	*world // with its address
	name   string
	*process
	load *load
}

func newUpgrade(t *testing.T, r release) *upgrade {
	u := &upgrade{world: newWorld(t)}
	for _, name := range []string{"gw-a", "gw-b"} {
		at := *u.world
		at.gateway, at.poll = freeAddress(t), freeAddress(t)
		u.gateways = append(u.gateways, &upgradeGateway{world: &at, name: name})
	}
	u.world.gateway = u.gateways[0].world.gateway
	u.startControl(r)
	for _, g := range u.gateways {
		u.startGateway(g, r, "--token", u.token("gateway"))
	}
	u.startHost(r, "--token", u.token("host"))
	u.must("deploy", "hello", "--", testapp)
	u.deploys, u.pid = 1, u.pidOf("hello")
	for _, g := range u.gateways {
		g.load = g.startLoad("hello", "/", 2)
	}
	return u
}

func (u *upgrade) startRole(r release, role string, args ...string) *process {
	u.t.Helper()
	p := u.startCommand(exec.Command(r.program, append([]string{role, "--data", u.data}, args...)...))
	p.name = role + " " + r.name
	p.waitFor(role+" is up", 20*time.Second)
	return p
}

func (u *upgrade) startControl(r release) {
	u.control = u.startRole(r, "control", "--api", u.api, "--ops", u.ops)
}

func (u *upgrade) startGateway(g *upgradeGateway, r release, extra ...string) {
	g.process = u.startRole(r, "gateway", append(extra, "--name", g.name, "--control", u.api, "--listen", g.world.gateway, "--poll", g.poll, "--ops", "127.0.0.1:0")...)
}

func (u *upgrade) startHost(r release, extra ...string) {
	u.host = u.startRole(r, "host", append(extra, "--name", "h1", "--zone", "a", "--control", u.api, "--ops", "127.0.0.1:0")...)
}

// more waits until both gateways have answered more.
func (u *upgrade) more() {
	u.t.Helper()
	for _, g := range u.gateways {
		g.load.more(20)
	}
}

// cut kills the control of one version when a deploy has done the step, and
// lets the other version go on: it finishes the same revision in the same
// attempt, and the command of the first version that waits for it sees it.
func (u *upgrade) cut(from, to release, step string) {
	u.t.Helper()
	u.deploys++
	want, at := fmt.Sprintf("hello-%05d", u.deploys), from.name+" to "+to.name+", cut after "+step
	d := u.startCommand(exec.Command(from.program, "deploy", "hello", "--env", "ROUND="+want))
	d.waitFor(step, 20*time.Second)
	u.control.kill()
	u.more()
	u.startControl(to)
	if err := d.wait(60 * time.Second); err != nil {
		u.t.Fatalf("%s: the command should have seen the deploy done: %v\n%s", at, err, d.out)
	}
	s := u.status("hello")
	if s.serving() != want || s.Deployment.Attempt > 1 {
		u.t.Fatalf("%s: %s should serve after one attempt: %+v", at, want, s)
	}
	for _, r := range s.Revisions {
		if r.Name > want {
			u.t.Fatalf("%s: %s was minted for the same intent: %+v", at, r.Name, s.Revisions)
		}
	}
	u.pid = u.pidOf("hello")
	u.more()
}

// replace kills the host and one gateway after the other, and starts those of
// the other version on what they left: the same process serves throughout.
func (u *upgrade) replace(to release) {
	u.t.Helper()
	u.host.kill()
	u.more()
	u.startHost(to)
	for _, g := range u.gateways {
		g.load.end()
		g.kill()
		u.startGateway(g, to)
		g.load = g.startLoad("hello", "/", 2)
		u.more()
	}
	eventually(u.t, 15*time.Second, "the process that serves is adopted, and both gateways follow", func() bool {
		s := u.status("hello")
		return s.Routes.Acknowledged == 2 && slices.ContainsFunc(s.Instances, func(i instance) bool { return i.Pid == u.pid && i.State == "live" })
	})
	if now := u.pidOf("hello"); now != u.pid {
		u.t.Fatalf("pid %d serves under the roles of %s, expected %d as before", now, to.name, u.pid)
	}
}

func TestTheCommitBeforeAndThisOneFinishEachOthersDeploysOnOneDataFolder(t *testing.T) {
	t.Parallel()
	program, commit := previousProgram(t)
	t.Logf("the program before is that of %s", commit)
	before, now := release{"before", program}, release{"now", fairlead}
	t.Run("each role a process", func(t *testing.T) {
		t.Parallel()
		u := newUpgrade(t, before)
		for _, way := range []struct {
			from, to release
			step     string
		}{{before, now, "instances"}, {now, before, "install"}, {before, now, "install"}} {
			u.cut(way.from, way.to, way.step)
			u.replace(way.to)
		}
		for _, g := range u.gateways {
			g.load.end()
		}
		u.must("delete", "hello")
	})
	t.Run("up", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.upOf(before)
		w.must("deploy", "hello", "--", testapp)
		for i, to := range []release{now, before} {
			p = w.cutUp(p, to, fmt.Sprintf("hello-%05d", i+2))
		}
	})
}

func (w *world) upOf(r release) *process {
	w.t.Helper()
	p := w.startCommand(exec.Command(r.program, "up", "--data", w.data, "--api", w.api, "--gateway", w.gateway, "--ops", w.ops, "--poll", w.poll))
	p.waitFor("fairlead is up", 20*time.Second)
	return p
}

// cutUp kills p in mid-deploy and starts the other version, which adopts what
// runs, serves it, and finishes the deploy.
func (w *world) cutUp(p *process, to release, want string) *process {
	w.t.Helper()
	pid := w.pidOf("hello")
	d := w.startCommand(exec.Command(fairlead, "deploy", "hello", "--env", "ROUND="+want))
	d.waitFor("instances", 20*time.Second)
	p.kill()
	if !alive(pid) {
		w.t.Fatal("the instance should live on after SIGKILL of everything else")
	}
	p = w.upOf(to)
	eventually(w.t, 10*time.Second, "what served before is adopted and answers", func() bool {
		code, body, _, err := w.tryGet("hello", "/")
		return err == nil && code == 200 && strings.HasPrefix(body, "hello-0000")
	})
	if err := d.wait(60 * time.Second); err != nil {
		w.t.Fatalf("up %s: the deploy should be finished: %v\n%s", to.name, err, d.out)
	}
	if s := w.status("hello"); s.serving() != want || s.Deployment.Attempt > 1 {
		w.t.Fatalf("up %s: %s should serve after one attempt: %+v", to.name, want, s)
	}
	return p
}
