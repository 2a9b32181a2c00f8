package control_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
	"github.com/fairlead-platform/fairlead/view"
)

func r0(t *testing.T) store.Store {
	s := memory.Open(memory.Options{})
	t.Cleanup(func() { s.Close() })
	return s
}

func TestCollectionNeverTakesWhatALaggingGatewayMayStillRouteTo(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g2").Cut()
		one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
		r.deploy("hello", "two")
		r.within(10*time.Second, "the deploy ends without the gateway that is cut off", func() bool {
			return r.catalog("hello").Latest == "hello-00002"
		})
		if s := r.deploySaga("hello"); !contains(s.Steps[4].Text, "behind: g2") {
			t.Errorf("the routes step says %q", s.Steps[4].Text)
		}
		time.Sleep(50 * time.Minute)
		if len(r.live("hello-00001")) != 1 {
			t.Error("the old revision was collected under a gateway that routes to it")
		}
		two()
		r.gateways.Gateway("g2").Heal()
		r.within(time.Minute, "the old revision is collected", func() bool { return len(r.live("hello-00001")) == 0 })
		one()
	})
}

func TestAGatewayAbsentForAnHourIsForgottenWhileMostOthersAreHeard(t *testing.T) {
	inRegion(t, 3, func(r *rig) {
		c := r.start(options{})
		known := func(name string) bool {
			_, ok := get[service.Gateway](r, service.KindGateway, name)
			return ok
		}
		r.within(5*time.Second, "all are known", func() bool { return known("g1") && known("g2") && known("g3") })
		for _, g := range []string{"g1", "g2", "g3"} {
			r.gateways.Gateway(g).Cut()
		}
		time.Sleep(3 * time.Hour)
		if !known("g1") || !known("g2") || !known("g3") {
			t.Fatal("a gateway was forgotten while none was heard")
		}
		r.gateways.Gateway("g1").Heal()
		r.gateways.Gateway("g2").Heal()
		time.Sleep(50 * time.Minute)
		if !known("g3") {
			t.Fatal("it was forgotten before an hour had passed")
		}
		if a := c.Alarms(); len(a) != 1 || !contains(a[0], "gateway g3 is not heard") {
			t.Errorf("alarms: %q", a)
		}
		c.stop()
		time.Sleep(2 * time.Hour)
		c = r.start(options{})
		time.Sleep(30 * time.Minute)
		if !known("g3") {
			t.Fatal("it was forgotten by an hour that nobody counted")
		}
		r.within(40*time.Minute, "it is forgotten", func() bool { return !known("g3") })
		if !known("g1") || !known("g2") {
			t.Error("one that is heard was forgotten")
		}
		r.within(2*time.Second, "its alarm has ended", func() bool { return len(c.Alarms()) == 0 })
	})
}

func TestARetiredGatewayKeepsNothingAlive(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g2").Stop()
		r.deploy("hello", "two")
		r.within(10*time.Second, "it is deployed", func() bool { return r.catalog("hello").Latest == "hello-00002" })
		time.Sleep(5 * time.Minute)
		if len(r.live("hello-00001")) != 1 {
			t.Error("it was collected, and g2 would route to it when started again")
		}
		if err := c.RetireGateway(r.t.Context(), "g2"); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "it is collected", func() bool { return len(r.live("hello-00001")) == 0 })
		if err := c.RetireGateway(r.t.Context(), "g9"); err == nil {
			t.Error("a gateway that is not known was retired")
		}
		if err := r.gateways.Gateway("g1").Goodbye(r.t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, ok := get[service.Gateway](r, service.KindGateway, "g1"); ok {
			t.Error("goodbye did not end the membership")
		}
	})
}

