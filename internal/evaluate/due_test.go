package evaluate

import (
	"testing"

	"github.com/fairlead-platform/fairlead/internal/evidence"
)

func TestWhoRunsWellIsJudgedByItsEvidenceAloneAndNotWhenAWindowEnds(t *testing.T) {
	const n = 1000
	e := estate(n)
	for range 60 { // beyond the looks of the first seconds
		e.Fold(clean(evidence.Tick{Number: e.Now() + 1}, n))
	}
	for range 20 {
		tick := clean(evidence.Tick{Number: e.Now() + 1}, n)
		e.Fold(tick)
		judged := 0
		for h := range uint32(n) {
			if e.instances.get(h+1).state.Judged == tick.Number {
				judged++
			}
		}
		if judged != len(tick.Rows) {
			t.Errorf("tick %d has %d rows, and %d are judged", tick.Number, len(tick.Rows), judged)
		}
	}
}

func TestWhoIsDueIsListedOnceHoweverMuchEvidencePutsItOff(t *testing.T) {
	const n = 100
	e := estate(n)
	for range 100 {
		e.Fold(tickOf(e.Now()+1, n, 1, 1, 0)) // of each, every second
	}
	listed := 0
	for _, handles := range e.due {
		listed += len(handles)
	}
	if listed > 2*n {
		t.Errorf("%d instances are listed %d times", n, listed)
	}
}
