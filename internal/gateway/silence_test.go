package gateway

import (
	"testing"
	"time"
)

func TestWaitsInVainAddUpUntilTheInstanceIsHeard(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	var s silence
	for i, c := range []struct {
		heard       uint64
		asked, gone float64
		want        time.Duration
	}{
		{7, 0, 1, time.Second},
		{7, 0.5, 2, 2 * time.Second},            // what overlaps counts once
		{7, 100, 101, 3 * time.Second},          // while nobody waits nothing is heard
		{7, 95, 101.5, 6500 * time.Millisecond}, // one alone waited for longer
		{8, 101, 102, time.Second},              // it was heard
	} {
		if got := s.gaveUp(c.heard, at(c.asked), at(c.gone)); got != c.want {
			t.Errorf("%d: callers waited for %s, want %s", i, got, c.want)
		}
	}
}
