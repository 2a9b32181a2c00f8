package outage

import (
	"slices"
	"testing"
	"time"
)

func TestAnOutageIsSpokenOfFirstThenAtGrowingIntervalsAndOnceAtItsEnd(t *testing.T) {
	var o Outage
	start := time.Now()
	var spoken []int // seconds
	for s := range 3600 {
		if o.Failed(start.Add(time.Duration(s) * time.Second)) {
			spoken = append(spoken, s)
		}
	}
	if want := []int{0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030}; !slices.Equal(spoken, want) {
		t.Errorf("spoken of after %v seconds, not %v", spoken, want)
	}
	now := start.Add(time.Hour)
	if away := o.For(now); away != time.Hour {
		t.Errorf("away for %s", away)
	}
	if away, again := o.Back(now), o.Back(now); away != time.Hour || again != 0 {
		t.Errorf("back after %s, and again after %s", away, again)
	}
	if !o.Failed(now) {
		t.Error("the next outage is not spoken of")
	}
}

func TestWhatIsAwayForAMomentIsNotSpokenOf(t *testing.T) {
	o := Outage{After: Moment}
	start := time.Now()
	for range 2 {
		if o.Failed(start) || o.Failed(start.Add(Moment-time.Millisecond)) {
			t.Error("a moment is spoken of")
		}
		if away := o.Back(start.Add(Moment)); away != Moment {
			t.Errorf("back after %s", away)
		}
	}
	var spoken []int // seconds
	for s := range 100 {
		if o.Failed(start.Add(time.Duration(s) * time.Second)) {
			spoken = append(spoken, s)
		}
	}
	if want := []int{5, 15, 35, 75}; !slices.Equal(spoken, want) {
		t.Errorf("spoken of after %v seconds, not %v", spoken, want)
	}
}
