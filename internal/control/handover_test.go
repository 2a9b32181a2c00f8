package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// share asks for a release on a request group that revisions share.
func (r *rig) share(name, release string) {
	r.write(name, func(d *service.Desired) { d.Template.Command, d.Template.Group = []string{release}, "workers" })
}

// swap asks for a release that cannot run beside another.
func (r *rig) swap(name, release string) {
	r.write(name, func(d *service.Desired) {
		d.Template.Command, d.Template.Handover, d.Template.ReadyTimeout = []string{release}, service.HandoverExclusive, 10*time.Second
	})
}

// oneAtATime fails the test when, from now until the returned function is
// called, processes of two revisions of the service run at one moment.
func (r *rig) oneAtATime(name string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			revisions := map[string]bool{}
			for _, i := range r.hosts.Running() {
				if i.Service == name {
					revisions[i.Revision] = true
				}
			}
			if len(revisions) > 1 {
				r.t.Errorf("two revisions run at once: %v", revisions)
				return
			}
			select {
			case <-done:
				return
			case <-r.over:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

func TestRevisionsThatShareAGroupHandOverByOneVersionOfTheTable(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		var plans []service.Routes
		p := &pointStore{}
		c := r.start(options{wrap: func(s store.Store) store.Store { p.Store = s; return p }})
		p.kill = c.cancel
		r.share("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
		p.hook = func(_ int, a store.Apply) {
			if writes(service.KindRoutes, "hello")(a) {
				routes, _ := get[service.Routes](r, service.KindRoutes, "hello")
				plans = append(plans, routes)
			}
		}
		r.share("hello", "two")
		r.within(2*time.Second, "both run", func() bool { return len(r.live("hello-00001")) == 1 && len(r.live("hello-00002")) == 1 })
		r.serves(10*time.Second, "hello", "hello-00002")
		one()
		two()
		if len(plans) != 1 {
			t.Fatalf("the table changed %d times", len(plans))
		}
		if s := plans[0].Plan.Splits; len(s) != 1 || s[0].Group != "hello.workers" || fmt.Sprint(s[0].Allowed) != "[hello-00002]" || s[0].Hold {
			t.Errorf("the right was moved by %+v", s)
		}
		if a := r.revision("hello-00001").GroupOf(); a != r.revision("hello-00002").GroupOf() {
			t.Errorf("the groups differ: %s", a)
		}
	})
}

func TestOneGroupNeverHasTwoRevisionsThatAreBothRoutedTo(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{warm: time.Hour})
		r.share("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.share("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		stop := r.watched("hello", "g1")
		r.write("hello", func(d *service.Desired) {
			d.Traffic = []service.Target{{Revision: "hello-00001", Percent: 50}, {Percent: 50}}
		})
		r.within(5*time.Second, "it is named", func() bool {
			return strings.Contains(c.NeedsOperator("hello"), "share the request group hello.workers")
		})
		if why := r.disagreement("hello"); why != "" || service.Lead(r.catalog("hello").Traffic) != "hello-00002" {
			t.Errorf("%s: %+v", why, r.catalog("hello"))
		}
		stop()
	})
}

func TestAnExclusiveHandoverHoldsStopsTheOldAndOnlyThenStartsTheNew(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.start(options{warm: time.Hour})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{DrainFor: 2 * time.Second}
		})
		alone := r.oneAtATime("hello")
		one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
		r.swap("hello", "two")
		r.within(time.Second, "requests are held", func() bool {
			route, _ := r.gateways.Gateway("g2").Table().Route("hello")
			return len(route.Splits) == 1 && route.Splits[0].Hold
		})
		if len(r.hosts.Running()) != 1 {
			t.Error("the old one did not drain")
		}
		r.serves(20*time.Second, "hello", "hello-00002")
		if route, _ := r.gateways.Gateway("g1").Table().Route("hello"); route.Splits[0].Hold {
			t.Error("requests are held for ever")
		}
		r.within(time.Minute, "the old one is retired, and not warm", func() bool {
			return r.revision("hello-00001").State == service.RevisionRetired && r.catalog("hello").Warm == ""
		})
		one()
		two()
		// Back again, by a rollback: the same the other way round.
		if choice, err := r.rollback("hello", ""); err != nil || choice.Warm {
			t.Fatalf("%+v, %v", choice, err)
		}
		r.leads(30*time.Second, "hello", "hello-00001")
		alone()
	})
}