func TestAGatewayThatIsConnectedIsNotRetired(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		if err := c.RetireGateway(r.t.Context(), "g2"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "g2 is connected") {
			t.Errorf("got %v", err)
		}
		if _, ok := get[service.Gateway](r, service.KindGateway, "g2"); !ok {
			t.Error("it is a member no more, and routes")
		}
		r.gateways.Gateway("g2").Stop()
		time.Sleep(6 * time.Second)
		if err := c.RetireGateway(r.t.Context(), "g2"); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestAGatewayThatWasRetiredWhileItSleptIsAMemberAgainWhenItWakes(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g2").Cut()
		time.Sleep(6 * time.Second)
		if err := c.RetireGateway(r.t.Context(), "g2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, ok := get[service.Gateway](r, service.KindGateway, "g2"); ok {
			t.Error("it is a member again before it was heard")
		}
		r.gateways.Gateway("g2").Wake()
		r.within(10*time.Second, "it is a member again", func() bool {
			_, ok := get[service.Gateway](r, service.KindGateway, "g2")
			return ok
		})
		if err := r.gateways.Gateway("g1").Goodbye(r.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, ok := get[service.Gateway](r, service.KindGateway, "g1"); ok {
			t.Error("one that said goodbye is a member again")
		}
	})
}

func TestARevisionStaysWhileAGatewayKeepsItsRoutesOnDiskOnly(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g1").FailKeeping(fmt.Errorf("no space left"))
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		time.Sleep(10 * time.Minute)
		if len(r.live("hello-00001")) != 1 {
			t.Error("it was collected, and the gateway would route to it after a restart")
		}
		if a := c.Alarms(); len(a) != 1 || !contains(a[0], "gateway g1 cannot keep its routes on disk: no space left") {
			t.Errorf("alarms: %q", a)
		}
		r.gateways.Gateway("g1").Restart()
		r.within(5*time.Second, "it answers from its disk", func() bool { return r.answered("hello", "g1") })
		r.gateways.Gateway("g1").FailKeeping(nil)
		r.deploy("hello", "three")
		r.serves(10*time.Second, "hello", "hello-00003")
		r.within(time.Minute, "both are collected", func() bool {
			return len(r.live("hello-00001"))+len(r.live("hello-00002")) == 0
		})
	})
}

func TestAGatewayThatJoinsWhileAPublicationWaitsIsWaitedFor(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g1").Lag(2 * time.Second)
		r.deploy("hello", "two")
		r.within(10*time.Second, "it publishes", func() bool {
			return r.deploySaga("hello").Effects["published"] != "" && r.deploySaga("hello").Subject == "hello-00002"
		})
		joined := time.Now()
		r.gateways.AddLagging("g2", 4*time.Second)
		r.serves(10*time.Second, "hello", "hello-00002")
		if time.Since(joined) < 4*time.Second {
			t.Error("the routes step did not wait for the gateway that joined")
		}
	})
}

func TestAnUnreadableRecordAmongTenStopsNothingElse(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		bad := store.Key{Kind: service.KindDesired, Name: "s3"}
		c := r.start(options{})
		for i := range 10 {
			name := fmt.Sprintf("s%d", i)
			if i == 3 {
				r.raw(bad, 0, []byte(`{"service": 7}`))
				continue
			}
			r.deploy(name, "one")
		}
		for i := range 10 {
			if i != 3 {
				name := fmt.Sprintf("s%d", i)
				r.serves(10*time.Second, name, name+"-00001")
			}
		}
		if why := c.NeedsOperator("s3"); !contains(why, "desired record s3") {
			t.Errorf("s3 needs: %q", why)
		}
		c.stop()
		b := r.start(options{})
		r.within(5*time.Second, "it is named after a restart too", func() bool { return b.NeedsOperator("s3") != "" })
		r.deploy("s4", "two")
		r.serves(10*time.Second, "s4", "s4-00002")
		d, _ := r.store.Get(r.t.Context(), bad)
		r.put(bad, d.Version, service.Desired{Service: "s3", Generation: 1, Instances: 1, Template: service.Template{Command: []string{"one"}}})
		r.serves(10*time.Second, "s3", "s3-00001")
		r.within(5*time.Second, "nothing needs an operator", func() bool { return b.NeedsOperator("s3") == "" })
	})
}

func TestASagaOfANewerDefinitionIsParkedVisibly(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		r.deploy("hello", "one")
		r.deploy("other", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.serves(10*time.Second, "other", "other-00001")
		a.stop()
		s := r.deploySaga("hello")
		doc, _ := r.store.Get(r.t.Context(), store.Key{Kind: service.KindSaga, Name: s.ID})
		s.State, s.Definition = saga.Running, 99
		r.put(doc.Key, doc.Version, s)
		b := r.start(options{})
		r.within(10*time.Second, "it is named", func() bool { return contains(b.NeedsOperator("hello"), "version 99") })
		r.deploy("other", "two")
		r.serves(10*time.Second, "other", "other-00002")
		if why := r.disagreement("hello"); why != "" {
			t.Errorf("what serves does so no more: %s", why)
		}
	})
}

