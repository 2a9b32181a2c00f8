package evidence

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

func TestAProbersFirstGoodLookIsSealedInItsSecondAndLaterOnesTogether(t *testing.T) {
	in := fleet(1)
	sealed := func() int {
		e, _ := in.Seal().row(1)
		n := 0
		for _, p := range e.Probes {
			n += int(p.Count)
		}
		return n
	}
	for in.tick%10 != 8 { // the tick at which clean running would be sealed is the last one
		in.Seal()
	}
	good := []Look{{Instance: 1}}
	in.Probes(1, good)
	if n := sealed(); n != 1 {
		t.Errorf("of the first good look ever %d are sealed", n)
	}
	in.Seal()
	in.Probes(1, good)
	if n := sealed(); n != 0 {
		t.Errorf("of clean running %d are sealed at once", n)
	}
	in.Probes(2, good)
	if n := sealed(); n != 2 {
		t.Errorf("with another prober's first good look %d are sealed, want both", n)
	}
	in.Probes(1, []Look{{Instance: 1, Result: eligibility.Failed}})
	sealed()
	in.Probes(1, good)
	if n := sealed(); n != 1 {
		t.Errorf("of the first good look after a bad one %d are sealed", n)
	}
}

func TestALookThatCannotSayHowItsTargetIsIsDiscardedAndCounted(t *testing.T) {
	in := fleet(2)
	in.Probes(1, []Look{
		{Instance: 1, Result: eligibility.Refused, Age: oldestLook + time.Millisecond},
		{Instance: 1, Result: eligibility.Refused, Age: -time.Second},
		{Instance: 1, Result: eligibility.Refused + 1},
		{Instance: 9},
	})
	in.Probes(3, []Look{{Instance: 1, Result: eligibility.Refused}})
	for range 3 * looksCap { // more than a prober can honestly make in a second
		in.Probes(2, []Look{{Instance: 2, Result: eligibility.Failed}})
	}
	tick := in.Seal()
	if _, any := tick.row(1); any {
		t.Errorf("sealed is %+v", tick)
	}
	if e, _ := tick.row(2); len(e.Probes) != looksCap {
		t.Errorf("of one prober's second %d looks are sealed", len(e.Probes))
	}
	want := map[Reason]uint64{TooOld: 1, OutOfRange: 2, UnknownInstance: 1, NotAssigned: 1, TooMany: 2 * looksCap}
	for reason, n := range want {
		if got := in.Discarded()[reason]; got != n {
			t.Errorf("discarded as %s are %d, want %d", reason, got, n)
		}
	}
}
