package control_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// released is how a host was let go, empty while it was not.
func (r *rig) released(host string) string {
	for _, c := range r.hosts.Commands() {
		if c.Host == host && strings.HasPrefix(c.Kind, "release") {
			return c.Kind
		}
	}
	return ""
}

// fewest follows how many instances of a revision are live, until it is asked.
func (r *rig) fewest(revision string) (stop func() int) {
	least := len(r.live(revision))
	end := r.follow(func() { least = min(least, len(r.live(revision))) })
	return func() int { end(); return least }
}

// atOnce is far below the lease of a host.
const atOnce = 10 * time.Second

func TestAHostThatLeavesIsLetGoWhenOthersServeWhatItRanAndCapacityComesFirst(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{ReadyAfter: time.Second, DrainFor: 2 * time.Second}
		})
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.write("other", func(d *service.Desired) { d.Instances = 3 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.serves(10*time.Second, "other", "other-00001")
		least := r.fewest("hello-00001")
		r.hosts.Leave("b")
		r.within(atOnce, "it is let go", func() bool { return r.released("b") != "" })
		if how := r.released("b"); how != "release empty" {
			t.Errorf("it was let go by %q", how)
		}
		if n := least(); n < 2 {
			t.Errorf("of two instances %d were live meanwhile", n)
		}
		if torn := r.hosts.Torn(); len(torn) > 0 {
			t.Errorf("it was taken to be empty while %v drained", torn)
		}
		if a, b := r.liveOn("a", "hello-00001"), r.liveOn("a", "other-00001"); a != 2 || b != 3 {
			t.Errorf("on the other host are %d and %d live, expected 2 and 3", a, b)
		}
		for _, name := range []string{"hello-00001", "other-00001"} {
			if rev := r.revision(name); len(rev.Leaving) > 0 {
				t.Errorf("something is still to leave: %+v", rev)
			}
		}
		r.hosts.Connect("b")
		time.Sleep(time.Minute)
		if n := r.liveOn("b", "hello-00001"); n != 0 {
			t.Errorf("%d were moved back by nobody's wish", n)
		}
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		if r.liveOn("b", "hello-00002") != 1 {
			t.Error("the host that came back gets nothing")
		}
	})
}

func TestAHostThatLeavesWhereNoOtherCanTakeWhatItRunsIsToldSoAndDoesNotWait(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Fill("a", "its disk is full")
		r.hosts.Leave("b")
		r.within(3*time.Second, "it is let go", func() bool { return r.released("b") == "release" })
		if n := len(r.revision("hello-00001").Slots); n != 2 {
			t.Errorf("%d slots are recorded", n)
		}
		r.hosts.Fill("a", "")
		r.within(atOnce, "what it left behind is served by the other", func() bool { return r.liveOn("a", "hello-00001") == 2 })
	})
}

func TestWhatAHostLeftBehindIsPlacedElsewhereAtOnceAndNotWhenItsLeaseEnds(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.within(time.Second, "it leads", c.Leading)
		r.admit(c, "b")
		r.gateways.Gateway("g1").Polled("a", "b") // whose last word is that the host polls it
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Leave("b")
		r.hosts.EndLeaving("b")
		r.within(atOnce, "both are live on the other", func() bool { return r.liveOn("a", "hello-00001") == 2 })
		time.Sleep(3 * time.Second)
		if said := strings.Join(c.Alarms(), ";"); strings.Contains(said, "host b") {
			t.Errorf("a host that left is taken to be cut off: %s", said)
		}
		if err := c.RetireHost(r.t.Context(), "b"); err != nil {
			t.Errorf("a host that left cannot be retired at once: %v", err)
		}
	})
}

func TestWhatIsKeptWarmLeavesAHostThatDrains(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{warm: 10 * time.Minute})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		r.hosts.Leave("b")
		r.within(20*time.Second, "it is let go", func() bool { return r.released("b") == "release empty" })
		if n := r.liveOn("a", "hello-00001"); n != 2 {
			t.Errorf("%d of the warm revision are live on the other host", n)
		}
	})
}

