package control_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Two hours without a control plane, with something of every kind at hand when
// it stops: what serves, what is kept warm, what is being deployed, what failed
// and waits, what is paused, what a gateway that is cut off routes to, and what
// is being deleted.

// absence is such a region, with all of it under way.
func absence(r *rig) {
	r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
		return hosttest.Behaviour{NeverListens: runs(a, "broken"), ReadyAfter: time.Second}
	})
	for _, name := range []string{"steady", "warm", "deploying", "failing", "paused", "lagging", "deleted"} {
		r.write(name, func(d *service.Desired) { d.Instances, d.Template.Command = 2, []string{"one"} })
		r.serves(20*time.Second, name, name+"-00001")
	}
	r.deploy("warm", "two")
	r.serves(20*time.Second, "warm", "warm-00002")
	r.gateways.Gateway("g2").Cut()
	r.deploy("lagging", "two")
	r.within(20*time.Second, "it is deployed without g2", func() bool { return r.catalog("lagging").Latest == "lagging-00002" })
	r.write("failing", func(d *service.Desired) {
		d.Template.Command, d.Template.ReadyTimeout = []string{"broken"}, 5*time.Second
	})
	r.within(20*time.Second, "the attempt failed", func() bool { return r.deploySaga("failing").State == saga.Waiting })
	r.deploy("paused", "two")
	r.within(20*time.Second, "it waits for readiness", func() bool { return r.deploySaga("paused").At() == "ready" })
	r.verb("paused", service.Pause)
	r.within(20*time.Second, "it is held before its routes", func() bool { return r.deploySaga("paused").At() == "routes" })
	r.deploy("deploying", "two")
	r.within(20*time.Second, "it waits for readiness", func() bool { return r.deploySaga("deploying").At() == "ready" })
	r.delete("deleted")
}

// known are the members and revisions of the store.
func (r *rig) known() []string {
	var out []string
	for _, g := range list[service.Gateway](r, service.KindGateway, "") {
		out = append(out, "gateway "+g.Name)
	}
	for _, h := range list[service.Host](r, service.KindHost, "") {
		out = append(out, "host "+h.Name)
	}
	for _, v := range list[service.Revision](r, service.KindRevision, "") {
		if v.Service != "deleted" {
			out = append(out, "revision "+v.Name)
		}
	}
	slices.Sort(out)
	return out
}

// processes are the identities of what runs, but of what is deleted or broken.
func (r *rig) processes() []string {
	var out []string
	for _, i := range r.hosts.Running() {
		if i.Service != "deleted" && i.Revision != "failing-00002" {
			out = append(out, i.ID+" of "+i.Revision)
		}
	}
	slices.Sort(out)
	return out
}

func TestControlStoppedForTwoHoursForgetsStopsAndCollectsNothingOnItsReturn(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		a := r.start(options{warm: 30 * time.Minute})
		absence(r)
		one, two := r.watched("steady", "g1"), r.watched("lagging", "g2")
		known, processes := r.known(), r.processes()
		a.stop()
		r.hosts.Disconnect("b")
		time.Sleep(2 * time.Hour)
		if now := r.processes(); !slices.Equal(now, processes) {
			t.Errorf("while nobody led, what runs changed:\n%q\nto\n%q", processes, now)
		}
		b := r.start(options{warm: 30 * time.Minute})
		time.Sleep(20 * time.Second) // until the other host has found it too
		r.hosts.Connect("b")
		r.within(time.Minute, "the deploy is finished", func() bool { return r.catalog("deploying").Latest == "deploying-00002" })
		time.Sleep(10 * time.Minute)
		if now := r.known(); !slices.Equal(now, known) {
			t.Errorf("known before:\n%q\nand after:\n%q", known, now)
		}
		for _, p := range processes {
			if !slices.Contains(r.processes(), p) && !strings.Contains(p, "deploying-00002") { // whose slot on b was placed anew: nothing led there yet
				t.Errorf("%s runs no more", p)
			}
		}
		r.stillAtHand(b)
		one()
		two()
	})
}

// stillAtHand says that each thing goes on where it was.
func (r *rig) stillAtHand(c *running) {
	r.t.Helper()
	if s := r.deploySaga("paused"); s.Subject != "paused-00002" || !s.Open() || s.Attempt != 1 {
		r.t.Errorf("what was paused: %+v", s)
	}
	if s := r.deploySaga("failing"); s.Subject != "failing-00002" || !s.Open() || s.Attempt < 2 || s.Attempt > 20 {
		r.t.Errorf("what failed and waited: %+v", s)
	}
	if alarms := strings.Join(c.Alarms(), "; "); !strings.Contains(alarms, "gateway g2 is not heard") {
		r.t.Errorf("alarms: %q", alarms)
	}
	choice, err := r.rollback("warm", "")
	if err != nil || !choice.Warm {
		r.t.Errorf("what was warm is so no more: %+v, %v", choice, err)
	}
	r.gateways.Gateway("g2").Heal()
	r.leads(10*time.Second, "warm", "warm-00001")
	r.verb("paused", service.Resume)
	r.serves(30*time.Second, "paused", "paused-00002")
	r.serves(10*time.Second, "lagging", "lagging-00002")
	r.within(10*time.Minute, "the deletion is finished", func() bool { return r.remains("deleted") == 0 })
	r.within(time.Hour, "what nothing refers to any more is collected", func() bool { return len(r.live("lagging-00001")) == 0 })
}
