package discovery

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

func TestTheInstancesOfAHostThatIsGoneLeaveOnlyWhenProbersOrCallersAgree(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(6)
		l := r.begin()
		defer l.stop()
		time.Sleep(2 * time.Second)
		one, two := r.watcher(l, "p1"), r.watcher(l, "p2")
		look := func(n int, but map[string]eligibility.Result) {
			for range n {
				time.Sleep(time.Second)
				one.says(eligibility.Good, but)
				two.says(eligibility.Good, but)
			}
		}
		look(60, nil)
		r.hosts.edit(func() { r.hosts.silent = time.Hour })
		look(300, nil)
		synctest.Wait()
		if n := l.View("s").InRotation(); n != 6 {
			t.Errorf("probers see all of them well, and %d are left", n)
		}
		look(10, map[string]eligibility.Result{"i1": eligibility.Refused})
		synctest.Wait()
		if e, _ := l.View("s").Endpoint("i1"); e.In() || l.View("s").InRotation() != 5 {
			t.Errorf("probers are refused by i1: %s", l.verdicts())
		}
		a, b := l.Reporter("gateway/a"), l.Reporter("gateway/b")
		for n := range uint64(3) {
			seen := []Outcome{{Instance: "i2", Failed: 1, Refused: 1}, {Instance: "i3", OK: 20}, {Instance: "i4", OK: 20}}
			a.Take(n+1, seen)
			b.Take(n+1, seen)
			look(1, nil)
		}
		synctest.Wait()
		if e, _ := l.View("s").Endpoint("i2"); e.In() {
			t.Errorf("callers are refused by i2: %s", l.verdicts())
		}
	})
}

func TestWithTheLastMinuteOfEvidenceDamagedTheRecordedVerdictsStand(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		first := r.begin()
		time.Sleep(100 * time.Second)
		r.hosts.set("i2", service.InstanceStarting)
		time.Sleep(30 * time.Second)
		first.stop()
		r.bucket.mu.Lock()
		for name, body := range r.bucket.held {
			if strings.HasPrefix(name, "evidence/") {
				body[len(body)/2] ^= 0xff
			}
		}
		r.bucket.mu.Unlock()
		r.hosts.edit(func() { r.hosts.silent = time.Minute })
		second := r.begin()
		defer second.stop()
		synctest.Wait()
		r.expect(second, "i1 eligible serving, i2 ineligible says-unready")
	})
}

func TestVersionsAndTicksNeverFallAcrossRestartsEpochsAndSetBackClocks(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		f := &follower{r: r}
		r.views = f
		var last view.Version
		tick := int64(0)
		for i, back := range []time.Duration{0, 0, 10 * time.Hour, -10 * time.Hour, 1000 * time.Hour} {
			r.now = func() time.Time { return time.Now().Add(-back) }
			l := r.begin()
			r.hosts.set("i1", []service.InstanceState{service.InstanceStarting, service.InstanceLive}[i%2])
			time.Sleep(40 * time.Second)
			synctest.Wait()
			f.mu.Lock()
			v := f.last.Version
			f.mu.Unlock()
			if last.Incarnation != "" && v.Against(last) != view.Newer {
				t.Errorf("after %s comes %s, with the clock set back by %s", last, v, back)
			}
			last = v
			l.peek(func(x *term) {
				if now := x.eval.Now(); now <= tick {
					t.Errorf("after tick %d comes %d", tick, now)
				} else {
					tick = now
				}
			})
			l.stop()
		}
	})
}

func TestWhileControlIsAwayForTenMinutesNoLeasedInstanceIsLost(t *testing.T) {
	inRegion(t, func(r *rig) {
		first := r.begin()
		time.Sleep(time.Second)
		ids := first.register(t, 10)
		first.renewing(t, ids, time.Minute)
		first.stop()
		time.Sleep(10 * time.Minute)
		second := r.begin()
		defer second.stop()
		for range 20 {
			time.Sleep(time.Second)
			synctest.Wait()
			if n := second.View("m").InRotation(); n != 10 {
				t.Fatalf("%d of 10 are in rotation: %s", n, second.of("m"))
			}
		}
		second.renewing(t, ids, time.Minute)
		if n := second.View("m").InRotation(); n != 10 {
			t.Errorf("%d of 10 are in rotation after they were renewed", n)
		}
	})
}

func TestManyDecisionsAtOnceAreEachOfTheirOwnTrip(t *testing.T) {
	inRegion(t, func(r *rig) {
		p := service.DefaultPolicy()
		p.Guard.Mode = view.HoldForPerson
		r.decide(p)
		r.hosts.run(4)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		for i := range 3 {
			r.hosts.set(fmt.Sprint("i", i+1), service.InstanceStarting)
		}
		time.Sleep(3 * time.Second)
		if _, err := l.Decide(context.Background(), "s", GuardDecision{Zone: "elsewhere", Decision: view.Accepted}); err == nil {
			t.Error("a decision about a zone in which nothing waits is taken")
		}
		if _, err := l.Decide(context.Background(), "s", GuardDecision{Group: "s-00001", Zone: "z", Decision: view.Declined}); err != nil {
			t.Error(err)
		}
	})
}

func TestANewLeaderWhoseHostsAreSlowToAnswerPublishesWhatWasThere(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(5)
		first := r.begin()
		time.Sleep(70 * time.Second)
		synctest.Wait()
		before := first.View("s")
		first.stop()
		r.hosts.edit(func() { r.hosts.away = true })
		f := &follower{r: r}
		r.views = f
		second := r.begin()
		defer second.stop()
		for range 60 {
			time.Sleep(time.Second)
			synctest.Wait()
			if v := second.View("s"); v == nil || v.InRotation() != 5 {
				t.Fatalf("the hosts have not answered yet, and the view is %+v", v)
			}
		}
		if v := second.View("s"); v.Version.Against(before.Version) != view.Newer {
			t.Errorf("%s comes after %s", v.Version, before.Version)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, line := range f.lines {
			if !strings.HasPrefix(line, "begin") && !strings.HasPrefix(line, "i1 i2 i3 i4 i5 of 5") {
				t.Errorf("handed over: %s", line)
			}
		}
	})
}
