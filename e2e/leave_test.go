package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
)

// liveOn are the service's instances that are live on a host.
func (p *plant) liveOn(service, host string) (live []instance) {
	for _, i := range p.status(service).Instances {
		if i.Host == host && i.State == "live" && alive(i.Pid) {
			live = append(live, i)
		}
	}
	return live
}

// bothAttached waits until instances can be placed on both hosts.
func (p *plant) bothAttached() {
	p.t.Helper()
	eventually(p.t, 10*time.Second, "both hosts are attached", func() bool { return strings.Count(p.must("hosts").stdout, " yes ") == 2 })
}

// allOfOneHostKilled kills what a host runs of a service: each is started again
// within two seconds, by the instant that its identity tells.
func (p *plant) allOfOneHostKilled(service, host string) {
	p.t.Helper()
	before := p.liveOn(service, host)
	p.killInstances(service, host)
	killed := time.Now()
	var now []instance
	eventually(p.t, 30*time.Second, "all of them are live again", func() bool {
		now = slices.DeleteFunc(p.liveOn(service, host), func(i instance) bool {
			return slices.ContainsFunc(before, func(b instance) bool { return b.ID == i.ID })
		})
		return len(now) == len(before)
	})
	for _, i := range now {
		id, err := ulid.Parse(i.ID)
		if err != nil {
			p.t.Fatalf("instance %s: %v", i.ID, err)
		}
		if after := id.Timestamp().Sub(killed); after > 2*time.Second {
			p.t.Errorf("slot %s got its next process %s after the kill", i.Slot, after)
		}
	}
}

// leaves has a host end in order, and waits for its end.
func (m *member) leaves(within time.Duration) {
	m.plant.t.Helper()
	m.signal(syscall.SIGTERM)
	if err := m.process.wait(within); err != nil {
		m.plant.t.Errorf("%s ended with %v", m.name, err)
	}
}

func TestAHostThatEndsInOrderLosesNothingAndWhatItRanIsServedByOthersBeforeItsEnd(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.bothAttached()
	p.deploy("hello", "--instances", "4")
	p.must(append(p.deployArgs("solo", "--handover", "exclusive"), "-alone", p.data+"/alone")...)
	p.agree("hello", "hello-00001", 10*time.Second)
	p.agree("solo", "solo-00001", 10*time.Second)
	hello, solo := p.call("hello", 6, "hello-00001"), p.call("solo", 2, "solo-00001")
	hello.more(100)

	leaves, stays := p.hosts[1], p.hosts[0]
	if at := p.status("solo").Instances[0].Host; at == stays.name {
		leaves, stays = stays, leaves
	}
	leaves.leaves(50 * time.Second)
	if out := leaves.out.String(); !strings.Contains(out, "the host is empty") {
		t.Errorf("%s ended before it was empty:\n%s", leaves.name, leaves.out.tail(40))
	}
	if here, there := p.liveOn("hello", stays.name), p.liveOn("solo", stays.name); len(here) != 4 || len(there) != 1 {
		t.Errorf("when %s has ended %d and %d are live on the other: %+v", leaves.name, len(here), len(there), p.status("hello").Instances)
	}
	hello.more(200)
	solo.more(50)
	if out := p.must("hosts").stdout; !strings.Contains(out, " left ") {
		t.Errorf("it is not said that it left:\n%s", out)
	}
	leaves.again()
	p.bothAttached()
	note := "hello: 4 of 4 instances on host " + stays.name + "; " + leaves.name + " has room; `fairlead restart hello` spreads them"
	for _, args := range [][]string{{"hosts"}, {"status", "hello"}, {"explain", "hello"}} {
		if out := p.must(args...).stdout; !strings.Contains(out, note) {
			t.Errorf("%v does not say that they gathered on one host:\n%s", args, out)
		}
	}
	p.must("restart", "hello")
	if here, there := p.liveOn("hello", stays.name), p.liveOn("hello", leaves.name); len(here) != 2 || len(there) != 2 {
		t.Errorf("after the restart %d and %d are live", len(here), len(there))
	}
	hello.more(100)
	p.allOfOneHostKilled("hello", stays.name)
	hello.more(100)
	hello.end()
	solo.end()
	if out := p.must("events", "hello").stdout; !strings.Contains(out, "host "+leaves.name+": its process ends") {
		t.Errorf("the history does not say why:\n%s", out)
	}
	p.couldBe("hello")
	p.couldBe("solo")
}

func TestAHostThatEndsWhereNoOtherCanTakeWhatItRunsSaysSoAndDoesNotWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--", testapp)
	pid := f.pidOf("hello")
	f.host.signal(syscall.SIGTERM)
	if err := f.host.wait(30 * time.Second); err != nil { // it would wait for 60 s
		t.Errorf("it ended with %v", err)
	}
	if out := f.host.out.String(); !strings.Contains(out, "nothing else can take what runs here") || alive(pid) {
		t.Errorf("process %d lives: %v; it says:\n%s", pid, alive(pid), f.host.out.tail(20))
	}
	f.host = f.startHost()
	eventually(t, 20*time.Second, "what was assigned runs again", func() bool {
		code, body, _, err := f.tryGet("hello", "/")
		return err == nil && code == 200 && strings.HasPrefix(body, "hello-00001")
	})
	f.control.kill()
	f.host.signal(syscall.SIGTERM)
	if err := f.host.wait(30 * time.Second); err != nil {
		t.Errorf("without control it ended with %v", err)
	}
	if out := f.host.out.String(); !strings.Contains(out, "control is not connected") {
		t.Errorf("it does not say that there is no control:\n%s", f.host.out.tail(20))
	}
}

