package discovery

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

func TestAVerdictFollowsWhatTheHostSays(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		r.hosts.set("i3", service.InstanceStarting)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		r.expect(l, "i1 eligible serving, i2 eligible serving, i3 unknown starting")
		r.hosts.set("i1", service.InstanceStarting) // its ready path fails
		r.hosts.set("i2", service.InstanceDraining)
		r.hosts.set("i3", service.InstanceLive)
		time.Sleep(2 * time.Second)
		r.expect(l, "i1 ineligible says-unready, i2 ineligible says-draining, i3 eligible serving")
		r.hosts.set("i2", service.InstanceExited)
		time.Sleep(2 * time.Second)
		r.expect(l, "i1 ineligible says-unready, i2 ineligible gone, i3 eligible serving")
		r.hosts.edit(func() { r.hosts.all = r.hosts.all[2:] }) // i1 and i2 are no longer listed
		time.Sleep(30 * time.Second)
		r.expect(l, "i3 eligible serving")
		if v := l.View("s"); len(v.Endpoints) != 1 || v.Version.Zero() {
			t.Errorf("the view is %+v", v)
		}
	})
}

func TestEveryTransitionIsRecordedWithItsEvidenceBeforeItIsPublished(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		r.hosts.set("i1", service.InstanceStarting)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var got []string
		for _, x := range r.history() {
			got = append(got, x.From.String()+" "+x.To.String()+" "+x.Rule.String())
			if x.Late || x.Why == "" || len(x.Classes) != 3 || x.Next == "" || x.State.Judged != x.Tick || x.Row.ID != "i1" || x.At.IsZero() {
				t.Errorf("the record is %+v", x)
			}
		}
		if d := cmp.Diff([]string{"unknown eligible serving", "eligible ineligible says-unready"}, got); d != "" {
			t.Error(d)
		}
	})
}

// standings are what is computed, without the rows.
func (l *leading) standings() (out []Standing) {
	all, _ := l.Standings("s")
	for _, s := range all {
		s.Instance = registry.Instance{ID: s.ID, Handle: s.Handle, EverReady: s.EverReady}
		out = append(out, s)
	}
	return out
}

func TestARebuiltPlaneEqualsTheOneBefore(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		first := r.begin()
		time.Sleep(40 * time.Second)
		r.hosts.set("i2", service.InstanceStarting)
		time.Sleep(20 * time.Second)
		r.hosts.set("i3", service.InstanceStarting)
		r.hosts.edit(func() { r.hosts.silent = time.Minute }) // nothing new is said from here on
		time.Sleep(3 * time.Second)
		synctest.Wait()
		before, history := first.standings(), r.history()
		first.stop()
		second := r.begin()
		defer second.stop()
		synctest.Wait()
		if d := cmp.Diff(before, second.standings()); d != "" {
			t.Errorf("the rebuilt plane differs:\n%s", d)
		}
		r.hosts.edit(func() { r.hosts.silent = 0 })
		time.Sleep(3 * time.Second)
		r.expect(second, "i1 eligible serving, i2 ineligible says-unready, i3 ineligible says-unready, i4 eligible serving")
		for _, x := range r.history()[len(history):] {
			if x.Instance != "i3" { // which was not heard of in time by the first
				t.Errorf("a change of leaders changed a verdict: %+v", x)
			}
		}
	})
}

func TestWithItsEvidenceLostTheRecordedVerdictsStand(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		first := r.begin()
		time.Sleep(10 * time.Second)
		r.hosts.set("i2", service.InstanceStarting)
		time.Sleep(2 * time.Second)
		r.bucket.breaks(true)
		first.stop()
		r.hosts.edit(func() { r.hosts.silent = time.Minute })
		second := r.begin()
		defer second.stop()
		synctest.Wait()
		r.expect(second, "i1 eligible serving, i2 ineligible says-unready")
		if n := len(r.bucket.names()); n != 0 {
			t.Errorf("%d segments were written to a bucket out of reach", n)
		}
		if last := r.history()[0].Tick; second.current().first <= last {
			t.Errorf("ticks went back from %d to %d", last, second.current().first)
		}
	})
}

