package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// addProber runs a prober as a process of its own.
func (p *plant) addProber(name, zone string) *member {
	token := p.token("prober")
	m := p.member(name, "prober is up", func() *exec.Cmd {
		return exec.Command(fairlead, "prober", "--name", name, "--zone", zone, "--data", p.data, "--control", p.api, "--ops", "127.0.0.1:0", "--token", token)
	})
	m.again()
	return m
}

// proberStatus is one line of `fairlead probers`.
type proberStatus struct {
	Name, Zone               string
	Connected, Gone, Suspect bool
	Targets, Borrowed        int
	Assignment               string
}

func (w *world) probers() map[string]proberStatus {
	w.t.Helper()
	var all struct{ Probers []proberStatus }
	out := w.must("probers", "-o", "json").stdout
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		w.t.Fatalf("cannot read probers: %v\n%s", err, out)
	}
	by := map[string]proberStatus{} // :: prober → it
	for _, s := range all.Probers {
		by[s.Name] = s
	}
	return by
}

// probedOnly has probes alone decide about the service.
func (w *world) probedOnly(service string) {
	w.t.Helper()
	cmd := exec.Command(fairlead, "contract", "set", service, "-f", "-")
	cmd.Env, cmd.Stdin = w.env(), strings.NewReader("profile: {probe: true}\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("cannot declare a contract: %v\n%s", err, out)
	}
}

func TestProbersFindAClosedPortAndAStalledProcessAndTheirOwnLossRemovesNobody(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	probers := []*member{p.addProber("p-a1", "a"), p.addProber("p-a2", "a"), p.addProber("p-b1", "b")}
	p.deploy("plain", "--instances", "4")
	p.deploy("asked", "--instances", "4", "--ready-path", "/")
	eligible := func(service string) (n int) {
		for _, s := range p.instances(service) {
			if s.Verdict == "eligible" {
				n++
			}
		}
		return n
	}
	eventually(t, 30*time.Second, "probers look at all instances", func() bool {
		by := p.probers()
		return by["p-a1"].Targets == 4 && by["p-a2"].Targets == 4 && by["p-b1"].Targets == 4 && eligible("plain") == 4 && eligible("asked") == 4
	})
	for service, how := range map[string]string{"plain": "by tcp", "asked": "by http /"} {
		p.probedOnly(service)
		for _, i := range p.status(service).Instances {
			by := map[string]string{"a": "probed by p-a1, p-a2; each", "b": "probed by p-b1 (alone); each"}[i.Zone]
			eventually(t, 20*time.Second, "it is said who looks at "+i.ID, func() bool {
				out := p.must("explain", service+"/"+i.ID).stdout
				return strings.Contains(out, by) && strings.Contains(out, how) && strings.Contains(out, "self: its profile has none")
			})
		}
	}

	// A control that starts anew goes on with the assignment that is recorded.
	before := p.probers()
	p.control.kill()
	p.control.again()
	eventually(t, 30*time.Second, "the probers are back", func() bool {
		by := p.probers()
		return by["p-a1"].Connected && by["p-a2"].Connected && by["p-b1"].Connected
	})
	for name, b := range p.probers() {
		if b.Assignment != before[name].Assignment || b.Targets != before[name].Targets {
			t.Errorf("%s had %+v, and has %+v", name, before[name], b)
		}
	}
	p.hurt("asked", syscall.SIGSTOP, "failing-probes", "timed out")
	if n := eligible("asked"); n != 2 {
		t.Errorf("of the healthy ones %d are eligible", n)
	}

	probers[1].signal(syscall.SIGSTOP)
	eventually(t, 30*time.Second, "the stopped prober is silent", func() bool { return p.probers()["p-a2"].Gone })
	if out := p.must("info").stdout; !strings.Contains(out, "prober p-a2 of zone a has been silent") {
		t.Errorf("no alarm names it:\n%s", out)
	}
	probers[0].kill()
	eventually(t, 30*time.Second, "the next zone's prober looks at all", func() bool {
		b := p.probers()["p-b1"]
		return b.Targets == 8 && b.Borrowed == 4
	})
	probers[2].kill()
	eventually(t, time.Minute, "all healthy ones are unknown, and the alarm names the probers", func() bool {
		return strings.Contains(p.must("info").stdout, "none of the probers [p-a1 p-a2 p-b1] is heard; 6 of 8 instances are unknown")
	})
	if out := p.must("history", "plain").stdout; strings.Contains(out, "  ineligible  ") {
		t.Errorf("the probers were ill, and it left:\n%s", out)
	}

	probers[1].signal(syscall.SIGCONT)
	probers[0].again()
	eventually(t, time.Minute, "the probers that are back look at all", func() bool {
		by := p.probers()
		return by["p-a1"].Targets == 8 && by["p-a2"].Targets == 8 && eligible("plain") == 4 && eligible("asked") == 2
	})
	if out := p.must("probers").stdout; !strings.Contains(out, "p-b1 is silent") {
		t.Errorf("the listing does not say who is silent:\n%s", out)
	}
	p.hurt("plain", syscall.SIGUSR2, "refused-to-probers", "refused")
}

// hurt sends a signal to one of the service's instances in each zone, and waits
// until each is out by the rule; it is to be said what the probers saw.
func (p *plant) hurt(service string, how syscall.Signal, rule, saw string) {
	p.t.Helper()
	hurt := map[string]string{} // :: zone → instance
	for _, i := range p.status(service).Instances {
		if hurt[i.Zone] != "" {
			continue
		}
		hurt[i.Zone] = i.ID
		if err := syscall.Kill(i.Pid, how); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, id := range hurt {
		eventually(p.t, time.Minute, service+"/"+id+" is out by "+rule, func() bool {
			s := p.instances(service)[id]
			return s.Verdict == "ineligible" && s.Rule == rule
		})
		if out := p.must("explain", service+"/"+id).stdout; !strings.Contains(out, ": "+saw) {
			p.t.Errorf("it is not said what was seen:\n%s", out)
		}
	}
}
