package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
)

// steps of a deploy.
var steps = []string{"queue", "install", "instances", "ready", "routes", "finalize"}

// The controller dies by SIGKILL as it is about to record a step, or when the
// record is made and its answer is not: at each step of a deploy, under load.
func TestControlKilledBeforeAndAfterTheRecordOfEachStepTheSameRevisionIsFinished(t *testing.T) {
	for name, fault := range map[string]crashpoints.Fault{"before": crashpoints.CrashBefore, "after": crashpoints.CrashAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, f := newFaultyPlant(t, "--ready-dwell", "500ms")
			p.deploy("hello")
			c := p.call("hello", 4)
			for i, step := range steps {
				was, is := fmt.Sprintf("hello-%05d", i+1), fmt.Sprintf("hello-%05d", i+2)
				c.expect(was, is)
				death := f.at(t, fault, "event hello.", "deploy "+step+":")
				p.deploys(p.deployArgs("hello", "--env", "STEP="+step), func() {
					p.dies(p.control)
					p.control.again()
				})
				if death.hits() != 1 {
					t.Errorf("%s: control died %d times", step, death.hits())
				}
				p.agree("hello", is, 10*time.Second)
				c.expect(is)
				c.more(20)
				p.finished("hello", 1, i+2)
			}
			c.end()
		})
	}
}

// silence is for how long control has not heard a host; zero while that is connected
// and speaks.
func (p *plant) silence(host *member) time.Duration {
	p.t.Helper()
	var list struct {
		Hosts []struct {
			Name, Silent string
			Connected    bool
		}
	}
	if err := json.Unmarshal([]byte(p.must("hosts", "-o", "json").stdout), &list); err != nil {
		p.t.Fatal(err)
	}
	for _, h := range list.Hosts {
		silent, err := time.ParseDuration(h.Silent)
		if err != nil {
			p.t.Fatal(err)
		}
		if h.Name == host.name && (!h.Connected || silent > 2*time.Second) {
			return silent
		}
	}
	return 0
}

// deploys runs a deploy to its successful end; meanwhile does something in the
// middle of it.
func (p *plant) deploys(args []string, meanwhile func()) {
	p.t.Helper()
	d := p.start(args...)
	meanwhile()
	err := d.wait(again)
	if d.cmd.ProcessState.ExitCode() == 3 && !strings.Contains(d.out.String(), "queue ") {
		// Control died after the write and before its answer: who asked asks
		// again, and follows the same deploy.
		p.must(args...)
		return
	}
	if err != nil {
		p.t.Errorf("the deploy should have been finished: %v\n%s", err, d.out)
	}
}

// dies waits until the member has ended, by itself.
func (p *plant) dies(m *member) {
	p.t.Helper()
	if err := m.wait(30 * time.Second); err == nil || m.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		p.t.Fatalf("%s was to die by SIGKILL: %v", m.name, err)
	}
}

// A gateway is killed when the routes are being published, before it can have
// acknowledged them, and when it may have.
func TestEachGatewayKilledWhileRoutesArePublishedTheDeployIsFinished(t *testing.T) {
	t.Parallel()
	p, f := newFaultyPlant(t, "--ready-dwell", "500ms")
	p.deploy("hello")
	c := p.call("hello", 4, one("hello"))
	n := 1
	for _, gateway := range p.gateways {
		for _, at := range []string{"published:", "deploy routes:"} {
			was, is := fmt.Sprintf("hello-%05d", n), fmt.Sprintf("hello-%05d", n+1)
			c.expect(was, is)
			slow := f.late(t, time.Second, "event hello.", at)
			p.deploys(p.deployArgs("hello", "--env", fmt.Sprintf("ROUND=%d", n)), func() {
				slow.hit(1, 30*time.Second)
				gateway.kill()
				eventually(t, 20*time.Second, "it is recorded while the gateway is away", func() bool {
					return strings.Contains(p.must("events", "hello").stdout, at+" 100% to "+is)
				})
				gateway.again()
			})
			p.agree("hello", is, 20*time.Second)
			c.expect(is)
			c.more(50)
			p.finished("hello", 1, n+1)
			n++
		}
	}
	c.end()
}

