package evaluate

import (
	"testing"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/registry"
)

func TestTheHardAndTheSoftPathLeaveTheSameHistoryFlapsAndGuard(t *testing.T) {
	type left struct {
		changes, flaps, trips int
		in                    int
	}
	walk := func(bad eligibility.Result) (l left) {
		p := newPlane(4, "a")
		for range 2 { // each of three goes, and comes back
			for i := range 3 {
				p.run(60, good)
				p.run(30, func(x registry.Instance) eligibility.Result {
					if x.Handle == uint32(i+1) {
						return bad
					}
					return eligibility.Good
				})
			}
		}
		p.run(120, good)
		l.trips = len(p.Publish("s", true).Tripped)
		out := func(x registry.Instance) eligibility.Result {
			if x.Handle <= 3 {
				return bad
			}
			return eligibility.Good
		}
		for range 6 {
			p.run(5, out)
			l.trips += len(p.Publish("s", true).Tripped)
		}
		l.in = p.published(t).InRotation()
		for _, tr := range p.history {
			if tr.From != tr.To {
				l.changes++
				if a := tr.Account(); a.Why == "" || len(a.Classes) != 3 || a.Next == "" {
					t.Errorf("a change by %s tells %+v", tr.Rule, a)
				}
			}
		}
		for _, s := range p.Standings("s") {
			l.flaps += s.Flaps
		}
		return l
	}
	hard, soft := walk(eligibility.Refused), walk(eligibility.TimedOut)
	if hard != soft || hard.trips != 1 || hard.in != 4 {
		t.Errorf("by refusals %+v, by time-outs %+v", hard, soft)
	}
}