func TestAnExclusiveHandoverThatFailsStartsTheOldOneAgain(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		neverTwo(r)
		r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		alone := r.oneAtATime("hello")
		r.swap("hello", "two")
		r.within(30*time.Second, "the new one is tried", func() bool { return r.deploySaga("hello").At() == "ready" })
		r.within(time.Minute, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if s := r.deploySaga("hello"); s.FailedStep != "ready" {
			t.Errorf("%+v", s)
		}
		if why := r.disagreement("hello"); why != "" || r.catalog("hello").Latest != "hello-00001" {
			t.Errorf("after the failure: %s", why)
		}
		if route, _ := r.gateways.Gateway("g1").Table().Route("hello"); route.Splits[0].Hold {
			t.Error("requests are held still")
		}
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{} })
		r.serves(2*time.Minute, "hello", "hello-00002")
		alone()
	})
}

func TestAnExclusiveHandoverDoesNotBeginWhileAGatewayIsBehindAndNamesIt(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		alone, one, two := r.oneAtATime("hello"), r.watched("hello", "g1"), r.watched("hello", "g2")
		r.gateways.Gateway("g2").Cut()
		time.Sleep(6 * time.Second)
		first := r.live("hello-00001")[0].ID
		r.swap("hello", "two")
		r.within(time.Minute, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		for _, e := range list[service.Event](r, service.KindEvent, "hello") {
			if strings.Contains(e.Text, "held:") {
				t.Errorf("it began: %s", e.Text)
			}
		}
		if s := r.deploySaga("hello"); !strings.Contains(s.Error, "gateway g2 is behind") {
			t.Errorf("it says %q", s.Error)
		}
		if now := r.live("hello-00001"); len(now) != 1 || now[0].ID != first {
			t.Error("the old one was stopped")
		}
		r.gateways.Gateway("g2").Heal()
		r.serves(2*time.Minute, "hello", "hello-00002")
		alone()
		one()
		two()
	})
}

func TestAnExclusiveHandoverDoesNotBeginWhileAHostThatMayRunTheOldOneIsAwayAndNamesIt(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		away := r.live("hello-00001")[0].Host
		r.admit(c, away)
		r.hosts.Crash(away)
		stays := map[string]string{"a": "b", "b": "a"}[away]
		r.within(2*time.Minute, "another host runs it", func() bool { return r.liveOn(stays, "hello-00001") == 1 })
		alone, one := r.oneAtATime("hello"), r.watched("hello", "g1")
		r.swap("hello", "two")
		for range 10 * 60 {
			time.Sleep(time.Second)
			if r.liveOn(stays, "hello-00001") != 1 {
				t.Fatalf("what answered was stopped: %+v", r.deploySaga("hello"))
			}
		}
		for _, e := range list[service.Event](r, service.KindEvent, "hello") {
			if strings.Contains(e.Text, "held:") {
				t.Errorf("it began: %s", e.Text)
			}
		}
		if s := r.deploySaga("hello"); !strings.Contains(s.Error, "while host "+away+" is not heard") || !strings.Contains(s.Error, "fairlead hosts retire "+away) {
			t.Errorf("it says %q", s.Error)
		}
		alone()
		one()
		r.hosts.Lose(away)
		if err := c.RetireHost(r.t.Context(), away); err != nil {
			t.Fatal(err)
		}
		r.serves(15*time.Minute, "hello", "hello-00002")
	})
}

func TestAnExclusiveRevisionThatWouldGetNoTrafficIsNotRunBesideTheOther(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		alone := r.oneAtATime("hello")
		r.write("hello", func(d *service.Desired) {
			d.Template.Command, d.Traffic = []string{"two"}, []service.Target{{Revision: "hello-00001", Percent: 100}}
		})
		r.within(10*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if s := r.deploySaga("hello"); s.FailedStep != "install" || !strings.Contains(s.Error, "cannot run beside hello-00001") {
			t.Errorf("%+v", s)
		}
		alone()
	})
}

func TestAPauseNeverKeepsRequestsWaitingInAnExclusiveHandover(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.swap("hello", "two")
		r.within(10*time.Second, "the old one has given way", func() bool { return r.deploySaga("hello").At() == "ready" })
		r.verb("hello", service.Pause)
		r.leads(10*time.Second, "hello", "hello-00002")
	})
}

func TestADeletionAmidAnExclusiveHandoverLeavesNothing(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		alone := r.oneAtATime("hello")
		r.swap("hello", "two")
		r.within(10*time.Second, "the old one has given way", func() bool { return r.deploySaga("hello").At() == "ready" })
		r.delete("hello")
		r.within(2*time.Minute, "nothing is left", func() bool { return r.remains("hello") == 0 && len(r.hosts.Running()) == 0 })
		alone()
	})
}
