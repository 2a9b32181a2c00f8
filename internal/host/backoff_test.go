package host_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/host"
)

func TestWhatFailsAgainAndAgainWaitsLongerAndWhatWasLiveForAWhileIsStartedAtOnceHoweverOftenItIsKilled(t *testing.T) {
	const ms = time.Millisecond
	fails := host.Backoffs(0, 0, 0, time.Second, 0, 0, 0, 0, 0, 0)
	if want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 25600 * ms, 30 * time.Second}; !slices.Equal(fails, want) {
		t.Errorf("what fails waits %v, expected %v", fails, want)
	}
	killed := host.Backoffs(slices.Repeat([]time.Duration{15 * time.Second}, 10)...)
	if want := slices.Repeat([]time.Duration{100 * ms}, 10); !slices.Equal(killed, want) {
		t.Errorf("what was live for 15 s each time waits %v", killed)
	}
}