func TestRoutesEditedBehindTheControllersBackAreRepaired(t *testing.T) {
	for name, body := range map[string]string{
		"edited":     `{"service":"hello","plan":{"service":"hello","hosts":["hello.localhost"],"splits":[{"revision":"hello-00009","percent":100,"group":"hello-00009","allowed":["hello-00009"]}]}}`,
		"emptied":    `{}`,
		"unreadable": `{"service":"hello","plan":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			inRegion(t, 1, func(r *rig) {
				c := r.start(options{})
				r.deploy("hello", "one")
				r.serves(10*time.Second, "hello", "hello-00001")
				k := store.Key{Kind: service.KindRoutes, Name: "hello"}
				doc, _ := r.store.Get(r.t.Context(), k)
				r.raw(k, doc.Version, []byte(body))
				r.within(3*time.Second, "it is repaired", func() bool {
					d, _ := r.store.Get(r.t.Context(), k)
					return d.Version > doc.Version+1 && r.disagreement("hello") == ""
				})
				c.stop()
				doc, _ = r.store.Get(r.t.Context(), k)
				r.raw(k, doc.Version, []byte(body))
				r.start(options{})
				r.serves(10*time.Second, "hello", "hello-00001")
			})
		})
	}
}

func TestSlotsThatAHostLostAreAssignedAgain(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		e := a.Epoch()
		a.stop()
		r.loseSlot(e, "a", "hello-00001.0")
		if len(r.live("hello-00001")) != 0 {
			t.Fatal("the slot is not lost")
		}
		r.start(options{})
		r.within(10*time.Second, "it runs again", func() bool { return len(r.live("hello-00001")) == 1 })
		if n := len(list[service.Revision](r, service.KindRevision, "hello")); n != 1 {
			t.Errorf("there are %d revisions", n)
		}
	})
}

func TestOneServiceThatCannotBeRepairedDelaysNoOther(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		for i := range 5 {
			r.deploy(fmt.Sprintf("s%d", i), fmt.Sprintf("r%d", i))
		}
		for i := range 5 {
			r.serves(10*time.Second, fmt.Sprintf("s%d", i), fmt.Sprintf("s%d-00001", i))
		}
		e := a.Epoch()
		a.stop()
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			if a.Service == "s0" {
				return hosttest.Behaviour{Refuse: "not here"}
			}
			return hosttest.Behaviour{}
		})
		for i := range 5 {
			name := fmt.Sprintf("s%d-00001", i)
			r.loseSlot(e, r.revision(name).Slots[0].Host, name+".0")
		}
		r.start(options{})
		for i := 1; i < 5; i++ {
			r.serves(10*time.Second, fmt.Sprintf("s%d", i), fmt.Sprintf("s%d-00001", i))
		}
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{} })
		r.serves(40*time.Second, "s0", "s0-00001")
	})
}
func contains(s, part string) bool { return strings.Contains(s, part) }

// loseSlot has a host forget a slot, behind the controller's back.
func (r *rig) loseSlot(e view.Epoch, host, slot string) {
	r.t.Helper()
	if err := r.hosts.Stop(r.t.Context(), e, host, service.Stop{Slot: slot}); err != nil {
		r.t.Fatal(err)
	}
	r.within(time.Minute, slot+" is gone", func() bool { return !r.runsOn(host, slot) })
}

func TestInstancesOfAHostThatIsGoneArePlacedElsewhereAndDrainedOnItsReturn(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.within(time.Second, "it leads", c.Leading)
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Disconnect("b")
		time.Sleep(20 * time.Second)
		if slots := r.revision("hello-00001").Slots; slots[0].Host == slots[1].Host {
			t.Fatal("a host's slots were placed elsewhere before its lease had ended")
		}
		r.within(30*time.Second, "two are live on the other host", func() bool {
			n := 0
			for _, i := range r.live("hello-00001") {
				if i.Host == "a" {
					n++
				}
			}
			return n == 2
		})
		r.hosts.Connect("b")
		r.within(30*time.Second, "what it still ran is drained", func() bool {
			return len(r.live("hello-00001")) == 2 && len(r.revision("hello-00001").Leaving) == 0
		})
	})
}

func TestADeletedServicesProcessesOnAHostThatWasAwayAreStoppedOnItsReturn(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Disconnect("b")
		time.Sleep(time.Second)
		r.delete("hello")
		r.within(5*time.Minute, "nothing is left", func() bool { return r.remains("hello") == 0 })
		r.hosts.Connect("b")
		if len(r.live("hello-00001")) != 1 {
			t.Fatal("the host stopped it by itself")
		}
		r.within(2*time.Minute, "the stray is stopped", func() bool { return len(r.live("hello-00001")) == 0 })
	})
}

func TestACollectedRevisionIsStoppedWhenItsHostIsBack(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Template.Command, d.Instances = []string{"one"}, 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		r.hosts.Disconnect("b")
		r.within(60*time.Second, "the first revision is retired", func() bool {
			rev, _ := get[service.Revision](r, service.KindRevision, "hello-00001")
			return rev.State == service.RevisionRetired
		})
		if rev, _ := get[service.Revision](r, service.KindRevision, "hello-00001"); len(rev.Leaving) == 0 {
			t.Fatal("nothing of it was left on the host that is away")
		}
		r.hosts.Connect("b")
		r.within(60*time.Second, "nothing of it runs any more", func() bool {
			rev, _ := get[service.Revision](r, service.KindRevision, "hello-00001")
			return len(r.live("hello-00001")) == 0 && len(rev.Leaving) == 0
		})
	})
}

// admit enters a host, as its stream does.
func (r *rig) admit(c *running, name string) {
	r.t.Helper()
	if _, err := c.AdmitHost(r.t.Context(), service.Host{Name: name, Zone: "z2"}, view.Epoch{}); err != nil {
		r.t.Fatal(err)
	}
}

func TestAHostThatIsRetiredIsWaitedForNoMoreAndWhatItRanIsPlacedElsewhere(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.within(time.Second, "it leads", c.Leading)
		r.admit(c, "b")
		r.write("hello", func(d *service.Desired) { d.Template.Command, d.Instances = []string{"one"}, 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		if err := c.RetireHost(r.t.Context(), "b"); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("a host that is connected is retired: %v", err)
		}
		if err := c.RetireHost(r.t.Context(), "z"); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("a host that is not known is retired: %v", err)
		}
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		r.hosts.Disconnect("b")
		time.Sleep(time.Second)
		if err := c.RetireHost(r.t.Context(), "b"); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("a host whose instances may serve is retired: %v", err)
		}
		time.Sleep(2 * time.Minute)
		old := r.revision("hello-00001")
		if old.State != service.RevisionRetired || len(old.Leaving) == 0 {
			t.Fatalf("nothing of the first revision waits for the host: %+v", old)
		}
		if err := c.RetireHost(r.t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "nothing waits for it", func() bool {
			return len(r.revision("hello-00001").Leaving) == 0 && len(r.revision("hello-00002").Leaving) == 0
		})
		c.stop() // what was heard of it is forgotten, too
		c = r.start(options{})
		time.Sleep(time.Minute)
		if slots := r.revision("hello-00002").Slots; len(slots) != 2 || slots[0].Host != "a" || slots[1].Host != "a" {
			t.Errorf("it runs on %+v", slots)
		}
		r.hosts.Connect("b")
		r.admit(c, "b")
		r.within(2*time.Minute, "what it still ran is drained when it returns", func() bool {
			return len(r.live("hello-00001")) == 0 && len(r.live("hello-00002")) == 2
		})
	})
}

func TestASlotOnARetiredHostIsPlacedElsewhereByALeaderThatNeverHeardOfIt(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.within(time.Second, "it leads", c.Leading)
		r.admit(c, "b")
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Disconnect("a")
		r.hosts.Disconnect("b") // with no other host to take over
		time.Sleep(time.Minute)
		if err := c.RetireHost(r.t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		c.stop()
		r.hosts.Connect("a")
		r.start(options{})
		r.within(20*time.Second, "both are on the other host before the lease of the one that is retired would have ended", func() bool {
			slots := r.revision("hello-00001").Slots
			return len(slots) == 2 && slots[0].Host == "a" && slots[1].Host == "a"
		})
	})
}
