package discovery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnInstanceThatIsToStopLeavesTheViewsBeforeItsHostIsTold(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		c := newCaller(t)
		c.lacks = []string{"service/web"}
		r.views = c
		l := r.begin()
		defer l.stop()
		time.Sleep(5*time.Second + 300*time.Millisecond)
		if may := l.MayPick("s", []string{"i1"}); may.Why == "" {
			t.Errorf("before it was said to leave: %s", may.Text())
		}
		l.Withdraw("s", []string{"i1", "unknown"})
		time.Sleep(2 * window) // it is not left to the next second
		synctest.Wait()
		if got := fmt.Sprint(c.picks()); got != "[i2 i3]" {
			t.Errorf("callers pick among %s", got)
		}
		if may := l.MayPick("s", []string{"i1"}); may.Text() != "1 caller (service/web)" {
			t.Errorf("it may be picked by %s", may.Text())
		}
		c.mu.Lock()
		c.lacks = nil
		c.mu.Unlock()
		if may := l.MayPick("s", []string{"i1"}); !may.Nobody() {
			t.Errorf("once callers have acknowledged it: %s", may.Text())
		}
		if l.ServiceAlarms("s") != nil {
			t.Errorf("a planned stop is an alarm: %v", l.ServiceAlarms("s"))
		}
		time.Sleep(100 * time.Second) // its host is never told
		synctest.Wait()
		if got := fmt.Sprint(c.picks()); got != "[i1 i2 i3]" {
			t.Errorf("it does not come back: callers pick among %s", got)
		}
	})
}

func TestWhatIsToStopByRecordIsInNoViewOfALeaderThatBeginsMeanwhile(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		first := r.begin()
		time.Sleep(5 * time.Second)
		first.Withdraw("s", []string{"i1"})
		time.Sleep(time.Second)
		first.stop()
		c := newCaller(t)
		r.views, r.leaving = c, []string{"s-00001.0"}
		l := r.begin()
		defer l.stop()
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if got := fmt.Sprint(c.picks()); got != "[i2 i3]" {
				t.Fatalf("callers pick among %s", got)
			}
		}
	})
}
