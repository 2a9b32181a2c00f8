package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// held says that requests for the service wait at the gateway.
func (r *rig) held(name, gateway string) bool {
	route, _ := r.gateways.Gateway(gateway).Table().Route(name)
	return len(route.Splits) == 1 && route.Splits[0].Hold
}

// The old one was told to end, and its host is lost before it has.
func TestAnExclusiveHandoverWhoseHostIsLostGoesBackAsSoonAsItsLeaseHasEnded(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{DrainFor: 25 * time.Second}
		})
		c := r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		at := r.live("hello-00001")[0].Host
		r.admit(c, at)
		r.swap("hello", "two")
		r.within(time.Second, "requests are held", func() bool { return r.held("hello", "g1") })
		held := time.Now()
		routes, _ := get[service.Routes](r, service.KindRoutes, "hello")
		if until, err := time.Parse(time.RFC3339, r.deploySaga("hello").Effects[service.EffectHold]); err != nil || until.Before(held.Add(30*time.Second)) || time.Since(routes.At) > time.Second {
			t.Errorf("held since %s until %s: %v", routes.At, until, err)
		}
		r.hosts.Lose(at)
		r.within(45*time.Second, "the old one answers again", func() bool { return !r.held("hello", "g1") && r.answered("hello", "g1") })
		if took := time.Since(held); took < 29*time.Second {
			t.Errorf("its host was given up after %s", took)
		}
		if s := r.deploySaga("hello"); s.State != saga.Waiting || !strings.Contains(s.Error, "host "+at+" is lost") || !strings.Contains(s.Error, "fairlead hosts retire "+at) {
			t.Errorf("%s: %s", s.State, s.Error)
		}
		if err := c.RetireHost(r.t.Context(), at); err != nil {
			t.Fatal(err)
		}
		r.serves(15*time.Minute, "hello", "hello-00002")
	})
}

// The new one had started, and its host is lost before it was ready: nobody can
// say that it has ended, so the old one is not started beside it.
func TestAnExclusiveHandoverIsUndoneAtOnceWhenTheLostHostOfTheNewOneIsRetired(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		neverTwo(r)
		c := r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		alone := r.oneAtATime("hello")
		r.write("hello", func(d *service.Desired) {
			d.Template.Command, d.Template.ReadyTimeout = []string{"two"}, 10*time.Minute
		})
		r.within(30*time.Second, "the new one is started", func() bool { return len(r.processesOf("hello")) == 1 && r.deploySaga("hello").At() == "ready" })
		at := r.revision("hello-00002").Slots[0].Host
		r.admit(c, at)
		r.hosts.Disconnect(at)
		r.within(40*time.Second, "it fails when the lease of its host has ended", func() bool { return r.deploySaga("hello").Effects["undo"] != "" })
		if s := r.deploySaga("hello"); !strings.Contains(s.Error, "host "+at+" of slot hello-00002.0 is lost") || !strings.Contains(s.Effects["undo"], "fairlead hosts retire "+at) {
			t.Errorf("%s; %s", s.Error, s.Effects["undo"])
		}
		time.Sleep(20 * time.Minute) // its waits have become long
		if s := r.deploySaga("hello"); s.State != saga.Compensating || s.Backoff < 5*time.Minute {
			t.Errorf("%s, waits %s", s.State, s.Backoff)
		}
		alone()
		r.hosts.Lose(at) // the process is gone with its machine
		if err := c.RetireHost(r.t.Context(), at); err != nil {
			t.Fatal(err)
		}
		r.within(15*time.Second, "the old one answers again", func() bool { return !r.held("hello", "g1") && r.answered("hello", "g1") })
	})
}

func TestTheTimeOfTheNextAttemptThatIsShownIsTrueAfterARestart(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		neverTwo(r)
		a := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.write("hello", func(d *service.Desired) {
			d.Template.Command, d.Template.ReadyTimeout = []string{"two"}, 5*time.Second
		})
		r.within(20*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		time.Sleep(20 * time.Second)
		a.stop()
		b := r.start(options{})
		s := r.deploySaga("hello")
		var shown time.Time
		r.within(5*time.Second, "the new one says when", func() bool { shown = b.RetryAt(s.ID); return !shown.IsZero() })
		if !shown.After(s.RetryAt.Add(10 * time.Second)) {
			t.Errorf("it says %s, its predecessor meant %s", shown, s.RetryAt)
		}
		r.within(time.Minute, "the next attempt", func() bool { return r.deploySaga("hello").Attempt == 2 })
		if late := time.Since(shown); late < 0 || late > 3*time.Second {
			t.Errorf("it came %s after the time that was shown", late)
		}
	})
}

func TestTheAlarmOfAStoreOlderThanTheWorldEndsWhenEveryGatewayFollowsAndTheHistoryTells(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g2").Cut()
		kept := view.Epoch{Incarnation: r.store.Incarnation(), Number: 7, Nonce: "another"}
		if _, err := c.AdmitHost(r.t.Context(), service.Host{Name: "c", Zone: "z3"}, kept); err != nil {
			t.Fatal(err)
		}
		older := func() bool { return strings.Contains(strings.Join(c.Alarms(), ";"), "older than the world") }
		time.Sleep(time.Minute)
		if !older() {
			t.Error("it ended while a gateway was not heard, which may route by anything")
		}
		r.gateways.Gateway("g2").Heal()
		r.within(10*time.Second, "it ends", func() bool { return !older() })
		told := 0
		for _, e := range list[service.Event](r, service.KindEvent, "hello") {
			if e.Kind == "store" && strings.Contains(e.Text, "it was older than the world: host c has kept epoch 7") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the history tells of it %d times", told)
		}
	})
}