func TestWhatCannotRunBesideAnotherLeavesAHostUnderAHoldAndStopsFirst(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{ReadyAfter: time.Second, DrainFor: 2 * time.Second}
		})
		r.start(options{})
		r.write("solo", func(d *service.Desired) { d.Template.Handover = service.HandoverExclusive })
		r.serves(10*time.Second, "solo", "solo-00001")
		at := r.live("solo-00001")[0].Host
		most, held := 0, false
		stop := r.follow(func() {
			most = max(most, len(r.processesOf("solo")))
			routes, _ := get[service.Routes](r, service.KindRoutes, "solo")
			held = held || len(routes.Plan.Splits) == 1 && routes.Plan.Splits[0].Hold
			if len(r.live("solo-00001")) == 0 && r.unpolled("solo") != "" {
				t.Error("nothing is live and requests are not held")
			}
		})
		r.hosts.Leave(at)
		r.within(20*time.Second, "it is let go", func() bool { return r.released(at) == "release empty" })
		r.serves(10*time.Second, "solo", "solo-00001")
		stop()
		if n := r.said("solo", "repair", ""); n > 0 {
			t.Errorf("a later pass had to end the hold: %d repairs", n)
		}
		if most != 1 || !held {
			t.Errorf("%d ran at once, held: %v", most, held)
		}
		routes, _ := get[service.Routes](r, service.KindRoutes, "solo")
		if routes.Plan.Splits[0].Hold || r.live("solo-00001")[0].Host == at {
			t.Errorf("it ends with %+v on %+v", routes.Plan, r.live("solo-00001"))
		}
	})
}

// follow calls f every 10 ms until the returned function is called.
func (r *rig) follow(f func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			f()
			select {
			case <-done:
				return
			case <-r.over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

func TestALeaderThatIsNewFinishesWhatLeavesAHost(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, 3 * time.Second, 4100 * time.Millisecond, 5 * time.Second} {
		inRegion(t, 1, func(r *rig) {
			r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
				return hosttest.Behaviour{ReadyAfter: time.Second, DrainFor: 2 * time.Second}
			})
			c := r.start(options{})
			r.write("hello", func(d *service.Desired) { d.Instances = 2 })
			r.serves(10*time.Second, "hello", "hello-00001")
			least := r.fewest("hello-00001")
			r.hosts.Leave("b")
			time.Sleep(wait)
			c.stop()
			r.start(options{})
			r.within(20*time.Second, "it is let go", func() bool { return r.released("b") == "release empty" })
			if n := least(); n < 2 || r.liveOn("a", "hello-00001") != 2 {
				t.Errorf("after %s: %d were live meanwhile, %d at the end", wait, n, r.liveOn("a", "hello-00001"))
			}
			if slots := r.revision("hello-00001").Slots; len(slots) != 2 {
				t.Errorf("after %s there are slots %+v", wait, slots)
			}
		})
	}
}

func TestAHostThatIsToBeDrainedIsEmptiedAndGetsNothingUntilItIsUndrainedByAnyLeader(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.within(time.Second, "it leads", c.Leading)
		r.admit(c, "a")
		r.admit(c, "b")
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		if err := c.DrainHost(r.t.Context(), "z", true); !errors.Is(err, fault.NotFound) {
			t.Errorf("a host that is not known: %v", err)
		}
		for range 2 { // it is done already the second time
			if err := c.DrainHost(r.t.Context(), "b", true); err != nil {
				t.Fatal(err)
			}
		}
		r.within(atOnce, "nothing runs there", func() bool {
			return r.liveOn("a", "hello-00001") == 2 && !slices.ContainsFunc(r.hosts.Running(), func(i service.Instance) bool { return i.Host == "b" })
		})
		c.stop()
		c = r.start(options{})
		r.within(time.Second, "it leads", c.Leading)
		r.admit(c, "b") // its process is started anew
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		if n := r.liveOn("b", "hello-00002"); n != 0 {
			t.Errorf("%d were placed on a host that drains", n)
		}
		if err := c.DrainHost(r.t.Context(), "b", false); err != nil {
			t.Fatal(err)
		}
		r.deploy("hello", "three")
		r.serves(10*time.Second, "hello", "hello-00003")
		if n := r.liveOn("b", "hello-00003"); n != 1 {
			t.Errorf("%d were placed on a host that is drained no more", n)
		}
	})
}

func TestWhereNothingElseCanTakeThemInstancesStayOnAHostThatDrains(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.within(time.Second, "it leads", c.Leading)
		r.admit(c, "a")
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Fill("b", "its disk is full")
		before := r.processesOf("hello")
		if err := c.DrainHost(r.t.Context(), "a", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if now := r.processesOf("hello"); !slices.Equal(now, before) {
			t.Errorf("what ran changed from %q to %q", before, now)
		}
		if s := r.saga("hello", service.WorkScale); s.ID != "" {
			t.Errorf("it was tried: %+v", s)
		}
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(10*time.Second, "the reason is said", func() bool {
			s := r.saga("hello", service.WorkScale)
			return strings.Contains(s.Error, "host a: it is drained; host b: its disk is full")
		})
		r.hosts.Fill("b", "")
		r.within(time.Minute, "they move once there is room", func() bool { return r.liveOn("b", "hello-00001") == 3 && r.liveOn("a", "hello-00001") == 0 })
	})
}