// Each host is killed at a moment when one deploy is at install, another at
// instances and a third at ready.
func TestEachHostKilledDuringInstallInstancesAndReadyTheDeploysAreFinished(t *testing.T) {
	t.Parallel()
	p, f := newFaultyPlant(t)
	services := []string{"installs", "instances", "readies"}
	callers := map[string]*caller{}
	for _, s := range services {
		p.deploy(s, "--instances", "2")
		callers[s] = p.call(s, 2, one(s))
	}
	for round, host := range p.hosts {
		started := map[string]*process{}
		deploy := func(s string) {
			callers[s].expect(fmt.Sprintf("%s-%05d", s, round+1), fmt.Sprintf("%s-%05d", s, round+2))
			started[s] = p.start(p.deployArgs(s, "--env", fmt.Sprintf("ROUND=%d", round))...)
		}
		deploy("readies")
		started["readies"].waitFor("instances ", 30*time.Second)
		install := f.late(t, time.Second, "prepare", fmt.Sprintf("installs-%05d on %s", round+2, host.name))
		instances := f.late(t, time.Second, "assign", fmt.Sprintf("instances-%05d", round+2))
		deploy("installs")
		deploy("instances")
		install.hit(1, 30*time.Second)
		instances.hit(1, 30*time.Second)
		host.kill()
		eventually(t, 20*time.Second, "control has noticed that the host is away", func() bool { return p.silence(host) > 0 })
		host.again()
		for _, s := range services {
			is := fmt.Sprintf("%s-%05d", s, round+2)
			if err := started[s].wait(again); err != nil {
				t.Logf("%s in its first attempt:\n%s", s, started[s].out)
			}
			p.agree(s, is, again)
			callers[s].expect(is)
			callers[s].more(20)
			if got := p.status(s); len(got.Revisions) != round+2 || got.Deployment.State != "done" {
				t.Errorf("the same revision of %s should be finished: %+v %+v", s, got.Deployment, got.Revisions)
			}
		}
	}
	for _, c := range callers {
		c.end()
	}
}

// Each host stands still for some seconds while it is asked whether it can run
// what is deployed: its late answer settles it, within the same attempt.
func TestAHostThatStandsStillForSomeSecondsAtInstallFailsNoDeploy(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.deploy("hello", "--instances", "2")
	c := p.call("hello", 2, one("hello"))
	for i, host := range p.hosts {
		was, is := fmt.Sprintf("hello-%05d", i+1), fmt.Sprintf("hello-%05d", i+2)
		c.expect(was, is)
		host.stop()
		p.deploys(p.deployArgs("hello", "--env", fmt.Sprintf("ROUND=%d", i)), func() {
			// Longer than a host waits for a word of control.
			eventually(t, 20*time.Second, "it is silent for 6 s", func() bool { return p.silence(host) > 6*time.Second })
			host.resume()
		})
		p.agree("hello", is, 20*time.Second)
		p.finished("hello", 1, i+2)
		c.expect(is)
		c.more(20)
	}
	c.end()
}

// All processes die at once in the middle of a deploy: control, gateways, hosts
// and instances. When they are started again the deploy is finished.
func TestEverythingKilledAtOnceInMidDeployIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.deploy("hello", "--instances", "2")
	c := p.call("hello", 4, one("hello"))
	c.more(50)
	c.expect(one("hello"), two("hello"))
	p.deploys(p.deployArgs("hello", "--env", "A=b"), func() {
		eventually(t, 20*time.Second, "the deploy is in its middle", func() bool { return p.status("hello").Deployment.Step == "ready" })
		p.away(instancesOf("hello"))
		for _, m := range append(append([]*member{p.control}, p.gateways...), p.hosts...) {
			m.kill()
		}
		killStrays(t, filepath.Join(p.data, "host"))
		p.died(instancesOf("hello"))
		for _, m := range append(append([]*member{p.control}, p.hosts...), p.gateways...) {
			m.again()
		}
		p.back(instancesOf("hello"), 0)
	})
	p.agree("hello", two("hello"), 20*time.Second)
	c.expect(two("hello"))
	c.more(50)
	p.finished("hello", 1, 2)
	c.end()
}

// Who waits for a deploy is killed and asks again: it is the same deploy.
func TestTheCommandKilledInMidDeployAndStartedAgainFollowsTheSameDeploy(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.deploy("hello")
	c := p.call("hello", 4, one("hello"))
	for i, step := range []string{"instances", "routes"} {
		was, is := fmt.Sprintf("hello-%05d", i+1), fmt.Sprintf("hello-%05d", i+2)
		c.expect(was, is)
		args := p.deployArgs("hello", "--env", "STEP="+step)
		d := p.start(args...)
		d.waitFor(step, 30*time.Second)
		d.kill()
		if out := p.must(args...).all(); step == "instances" && len(out) == 0 {
			t.Error("the second one said nothing")
		}
		p.agree("hello", is, 10*time.Second)
		c.expect(is)
		c.more(50)
		p.finished("hello", 1, i+2)
	}
	c.end()
}
