package control_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// processesOf are the identities of a service's processes that run, in order.
func (r *rig) processesOf(name string) []string {
	var out []string
	for _, i := range r.hosts.Running() {
		if i.Service == name {
			out = append(out, i.ID)
		}
	}
	slices.Sort(out)
	return out
}

func TestAHostThatIsCutOffFromControlAloneKeepsWhatItRuns(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		g := r.gateways.Gateway("g1")
		g.Polled("a", "b")
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		before := r.processesOf("hello")
		cutOff := func() bool {
			return strings.Contains(strings.Join(c.Alarms(), ";"), "host b is not heard, and polls gateway g1")
		}

		r.hosts.Disconnect("b")
		time.Sleep(2 * time.Minute)
		if now := r.processesOf("hello"); !slices.Equal(now, before) {
			t.Errorf("what ran changed from %q to %q", before, now)
		}
		if !cutOff() {
			t.Errorf("it is not said: %q", c.Alarms())
		}
		g.Polled() // it starts anew, and its hosts find it again
		time.Sleep(3 * time.Second)
		g.Polled("a", "b")
		time.Sleep(2 * time.Minute)
		if now := r.processesOf("hello"); !slices.Equal(now, before) {
			t.Errorf("what ran changed from %q to %q when the gateway started anew", before, now)
		}

		r.write("hello", func(d *service.Desired) { d.Instances = 4 })
		r.within(20*time.Second, "the larger number is met", func() bool { return r.catalog("hello").ObservedGeneration == 2 })
		time.Sleep(2 * time.Minute)
		now := r.processesOf("hello")
		if len(now) != 4 || slices.ContainsFunc(before, func(id string) bool { return !slices.Contains(now, id) }) {
			t.Errorf("of what ran (%q) and two more there is now %q", before, now)
		}

		r.hosts.Connect("b")
		r.within(10*time.Second, "it is heard", func() bool { return !cutOff() })
		if again := r.processesOf("hello"); !slices.Equal(again, now) {
			t.Errorf("at its return what ran changed from %q to %q", now, again)
		}
	})
}

func TestAHostThatNoGatewayHearsEitherIsReplacedWhenItsLeaseEnds(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.start(options{})
		r.gateways.Gateway("g1").Polled("a", "b")
		r.gateways.Gateway("g2").Polled("a", "b")
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")

		r.hosts.Lose("b")
		r.gateways.Gateway("g1").Polled("a")
		r.gateways.Gateway("g2").Cut() // what it said last is no word of today
		time.Sleep(28 * time.Second)
		if n := len(r.processesOf("hello")); n != 1 {
			t.Errorf("%d run before the lease has ended", n)
		}
		r.within(15*time.Second, "two are live on the other", func() bool { return len(r.processesOf("hello")) == 2 })
	})
}

// A leader that is new has never heard of the host: that it runs something is
// only what the records and a gateway say.
func TestWhatCannotRunBesideAnotherWaitsForAHostThatOnlyAGatewayHears(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		first := r.start(options{})
		r.gateways.Gateway("g1").Polled("a", "b")
		r.write("hello", func(d *service.Desired) { d.Template.Handover = service.HandoverExclusive })
		r.serves(10*time.Second, "hello", "hello-00001")
		at := r.live("hello-00001")[0].Host
		r.hosts.Disconnect(at)
		first.stop()
		r.hosts.Forget(at)
		r.start(options{})
		time.Sleep(time.Minute)
		r.write("hello", func(d *service.Desired) { d.Template.Command = []string{"two"} })
		for range 300 {
			time.Sleep(time.Second)
			if n := len(r.processesOf("hello")); n != 1 {
				t.Errorf("%d processes run", n)
				break
			}
		}
		if s := r.deploySaga("hello"); !strings.Contains(s.Error, "while host "+at+" is not heard and polls gateway g1") {
			t.Errorf("it does not say what it waits for: %+v", s)
		}
		r.hosts.Connect(at)
		r.serves(15*time.Minute, "hello", "hello-00002")
	})
}

func TestAHostThatAGatewayHearsIsNotRetired(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.admit(c, "b")
		r.gateways.Gateway("g1").Polled("b")
		r.hosts.Disconnect("b")
		time.Sleep(time.Minute)
		if err := c.RetireHost(r.t.Context(), "b"); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "polls gateway g1") {
			t.Errorf("got %v", err)
		}
		r.gateways.Gateway("g1").Polled()
		time.Sleep(time.Minute)
		if err := c.RetireHost(r.t.Context(), "b"); err != nil {
			t.Errorf("got %v", err)
		}
	})
}
