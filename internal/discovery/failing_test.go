package discovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAServiceAllOfWhoseInstancesFailTheirCallersIsAnAlarmAndNobodyLeaves(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		c := l.Reporter("gateway/g")
		number := uint64(0)
		seconds := func(n int, failing ...string) {
			for range n {
				number++
				seen := []Outcome{}
				for _, id := range []string{"i1", "i2", "i3"} {
					o := Outcome{Instance: id, OK: 10}
					for _, f := range failing {
						if f == id {
							o = Outcome{Instance: id, Failed: 10}
						}
					}
					seen = append(seen, o)
				}
				c.Take(number, seen)
				time.Sleep(time.Second)
			}
		}
		seconds(20)
		if got := l.alarmed(t); got != "" {
			t.Errorf("alarms are %q while all is well", got)
		}
		seconds(20, "i1", "i2", "i3")
		if got := l.alarmed(t); got != "failing" {
			t.Errorf("alarms are %q while everything fails", got)
		}
		r.expect(l, "i1 eligible serving, i2 eligible serving, i3 eligible serving")
		seconds(30)
		if got := l.alarmed(t); got != "" {
			t.Errorf("alarms are %q afterwards", got)
		}
		text := "most requests fail, and at no instance more than at its siblings, so that none leaves for it: look at what all of them share, or their callers do"
		if d := cmp.Diff([]string{"s alarm " + text, "s alarm over: " + text}, r.events()); d != "" {
			t.Error(d)
		}
		seconds(20, "i1")
		if got := l.alarmed(t); got != "" {
			t.Errorf("alarms are %q where one instance fails", got)
		}
	})
}

func TestTheAlarmOfAQuietServiceThatFailedIsOverAndForgotten(t *testing.T) {
	f := fares{results: 1000, failed: 1000}
	for range faresBad {
		f.turn()
		f.results, f.failed = f.results+100, f.failed+100
	}
	if !f.alarmed {
		t.Fatal("there is no alarm")
	}
	for range 100 {
		f.turn()
	}
	if f.alarmed || f.results >= 1 {
		t.Errorf("it is %+v", f)
	}
}

func TestAServiceThatIsGoneIsForgottenAndHasNoAlarm(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		c := l.Reporter("gateway/g")
		for number := range uint64(20) {
			c.Take(number+1, []Outcome{{Instance: "i1", Failed: 10}, {Instance: "i2", Failed: 10}, {Instance: "i3", Failed: 10}})
			time.Sleep(time.Second)
		}
		r.hosts.edit(func() { r.hosts.all = nil })
		l.lead.mu.Lock()
		l.lead.deleted = true
		l.lead.mu.Unlock()
		time.Sleep((linger + 2*sweepEvery) * time.Second)
		synctest.Wait()
		l.peek(func(x *term) {
			if len(x.known)+len(x.fares)+len(x.alarms) > 0 {
				t.Errorf("%v is known, of which %v and %v are left", x.known, x.fares, x.alarms)
			}
		})
	})
}
