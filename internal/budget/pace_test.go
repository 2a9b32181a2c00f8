package budget

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSaturationLengthensOnlyTheRestAndAtMostTo25Seconds(t *testing.T) {
	p := &Pace{}
	busy := Load{Subscribers: 60_000, Delay: time.Second}
	var windows []time.Duration
	for range 7 {
		p.Step(busy)
		windows = append(windows, p.Window())
	}
	if got := fmt.Sprint(windows); got != "[2s 4s 8s 16s 25s 25s 25s]" {
		t.Errorf("windows under saturation: %s", got)
	}
	if why, sheds := p.Sheds(); !sheds || why != "what is to be sent waits 1s for its turn" {
		t.Errorf("it says %q, %v", why, sheds)
	}
	seconds := 0
	for ; p.Window() > Steady; seconds++ {
		p.Step(Load{Subscribers: 60_000})
	}
	if _, sheds := p.Sheds(); sheds || seconds != 15 || p.Episodes() != 1 {
		t.Errorf("after %d calm seconds it sheds: %v, episodes %d", seconds, sheds, p.Episodes())
	}
}

func TestOneSubscriberThatDoesNotReadIsNoSaturation(t *testing.T) {
	for _, c := range []struct {
		load      Load
		saturated bool
	}{
		{Load{}, false},
		{Load{Subscribers: 3, Stuck: 3}, false},
		{Load{Subscribers: 100, Stuck: 24}, false},
		{Load{Subscribers: 100, Stuck: 25}, true},
		{Load{Subscribers: 8, Stuck: 8}, true},
		{Load{Turn: 400 * time.Millisecond}, false},
		{Load{Turn: 600 * time.Millisecond}, true},
		{Load{Delay: 250 * time.Millisecond}, false},
		{Load{Delay: 500 * time.Millisecond}, true},
	} {
		if why := c.load.Saturated(); (why != "") != c.saturated {
			t.Errorf("%+v: %q", c.load, why)
		}
	}
}

// Nothing waits longer than the window that was in force, however the load
// goes; and without load nothing waits beyond the next turn.
func TestWhatWaitsGoesWithinTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, r := &Pace{}, &Rest{}
		since := map[string]time.Duration{}
		for turn := range 120 {
			now := time.Duration(turn) * Steady
			p.Step(Load{Subscribers: 10, Delay: time.Duration(rapid.IntRange(0, 500).Draw(t, "delay")) * time.Millisecond})
			for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4).Draw(t, "changed") {
				if r.Wait(name, now); since[name] == 0 {
					since[name] = now
				}
			}
			for _, name := range r.Waiting() {
				if !r.Due(name, now, p.Window()) {
					if age := now + Steady - since[name]; age > Longest {
						t.Fatalf("%s will have waited %s", name, age)
					}
					if _, sheds := p.Sheds(); !sheds {
						t.Fatalf("%s waits though nothing is shed", name)
					}
					continue
				}
				r.Done(name)
				delete(since, name)
			}
			if r.Oldest(now) > Longest {
				t.Fatalf("something waits for %s", r.Oldest(now))
			}
		}
	})
}
