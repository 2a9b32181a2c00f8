package evaluate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/view"
)

// closed has both probers refused by one instance.
func (p *plane) closed(h uint32) {
	for prober := range uint32(2) {
		p.ingest.Probes(prober+1, []evidence.Look{{Instance: h, Result: eligibility.Refused}})
	}
}

func TestAClosedPortIsOutBeforeItsSecondIsOverAndTheRestOfTheSecondWaits(t *testing.T) {
	p := newPlane(4, "a")
	p.run(60, good)
	before := p.published(t)
	x, slow := p.reg.Of("s")[0], p.reg.Of("s")[1]
	p.closed(x.Handle)
	p.ingest.Probes(1, []evidence.Look{{Instance: slow.Handle, Result: eligibility.Refused}})
	left := p.early()
	if len(left) != 1 || left[0].Instance != x.ID || left[0].Rule != eligibility.RefusedToProbers || left[0].Tick != p.Now()+1 {
		t.Fatalf("left are %+v", left)
	}
	out := p.Publish("s", false)
	if e, listed := out.View.Endpoint(x.ID); !out.Changed || !listed || e.In() || out.View.InRotation() != 3 {
		t.Errorf("the view between is %+v after %s", out.View, before.Version)
	}
	if again := p.early(); len(again) != 0 {
		t.Errorf("again left: %+v", again)
	}
	for _, tr := range p.second() {
		if tr.Handle == x.Handle {
			t.Errorf("the second has it change again: %+v", tr)
		}
	}
}

func TestOneProbersRefusalOfTwoTakesNobodyOutEarly(t *testing.T) {
	p := newPlane(4, "a")
	p.run(60, good)
	p.ingest.Probes(1, []evidence.Look{{Instance: 1, Result: eligibility.Refused}})
	if left := p.early(); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
	p.ingest.Probes(2, []evidence.Look{{Instance: 1, Result: eligibility.Refused}})
	if left := p.early(); len(left) != 1 {
		t.Errorf("with the other's in the same second: left are %+v", left)
	}
}

func TestTwoReportersRefusalsTakeAnInstanceOutBeforeTheSecondIsOver(t *testing.T) {
	p := newPlane(4, "a")
	p.run(60, good)
	report := func(name string) {
		rows := []evidence.Row{{Instance: 1, Failed: 1, Refused: 1}, {Instance: 2, OK: 5}, {Instance: 3, OK: 5}}
		p.ingest.Outcomes(evidence.NewReporter(name), evidence.Batch{Number: 1, Rows: rows})
	}
	report("gateway/x")
	if left := p.early(); len(left) != 0 {
		t.Errorf("by one reporter of those who call: left are %+v", left)
	}
	report("gateway/y")
	if left := p.early(); len(left) != 1 || left[0].Rule != eligibility.RefusedToCallers {
		t.Errorf("by two: left are %+v", left)
	}
}

func TestWhatIsHardOfASecondGivesTheSameStatesEarlyOrWithTheWholeSecond(t *testing.T) {
	early := 0
	rapid.Check(t, func(t *rapid.T) {
		p := newPlane(3, "a")
		shake(t, p)
		for _, tr := range p.history {
			if tr.Rule.Hard() {
				early++
			}
		}
		whole := New(p.Version, p.Epoch, 0)
		whole.SetService("s", contract, view.GuardPolicy{})
		for _, row := range p.reg.Of("s") {
			row.EverReady = false
			whole.Enter(row, nil)
		}
		var history []Transition
		for _, tick := range p.ticks {
			history = append(history, whole.Fold(tick)...)
		}
		for _, row := range p.reg.Of("s") {
			if d := cmp.Diff(p.instances.get(row.Handle).state, whole.instances.get(row.Handle).state); d != "" {
				t.Fatal(d)
			}
		}
		if len(history) != len(p.history) {
			t.Fatalf("%d transitions by whole seconds, %d live", len(history), len(p.history))
		}
	})
	if early == 0 {
		t.Error("nothing was ever hard: the property was not tried")
	}
}
