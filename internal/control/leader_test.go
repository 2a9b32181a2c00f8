package control_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// asleep is a store whose owner sleeps from some moment on: its renewals are
// not done, and it does not notice.
type asleep struct {
	store.Store
	mu        sync.Mutex
	sleeps    bool
	succeeded bool // another leads by now
	written   int  // what it wrote all the same
}

func (a *asleep) Apply(ctx context.Context, ap store.Apply) (store.Result, error) {
	a.mu.Lock()
	sleeps := a.sleeps
	a.mu.Unlock()
	if sleeps && writes(service.KindLeader, "beat")(ap) {
		return store.Result{}, nil
	}
	res, err := a.Store.Apply(ctx, ap)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.succeeded {
		a.written++
	}
	return res, err
}

func (a *asleep) sleep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sleeps = true
}

func TestOneOfTwoControlsLeadsAndTheOtherTakesOverAfterItsTerm(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{}
		a := r.start(options{standby: true, wrap: func(s store.Store) store.Store { p.Store = s; return p }})
		r.within(time.Second, "the first leads", a.Leading)
		b := r.start(options{standby: true})
		time.Sleep(time.Minute)
		if !a.Leading() || b.Leading() || a.Epoch().Number != 1 {
			t.Fatalf("a leads: %v, b leads: %v", a.Leading(), b.Leading())
		}
		p.mu.Lock()
		p.dead = true // as by SIGKILL: nothing is said any more
		p.mu.Unlock()
		died := time.Now()
		a.stop()
		r.within(10*time.Second, "the second leads", b.Leading)
		if took := time.Since(died); took < 4*time.Second {
			t.Errorf("it took over after %s, before the term had passed", took)
		}
		if b.Epoch().Number != 2 {
			t.Errorf("the epoch is %v", b.Epoch())
		}
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
	})
}

func TestALeaderThatEndsInOrderHandsTheLeadOverWithinAboutASecond(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{standby: true})
		r.within(time.Second, "the first leads", a.Leading)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		b := r.start(options{standby: true})
		r.deploy("hello", "two")
		r.within(10*time.Second, "it waits for readiness", func() bool { return r.deploySaga("hello").At() == "ready" })
		a.stop()
		r.within(1200*time.Millisecond, "the second leads", b.Leading)
		if b.Epoch().Number != 2 {
			t.Errorf("the epoch is %v", b.Epoch())
		}
		r.serves(10*time.Second, "hello", "hello-00002")
		b.stop()
		c := r.start(options{standby: true})
		r.within(100*time.Millisecond, "one that starts after an orderly end leads at once", c.Leading)
	})
}

func TestALeaderThatCannotRenewForItsTermStopsLeadingByItself(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{}
		a := r.start(options{standby: true, wrap: func(s store.Store) store.Store { p.Store = s; return p }})
		r.within(time.Second, "it leads", a.Leading)
		p.mu.Lock()
		p.dead = true
		p.mu.Unlock()
		r.within(5100*time.Millisecond, "it leads no more", func() bool { return !a.Leading() })
		p.mu.Lock()
		p.dead = false
		p.mu.Unlock()
		r.within(10*time.Second, "it leads again, with the next epoch", func() bool { return a.Epoch().Number == 2 })
	})
}

func TestALeaderThatSleptAndWasSucceededIsNotObeyed(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var bed *asleep
		a := r.start(options{standby: true, wrap: func(s store.Store) store.Store { bed = &asleep{Store: s}; return bed }})
		r.within(time.Second, "the first leads", a.Leading)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		bed.sleep()
		b := r.start(options{standby: true})
		r.within(10*time.Second, "the second leads", b.Leading)
		if !a.Leading() {
			t.Fatal("the first was to believe that it leads")
		}
		if _, err := a.AdmitHost(r.t.Context(), service.Host{Name: "z", Zone: "z"}, view.Epoch{}); err == nil {
			t.Error("the sleeper's write was taken by the store")
		}
		r.within(5*time.Second, "gateways know the second", func() bool {
			return r.gateways.Gateway("g1").Table().Epoch.Number == 2
		})
		bed.mu.Lock()
		bed.succeeded = true
		bed.mu.Unlock()
		known := len(r.hosts.Commands())
		stop := r.watched("hello", "g1")
		// The hosts learn the epoch by the first command of the second, or by
		// its welcome; the sleeper then tries whatever it can.
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		e := a.Epoch()
		if e.Zero() {
			e = view.Epoch{Incarnation: r.store.Incarnation(), Number: 1}
		}
		for _, slot := range []string{"hello-00001.0", "hello-00002.0"} {
			for _, h := range []string{"a", "b"} {
				if err := r.hosts.Stop(r.t.Context(), e, h, service.Stop{Slot: slot}); err == nil && r.runsOn(h, slot) {
					t.Errorf("host %s obeyed the sleeper's stop of %s", h, slot)
				}
			}
		}
		for _, c := range r.hosts.Commands()[known:] {
			if c.Epoch.Number == 1 && c.Err == nil && r.heardOf(c.Host, 2) {
				t.Errorf("a command of the sleeper was obeyed: %+v", c)
			}
		}
		r.within(10*time.Second, "the sleeper knows", func() bool { return !a.Leading() })
		if bed.written > 0 {
			t.Errorf("the sleeper wrote %d times to the store", bed.written)
		}
		stop()
	})
}

