package control_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

func TestAControlThatIsAwayForADrillKeepsTheLeadAndLeadsNothingUntilItsTimeHasPassed(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{standby: true})
		r.within(time.Second, "the first leads", a.Leading)
		epoch := a.Epoch()
		b := r.start(options{standby: true})
		time.Sleep(5 * time.Second)
		if err := b.Absent(time.Minute); !errors.Is(err, fault.Unavailable) {
			t.Errorf("one that does not lead stays away: %v", err)
		}
		if err := a.Absent(time.Minute); err != nil {
			t.Fatal(err)
		}
		r.within(time.Second, "it leads nothing", func() bool { return !a.Leading() })
		for range 58 {
			time.Sleep(time.Second)
			if a.Leading() || b.Leading() || !a.IsAbsent() {
				t.Fatalf("leading: %v and %v", a.Leading(), b.Leading())
			}
		}
		r.within(3*time.Second, "it leads again", a.Leading)
		if b.Leading() || a.Epoch().Number != epoch.Number+1 || a.IsAbsent() {
			t.Errorf("after it: %v leads, epoch %v was %v", b.Leading(), a.Epoch(), epoch)
		}
		if err := a.Absent(time.Hour); err != nil {
			t.Fatal(err)
		}
		r.within(time.Second, "it leads nothing", func() bool { return !a.Leading() })
		time.Sleep(5 * time.Second)
		a.Present()
		r.within(2*time.Second, "ended early, it leads again", a.Leading)
	})
}
