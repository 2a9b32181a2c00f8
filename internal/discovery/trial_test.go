package discovery

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// callers call every instance of the service for n seconds, each of them so
// many times a second; failing says how many of those fail at an instance.
func (l *leading) callers(n int, failing map[string]uint32) {
	const per = 20
	var reporters []*Reporter
	for i := range 3 {
		reporters = append(reporters, l.Reporter(fmt.Sprint("gateway/", i)))
	}
	for range n {
		time.Sleep(time.Second)
		l.number++
		all, _ := l.Standings("s")
		for _, r := range reporters {
			var seen []Outcome
			for _, s := range all {
				if s.Verdict != "ineligible" {
					seen = append(seen, Outcome{Instance: s.ID, OK: per - failing[s.ID], Failed: failing[s.ID]})
				}
			}
			r.Take(l.number, seen)
		}
	}
}

// troubled is a plane in whose past an instance failed a third of its calls,
// one fell silent for its ready path, one was replaced, and a leader changed.
func (r *rig) troubled(f func(l *leading)) {
	r.hosts.run(4)
	first := r.begin()
	first.callers(45, nil)
	first.callers(40, map[string]uint32{"i1": 7})
	r.hosts.set("i2", service.InstanceStarting)
	first.callers(5, nil)
	r.hosts.set("i2", service.InstanceLive)
	first.callers(60, map[string]uint32{"i3": 3}) // a tremor that is no reason
	first.stop()
	l := r.begin()
	defer l.stop()
	synctest.Wait()
	r.hosts.edit(func() { r.hosts.all[3].State = service.InstanceExited })
	l.callers(3, nil)
	r.hosts.edit(func() { r.hosts.all[3].ID, r.hosts.all[3].State = "i5", service.InstanceLive })
	l.callers(40, map[string]uint32{"i3": 3})
	synctest.Wait()
	f(l)
}

func (l *leading) try(t *testing.T, c eligibility.Contract, since time.Duration) Trial {
	t.Helper()
	out, err := l.Try(context.Background(), "s", c, since)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheContractInForceReproducesTheDecisionsThatWereTaken(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.troubled(func(l *leading) {
			for _, since := range []time.Duration{time.Hour, 100 * time.Second, 50 * time.Second} {
				got := l.try(t, DefaultContract(), since)
				if got.Recorded == 0 || got.Reproduced != got.Recorded || got.Lost != 0 {
					t.Errorf("over %s: %d of %d recorded changes are reproduced, %d of %d s lost", since, got.Reproduced, got.Recorded, got.Lost, got.Seconds)
				}
				if got.Condemned() || len(got.Spared) != 0 {
					t.Errorf("over %s the contract in force is condemned: %+v", since, got)
				}
			}
			got := l.try(t, DefaultContract(), time.Hour)
			var removed []string
			for _, x := range got.Removals {
				removed = append(removed, x.Instance+" "+x.Rule.String())
			}
			if fmt.Sprint(removed) != "[i1 failing-callers i2 says-unready]" {
				t.Errorf("removed are %v", removed)
			}
			for _, x := range got.Removals { // dated as it happened
				for _, h := range r.history() {
					if h.Instance == x.Instance && h.Rule == x.Rule && h.To == eligibility.Ineligible && !h.At.Equal(x.At) {
						t.Errorf("%s left at %s, and is said to have at %s", x.Instance, h.At, x.At)
					}
				}
			}
		})
	})
}

func TestATrialBeginsWithWhatWasRecordedBeforeItsWindow(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(10 * time.Second)
		r.hosts.set("i2", service.InstanceStarting) // for longer than what a trial folds before its window
		time.Sleep((settling + 100) * time.Second)
		r.hosts.set("i2", service.InstanceLive)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		got := l.try(t, DefaultContract(), 60*time.Second)
		if got.Recorded != 1 || got.Reproduced != 1 || len(got.Removals) != 0 {
			t.Errorf("of its one return %d is reproduced; removed are %+v", got.Reproduced, got.Removals)
		}
	})
}

func TestAContractThatIsWrongOnPurposeIsCondemnedByWhomItWouldHaveRemoved(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.troubled(func(l *leading) {
			c := DefaultContract()
			c.OutByOutcomes, c.DegradeAt, c.In, c.Worse = 60, 60, 50, 50 // i3 fails a seventh
			got := l.try(t, c, time.Hour)
			if !got.Condemned() {
				t.Fatalf("it is not condemned: %+v", got)
			}
			var i3 *Removal
			for i, x := range got.Removals {
				if x.Instance == "i3" {
					i3 = &got.Removals[i]
				}
			}
			if i3 == nil || i3.AlsoInForce || i3.Rule != eligibility.FailingCallers || i3.Why == "" || i3.At.IsZero() {
				t.Errorf("who would have been removed, when and by which rule is not said: %+v", got.Removals)
			}
			lenient := DefaultContract()
			lenient.OutByOutcomes, lenient.DegradeAt = 999, 900
			if got := l.try(t, lenient, time.Hour); got.Condemned() || len(got.Spared) != 1 || got.Spared[0].Instance != "i1" {
				t.Errorf("a lenient contract: condemned %t, spared %+v", got.Condemned(), got.Spared)
			}
		})
	})
}