// runsOn says that the slot has a process on the host.
func (r *rig) runsOn(host, slot string) bool {
	for _, h := range r.hosts.States() {
		for _, i := range h.Instances {
			if h.Name == host && i.Slot == slot && i.State != service.InstanceExited {
				return true
			}
		}
	}
	return false
}

// heardOf says that the host has obeyed a command of the epoch.
func (r *rig) heardOf(host string, number uint64) bool {
	for _, c := range r.hosts.Commands() {
		if c.Host == host && c.Epoch.Number == number && c.Err == nil {
			return true
		}
	}
	return false
}

func TestALeaderShownAHigherEpochAlarmsAndTakesTheNextAbove(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		r.within(time.Second, "it leads", a.Leading)
		r.deploy("hello", "one")
		kept := view.Epoch{Incarnation: r.store.Incarnation(), Number: 7, Nonce: "another"}
		e, err := a.AdmitHost(r.t.Context(), service.Host{Name: "c", Zone: "z3"}, kept)
		if err != nil || e.Number != 8 {
			t.Fatalf("AdmitHost: %v, %v", e, err)
		}
		if len(a.Alarms()) != 1 || !strings.Contains(a.Alarms()[0], "older than the world") {
			t.Errorf("alarms: %q", a.Alarms())
		}
		rival := view.Epoch{Incarnation: r.store.Incarnation(), Number: 8, Nonce: "a rival's"}
		if e, err := a.AdmitHost(r.t.Context(), service.Host{Name: "c", Zone: "z3"}, rival); err != nil || e.Number != 9 {
			t.Errorf("AdmitHost of a rival's: %v, %v", e, err)
		}
		foreign := view.Epoch{Incarnation: "elsewhere", Number: 70, Nonce: "x"}
		if e, err := a.AdmitHost(r.t.Context(), service.Host{Name: "d", Zone: "z3"}, foreign); err != nil || e.Number != 9 {
			t.Errorf("AdmitHost of another incarnation's: %v, %v", e, err)
		}
		damaged := view.Epoch{Incarnation: r.store.Incarnation(), Number: 1<<64 - 1, Nonce: "x"}
		if _, err := a.AdmitHost(r.t.Context(), service.Host{Name: "e", Zone: "z3"}, damaged); !errors.Is(err, fault.Invalid) || a.Epoch().Number != 9 {
			t.Errorf("AdmitHost of the last number that there is: %v, and it leads with %d", err, a.Epoch().Number)
		}
		// What was in flight goes on.
		r.serves(10*time.Second, "hello", "hello-00001")
	})
}

func TestWhoDoesNotLeadAdmitsNobody(t *testing.T) {
	c := control.New(control.Config{Store: r0(t)})
	if c.Leading() || !c.Epoch().Zero() || c.NeedsOperator("x") != "" {
		t.Error("it leads")
	}
	if _, err := c.AdmitGateway(t.Context(), service.GatewayState{Name: "g"}); err == nil {
		t.Error("a gateway was admitted")
	}
	if _, err := c.AdmitHost(t.Context(), service.Host{Name: "h"}, view.Epoch{}); err == nil {
		t.Error("a host was admitted")
	}
	if c.GatewayGoodbye(t.Context(), "g") == nil || c.RetireGateway(t.Context(), "g") == nil {
		t.Error("a membership was ended")
	}
}

func TestAControlThatIsStartedAgainServesTheRoutesAtOnce(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		a.stop()
		g := r.gateways.Add("g2")
		b := r.start(options{})
		r.within(time.Second, "it leads", b.Leading)
		r.within(2*time.Second, "a new gateway routes", func() bool {
			return r.answered("hello", "g2") && g.Table().Epoch.Number == 2
		})
		if s := r.deploySaga("hello"); s.State != saga.Done || s.Attempt != 1 {
			t.Errorf("the saga is %+v", s)
		}
		time.Sleep(time.Minute)
		if n := len(r.live("hello-00001")); n != 1 {
			t.Errorf("%d instances", n)
		}
	})
}
