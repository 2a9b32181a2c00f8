package discovery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// watcher is a prober that says what the test has it say.
type watcher struct {
	s       *ProberStream
	targets map[string]uint32 // :: instance → handle
	number  uint64
}

func (r *rig) watcher(l *leading, name string) *watcher {
	r.t.Helper()
	s, err := l.Prober(name, "z")
	if err != nil {
		r.t.Fatal(err)
	}
	return &watcher{s: s, targets: map[string]uint32{}}
}

// says tells one result of every target, but for some.
func (w *watcher) says(all eligibility.Result, but map[string]eligibility.Result) {
	for _, x := range w.s.News().Targets {
		w.targets[x.ID] = x.Handle
	}
	var looks []ProbeLook
	for id, h := range w.targets {
		result, is := but[id]
		if !is {
			result = all
		}
		looks = append(looks, ProbeLook{Instance: h, Result: result})
	}
	w.number++
	w.s.Take(w.number, looks)
}

// refused tells one look.
func (w *watcher) refused(id string) {
	w.number++
	w.s.Take(w.number, []ProbeLook{{Instance: w.targets[id], Result: eligibility.Refused}})
}

func TestAClosedPortLeavesTheViewWithinTheWindowOfTheSecondRefusalAndAfterItsRecord(t *testing.T) {
	inRegion(t, func(r *rig) {
		f := &follower{r: r}
		r.views = f
		r.hosts.run(6)
		l := r.begin()
		defer l.stop()
		time.Sleep(2 * time.Second)
		one, two := r.watcher(l, "p1"), r.watcher(l, "p2")
		for range 30 {
			time.Sleep(time.Second)
			one.says(eligibility.Good, nil)
			two.says(eligibility.Good, nil)
		}
		time.Sleep(300 * time.Millisecond)
		f.take()
		one.refused("i1")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if e, _ := l.View("s").Endpoint("i1"); !e.In() {
			t.Fatal("one prober of two is believed")
		}
		two.refused("i1")
		time.Sleep(window)
		synctest.Wait()
		if e, _ := l.View("s").Endpoint("i1"); e.In() {
			t.Errorf("%s after the second refusal it is %+v", window, e)
		}
		f.mu.Lock()
		lines := len(f.lines)
		f.mu.Unlock()
		if got := f.take(); lines != 1 || got == "" || !strings.Contains(got, "urgent true, after its record") {
			t.Errorf("handed over: %s", got)
		}
		before := len(r.history())
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := len(r.history()); n != before {
			t.Errorf("the end of its second had %d more changes recorded", n-before)
		}
	})
}

func TestWhatTwoCallersAreRefusedLeavesTheViewWithinTheWindow(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		l := r.begin()
		defer l.stop()
		time.Sleep(10*time.Second + 300*time.Millisecond)
		a, b := l.Reporter("gateway/a"), l.Reporter("gateway/b")
		seen := []Outcome{{Instance: "i1", Failed: 1, Refused: 1}, {Instance: "i2", OK: 3}, {Instance: "i3", OK: 3}}
		a.Take(1, seen)
		b.Take(1, seen)
		time.Sleep(window)
		synctest.Wait()
		if e, _ := l.View("s").Endpoint("i1"); e.In() {
			t.Errorf("it is %+v: %s", e, l.verdicts())
		}
	})
}

func TestALeaderThatEndsRightAfterAnEarlyVerdictIsFollowedByOneOfTheSameVerdict(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		first := r.begin()
		time.Sleep(10*time.Second + 300*time.Millisecond)
		seen := []Outcome{{Instance: "i1", Failed: 1, Refused: 1}, {Instance: "i2", OK: 3}, {Instance: "i3", OK: 3}}
		first.Reporter("gateway/a").Take(1, seen)
		first.Reporter("gateway/b").Take(1, seen)
		time.Sleep(window)
		synctest.Wait()
		before := first.verdicts()
		first.stop() // its second was never sealed
		second := r.begin()
		defer second.stop()
		synctest.Wait()
		r.expect(second, before)
		for range 5 {
			time.Sleep(time.Second)
			synctest.Wait()
			if e, _ := second.View("s").Endpoint("i1"); e.In() {
				t.Fatalf("it came back: %s", second.verdicts())
			}
		}
	})
}