func TestAContractUnderWhichTheGuardWouldHaveTrippedIsCondemned(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		l := r.begin()
		defer l.stop()
		time.Sleep(40 * time.Second)
		r.hosts.edit(func() { r.hosts.silent = time.Minute }) // nobody is seen any more, which is no fault of theirs
		time.Sleep(40 * time.Second)
		synctest.Wait()
		got := l.try(t, forbidding(), time.Hour)
		if !got.Condemned() || len(got.Trips) != 1 || got.Trips[0].Counted != 4 || got.Trips[0].In >= 2 || got.Trips[0].AlsoInForce {
			t.Errorf("the guard's trips are %+v", got.Trips)
		}
		if got := l.try(t, DefaultContract(), time.Hour); got.Condemned() || len(got.Trips) != 0 {
			t.Errorf("under the contract in force it trips: %+v", got.Trips)
		}
	})
}

func TestWhatIsLostOfTheEvidenceIsSaidInATrial(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.troubled(func(l *leading) {
			r.bucket.breaks(true)
			if _, err := l.Try(context.Background(), "s", DefaultContract(), time.Hour); err != nil {
				t.Fatalf("what waits to be written is evidence too: %v", err)
			}
			r.bucket.breaks(false)
			names := r.bucket.names()
			if err := r.bucket.Delete(context.Background(), names[1]); err != nil {
				t.Fatal(err)
			}
			if got := l.try(t, DefaultContract(), time.Hour); got.Lost != 30 {
				t.Errorf("%d seconds are said to be lost, want 30", got.Lost)
			} else if why := got.Inconclusive(); why != "" {
				t.Errorf("30 of %d s are lost, and it says that %s", got.Seconds, why)
			}
			whole := l.try(t, DefaultContract(), time.Hour)
			for _, name := range names[:len(names)-1] { // the first too, with which the window would begin
				if err := r.bucket.Delete(context.Background(), name); err != nil {
					t.Fatal(err)
				}
			}
			got := l.try(t, DefaultContract(), time.Hour)
			if got.Seconds != whole.Seconds || 2*got.Lost < got.Seconds || got.Inconclusive() == "" {
				t.Errorf("%d of %d s are lost of all but the last segment, and it says %q", got.Lost, got.Seconds, got.Inconclusive())
			}
		})
	})
}

// replaces has a contract in force in place of another, as the API writes it.
func (r *rig) replaces(was, is eligibility.Contract) {
	r.t.Helper()
	r.applied++
	change := Policy{Service: "s", At: time.Now(), What: "contract", Before: encode(was)}
	_, err := r.store.Apply(context.Background(), store.Apply{ID: fmt.Sprint("contract ", r.applied), Writes: []store.Write{
		{Key: store.Key{Kind: service.KindContract, Name: "s"}, Any: true, Body: encode(is)},
		{Key: store.Key{Kind: service.KindPolicy, Name: fmt.Sprint("s.", r.applied)}, Any: true, Body: encode(change)},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestATrialAcrossAChangeOfContractReproducesTheDecisionsOfEach(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(5)
		l := r.begin()
		defer l.stop()
		l.callers(40, nil)
		l.callers(60, map[string]uint32{"i1": 4}) // a fifth: degraded, and never out
		time.Sleep(500 * time.Millisecond)
		lower := DefaultContract()
		lower.OutByOutcomes, lower.DegradeAt = 150, 120
		r.replaces(DefaultContract(), lower)
		l.callers(60, map[string]uint32{"i1": 4}) // and now it is out
		middle := lower
		middle.ReturnAfter = 20
		r.replaces(lower, middle)
		l.callers(60, nil)
		synctest.Wait()
		out := 0
		for _, x := range r.history() {
			if x.To == eligibility.Ineligible {
				out++
			}
		}
		if out == 0 {
			t.Fatal("the contract in force took nobody out")
		}
		got := l.try(t, middle, time.Hour)
		if got.Recorded == 0 || got.Reproduced != got.Recorded {
			t.Errorf("%d of %d recorded changes are reproduced", got.Reproduced, got.Recorded)
		}
		mild := l.try(t, DefaultContract(), time.Hour)
		if mild.Reproduced != mild.Recorded || len(mild.Removals) != 0 || len(mild.Spared) != out {
			t.Errorf("by the contract of before: %d of %d reproduced, removals %v, spared %v", mild.Reproduced, mild.Recorded, mild.Removals, mild.Spared)
		}
	})
}