func TestNothingIsPlacedOnAHostWhoseDiskIsFullAndADeployThatOnlyHasSuchFailsWithTheReason(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.hosts.Fill("b", "its disk is full")
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		if n := r.liveOn("a", "hello-00001"); n != 2 {
			t.Errorf("%d are on the host that has room", n)
		}
		r.hosts.Fill("a", "its disk is full, too")
		r.deploy("hello", "two")
		r.within(5*time.Second, "the deploy fails", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if s := r.deploySaga("hello"); s.FailedStep != "install" || !strings.Contains(s.Error, "host a: its disk is full, too; host b: its disk is full") {
			t.Errorf("it says %q at %s", s.Error, s.FailedStep)
		}
		r.hosts.Fill("b", "")
		r.within(time.Minute, "it goes on once one has room", func() bool { return r.liveOn("b", "hello-00002") == 2 })
	})
}

func TestAHostThatHasNoRoomForWhatIsToBeInstalledIsPassedOver(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.hosts.Behave(func(host string, _ service.Assignment) hosttest.Behaviour {
			if host == "a" {
				return hosttest.Behaviour{Refuse: "no space left on device", RefuseCode: fault.Exhausted}
			}
			return hosttest.Behaviour{}
		})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		if s := r.deploySaga("hello"); s.Attempt != 1 || r.liveOn("b", "hello-00001") != 2 {
			t.Errorf("it took %d attempts, and %d are on the host with room", s.Attempt, r.liveOn("b", "hello-00001"))
		}
	})
}

func TestWhatWasPlacedAnewOnAHostThatIsLostTooIsPlacedOnceMore(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.within(time.Second, "it leads", c.Leading)
		r.admit(c, "a")
		r.admit(c, "b")
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Behave(func(host string, _ service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{NeverListens: host == "a"}
		})
		if err := c.DrainHost(r.t.Context(), "b", true); err != nil {
			t.Fatal(err)
		}
		r.within(2*time.Minute, "what was placed there is never ready", func() bool { return r.saga("hello", service.WorkScale).State == saga.Waiting })
		for _, n := range []int{3, 2} { // later wishes end the attempts
			r.write("hello", func(d *service.Desired) { d.Instances = n })
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		if n := len(r.live("hello-00001")); n != 2 {
			t.Errorf("%d are live", n)
		}
		r.within(3*time.Minute, "it is tried again", func() bool { return r.saga("hello", service.WorkScale).State == saga.Waiting })
		if err := c.DrainHost(r.t.Context(), "b", false); err != nil {
			t.Fatal(err)
		}
		r.hosts.Lose("a")
		r.within(3*time.Minute, "all are on the one that is left", func() bool { return r.liveOn("b", "hello-00001") == 2 && len(r.revision("hello-00001").Slots) == 2 })
	})
}

func TestARestartPlacesWhatHasGatheredAnewAndCapacityComesFirst(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{ReadyAfter: time.Second, DrainFor: 2 * time.Second}
		})
		r.start(options{})
		r.hosts.Disconnect("b")
		r.write("hello", func(d *service.Desired) { d.Instances = 4 })
		r.serves(20*time.Second, "hello", "hello-00001")
		before := r.processesOf("hello")
		r.hosts.Connect("b")
		time.Sleep(2 * time.Minute)
		if now := r.processesOf("hello"); !slices.Equal(now, before) {
			t.Errorf("something was moved by nobody's wish: %q became %q", before, now)
		}
		least := r.fewest("hello-00001")
		r.write("hello", func(d *service.Desired) { d.Round++ })
		r.within(2*time.Minute, "the restart is done", func() bool { return r.catalog("hello").ObservedGeneration == 2 })
		if a, b := r.liveOn("a", "hello-00001"), r.liveOn("b", "hello-00001"); a != 2 || b != 2 {
			t.Errorf("%d and %d are live", a, b)
		}
		if n := least(); n < 4 {
			t.Errorf("%d were live meanwhile", n)
		}
		for _, i := range r.live("hello-00001") {
			if slices.Contains(before, i.ID) {
				t.Errorf("%s was not replaced", i.ID)
			}
		}
		if rev := r.revision("hello-00001"); len(rev.Slots) != 4 || len(rev.Leaving) != 0 || rev.Round != 1 {
			t.Errorf("it ends as %+v", rev)
		}
	})
}
