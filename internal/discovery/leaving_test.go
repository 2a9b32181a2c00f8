package discovery

import (
	"fmt"
	"slices"
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
		if behind, done := l.Withdrawn("s", []string{"i1"}); done {
			t.Errorf("it is withdrawn before it was said to leave: %v", behind)
		}
		l.Withdraw("s", []string{"i1", "unknown"})
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := fmt.Sprint(c.picks()); got != "[i2 i3]" {
			t.Errorf("callers pick among %s", got)
		}
		if behind, done := l.Withdrawn("s", []string{"i1"}); done || !slices.Equal(behind, []string{"service/web"}) {
			t.Errorf("withdrawn: %v, behind are %v", done, behind)
		}
		c.mu.Lock()
		c.lacks = nil
		c.mu.Unlock()
		if _, done := l.Withdrawn("s", []string{"i1"}); !done {
			t.Error("it is not withdrawn once callers have acknowledged it")
		}
		if l.ServiceAlarms("s") != nil {
			t.Errorf("a planned stop is an alarm: %v", l.ServiceAlarms("s"))
		}
		time.Sleep(90 * time.Second) // its host is never told
		synctest.Wait()
		if got := fmt.Sprint(c.picks()); got != "[i1 i2 i3]" {
			t.Errorf("it does not come back: callers pick among %s", got)
		}
	})
}