func TestHostsAreDrainedUndrainedAndRetired(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.bothAttached()
	p.deploy("hello", "--instances", "2")
	p.agree("hello", "hello-00001", 10*time.Second)
	c := p.call("hello", 4, "hello-00001")
	c.more(50)
	if r := p.run("hosts", "drain", "nobody"); r.code == 0 || !strings.Contains(r.all(), "h1, h2") {
		t.Errorf("exit %d of draining a host that is not known:\n%s", r.code, r.all())
	}
	for range 2 { // it is done already the second time
		if out := p.must("hosts", "drain", "h1").stdout; !strings.Contains(out, "it is drained") {
			t.Errorf("it says %q", out)
		}
	}
	eventually(t, 30*time.Second, "nothing runs there", func() bool {
		return strings.Contains(p.must("hosts").stdout, "h1: it is drained: nothing runs there") && len(p.liveOn("hello", "h2")) == 2
	})
	p.control.kill()
	p.hosts[0].kill()
	p.hosts[0].again()
	p.control.again()
	p.bothAttached()
	if out := p.must("hosts").stdout; !strings.Contains(out, "draining") {
		t.Errorf("control and host forgot it when they were started anew:\n%s", out)
	}
	c.more(50)

	// Nothing else can take them: they stay, and it is said.
	out := p.must("hosts", "drain", "h2").stdout
	if !strings.Contains(out, "stays (hello 2)") || !strings.Contains(out, "host h1: it is drained") {
		t.Errorf("it says %q", out)
	}
	if out := p.must("explain", "hello").stdout; !strings.Contains(out, "nothing else can take") {
		t.Errorf("explain does not say that they stay:\n%s", out)
	}
	c.more(50)
	p.must("hosts", "undrain", "h2")
	p.must("hosts", "undrain", "h2")

	// One that is there is not retired; one that has ended in order is at once.
	if r := p.run("hosts", "retire", "h1"); r.code == 0 || !strings.Contains(r.all(), "is connected") {
		t.Errorf("exit %d of retiring a host that is connected:\n%s", r.code, r.all())
	}
	p.hosts[0].leaves(30 * time.Second)
	p.must("hosts", "retire", "h1")
	if out := p.must("hosts").stdout; strings.Contains(out, "h1") {
		t.Errorf("it is still a member:\n%s", out)
	}
	c.more(50)
	c.end()
	p.hosts[0].again() // it is a member anew, and takes instances
	eventually(t, 10*time.Second, "it is a member again", func() bool { return strings.Contains(p.must("hosts").stdout, "h1 ") })
	p.deploy("other", "--instances", "2")
	if len(p.liveOn("other", "h1")) != 1 {
		t.Errorf("it gets nothing: %+v", p.status("other").Instances)
	}
}

// One host hears nothing of control, and all gateways hear it: what it runs is
// neither taken for lost nor run twice, however long that lasts.
func TestAHostThatIsCutOffFromControlAloneKeepsItsProcessesAsLongAsGatewaysHearIt(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	link := startRelay(t, p.api)
	at := p.api
	p.api = link.address
	p.addHost("far", "c", p.token("host"))
	p.api = at
	eventually(t, 10*time.Second, "all hosts are attached", func() bool { return strings.Count(p.must("hosts").stdout, " yes ") == 3 })
	p.deploy("hello", "--instances", "3")
	p.agree("hello", "hello-00001", 10*time.Second)
	before := p.liveOn("hello", "far")
	if len(before) != 1 {
		t.Fatalf("the instances are not spread: %+v", p.status("hello").Instances)
	}
	c := p.call("hello", 4, "hello-00001")
	c.more(50)
	link.hold()
	p.control.waitFor("host far is not heard, and polls gateway", 60*time.Second)
	time.Sleep(35 * time.Second) // longer than the lease of a host
	c.more(50)
	if !alive(before[0].Pid) || len(p.liveOn("hello", "h1")) != 1 || len(p.liveOn("hello", "h2")) != 1 {
		t.Errorf("process %d lives: %v; there are %+v", before[0].Pid, alive(before[0].Pid), p.status("hello").Instances)
	}
	link.release()
	eventually(t, 20*time.Second, "it is heard again", func() bool { return strings.Count(p.must("hosts").stdout, " yes ") == 3 })
	if now := p.liveOn("hello", "far"); len(now) != 1 || now[0].ID != before[0].ID {
		t.Errorf("when it is heard again it runs %+v, before it ran %+v", now, before)
	}
	c.more(50)
	c.end()
}

func TestASecondSignalEndsAHostThatLeavesAtOnceAndLeavesWhatItRunsToBeAdopted(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.bothAttached()
	p.deploy("hello", "--instances", "2", "--ready-path", "/")
	p.agree("hello", "hello-00001", 10*time.Second)
	h := p.hosts[1]
	mine := p.liveOn("hello", h.name)
	h.signal(syscall.SIGTERM)
	h.waitFor("a second Ctrl-C ends at once", 10*time.Second)
	h.signal(syscall.SIGTERM)
	if err := h.process.wait(30 * time.Second); err == nil {
		t.Error("it ended as if it had waited")
	}
	if len(mine) != 1 || !alive(mine[0].Pid) {
		t.Errorf("what it ran was to be left: %+v", mine)
	}
	h.again()
	eventually(t, 30*time.Second, "two are live, and nothing else runs", func() bool {
		return len(p.liveOn("hello", "h1"))+len(p.liveOn("hello", "h2")) == 2 && len(p.status("hello").Instances) == 2
	})
}