func TestADeposedPlaneWritesNothing(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		first := r.begin()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		second := r.begin() // the first does not know
		before, segments := len(r.history()), len(r.bucket.names())
		second.stop()
		r.hosts.set("i1", service.InstanceStarting)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		r.expect(first, "i1 ineligible says-unready")
		first.stop()
		if first.lead.refused == 0 {
			t.Fatal("the deposed plane wrote nothing because it did not try")
		}
		if n := len(r.history()); n != before {
			t.Errorf("a deposed plane recorded %d transitions", n-before)
		}
		if n := len(r.bucket.names()); n > segments+1 { // one is the second's own
			t.Errorf("a deposed plane kept %d segments", n-segments)
		}
	})
}

func TestEvidenceIsKeptEveryThirtySeconds(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		time.Sleep(95 * time.Second)
		synctest.Wait()
		if n := len(r.bucket.names()); n != 3 {
			t.Errorf("%d segments after 95 s, want 3", n)
		}
		l.stop()
		if n := len(r.bucket.names()); n != 4 {
			t.Errorf("%d segments after the end, want the rest in one more", n)
		}
	})
}

// forbidding is a contract that takes silence for failure.
func forbidding() eligibility.Contract {
	c := DefaultContract()
	c.SilenceFails = true
	return c
}

func (r *rig) declare(c eligibility.Contract) {
	r.t.Helper()
	body, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	w := store.Write{Key: store.Key{Kind: service.KindContract, Name: "s"}, Any: true, Body: body}
	if _, err := r.store.Apply(context.Background(), store.Apply{ID: "contract", Writes: []store.Write{w}}); err != nil {
		r.t.Fatal(err)
	}
}

func TestNothingIsWithdrawnOnSilenceBeforeAWholeIntervalWasSeen(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.declare(forbidding())
		r.hosts.run(2)
		first := r.begin()
		time.Sleep(40 * time.Second)
		r.hosts.edit(func() { r.hosts.silent = time.Minute })
		time.Sleep(20 * time.Second)
		first.stop()
		second := r.begin()
		defer second.stop()
		time.Sleep(time.Duration(forbidding().SilentAfter-2) * time.Second)
		r.expect(second, "i1 unknown unseen, i2 unknown unseen")
		time.Sleep(10 * time.Second)
		r.expect(second, "i1 ineligible silence-forbidden, i2 ineligible silence-forbidden")
	})
}

func TestAContractIsInForceASecondAfterItWasDeclared(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		c := DefaultContract()
		c.Profile = eligibility.Profile{Outcomes: true}
		r.declare(c)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		all, _ := l.Standings("s")
		if got := all[0].Account.Classes[1]; got != "self: its profile has none" {
			t.Errorf("self says %q", got)
		}
		if v := l.View("s"); !v.Endpoints[0].HealthUnknown {
			t.Errorf("the view does not say that health is unknown: %+v", v)
		}
	})
}

func TestASlowStoreDelaysNoViewAndTheRecordSaysSo(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		letGo := l.lead.hold()
		r.hosts.set("i1", service.InstanceStarting)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if e, _ := l.View("s").Endpoint("i1"); e.Verdict != view.Ineligible && len(l.View("s").Marks) == 0 {
			t.Errorf("the view waits for the store: %+v", l.View("s"))
		}
		if n := len(r.history()); n != 1 {
			t.Fatalf("%d transitions are recorded, want 1", n)
		}
		letGo()
		time.Sleep(time.Second)
		synctest.Wait()
		h := r.history()
		if len(h) != 2 || !h[1].Late || h[0].Late {
			t.Errorf("the history is %+v", h)
		}
	})
}
