package control_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// pickers are callers who have not acknowledged that instances leave until a
// test lets them.
type pickers struct {
	mu   sync.Mutex
	told []string // instances, in order
	done bool
	away bool // no view is published
}

func (p *pickers) Follows(string, uint64) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "the discovery plane has not begun yet", !p.away
}

func (p *pickers) Withdraw(_ string, instances []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, instances...)
}

func (p *pickers) MayPick(_ string, instances []string) (out routing.Pickers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.done:
	case !slices.Contains(p.told, instances[0]):
		out.Why = "the view, which names it still"
	default:
		out.Add(1, func() string { return "service/web" })
	}
	return out
}

func (p *pickers) stayAway(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = yes
}

func (p *pickers) let(done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
}

func TestAStopIsWithdrawnFirstAndWaitsForCallersForFifteenSecondsAtMost(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pickers{}
		r.start(options{edit: func(c *control.Config) { c.Callers = p }})
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.deploy("hello", "one")
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(30*time.Second, "three run", func() bool { return len(r.live("hello-00001")) == 3 })
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		time.Sleep(10 * time.Second)
		if n := len(r.live("hello-00001")); n != 3 {
			t.Fatalf("%d run though a caller has not acknowledged that one leaves", n)
		}
		p.let(true)
		r.within(2*time.Second, "it is stopped once they have", func() bool { return len(r.live("hello-00001")) == 2 })
		p.let(false)
		r.write("hello", func(d *service.Desired) { d.Instances = 1 })
		time.Sleep(14 * time.Second)
		if n := len(r.live("hello-00001")); n != 2 {
			t.Fatalf("%d run before the time of the last caller has passed", n)
		}
		r.within(4*time.Second, "it is stopped when that has passed", func() bool { return len(r.live("hello-00001")) == 1 })
	})
}
