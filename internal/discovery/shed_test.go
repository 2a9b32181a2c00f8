package discovery

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// caller takes every view at once, as a client does, and says how busy the
// sending of them is.
type caller struct {
	t     *testing.T
	began time.Time

	mu       sync.Mutex
	load     budget.Load
	lacks    []string
	held     *view.HeldService
	last     *view.Service
	versions int
	shed     time.Duration
	longest  time.Duration            // that was declared
	marked   int                      // views that said that something is held back
	outAt    map[string]time.Duration // :: instance → when it was out of the view first
	inAt     map[string]time.Duration // :: instance → when it was in it first
}

func newCaller(t *testing.T) *caller {
	return &caller{t: t, began: time.Now(), outAt: map[string]time.Duration{}, inAt: map[string]time.Duration{}}
}

func (c *caller) Begin(view.Epoch)          {}
func (c *caller) Forget(string)             {}
func (c *caller) End()                      {}
func (c *caller) Missed() map[string]string { return nil }

func (c *caller) MayPick(_ string, instances []string) (p routing.Pickers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range instances {
		if e, _ := c.last.Endpoint(id); e.In() {
			p.Why = "the view, which names it still"
		}
	}
	for _, who := range c.lacks {
		p.Add(1, func() string { return who })
	}
	return p
}

func (c *caller) Load() budget.Load {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load
}

func (c *caller) saturate(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.load = (budget.Load{}); yes {
		c.load.Delay = time.Second
	}
}

func (c *caller) Shed(window time.Duration, _ string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shed, c.longest = window, max(c.longest, window)
}

func (c *caller) Publish(v *view.Service, _ view.Nature) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change := v.ChangeFrom(c.last)
	next, err := c.held.Take(change, time.Since(c.began))
	if err != nil {
		c.t.Errorf("a view is refused: %v", err)
		return
	}
	c.held, c.last = next, v
	c.versions++
	if v.Shed {
		c.marked++
	}
	now := time.Since(c.began)
	for id := range c.inAt {
		if e, _ := v.Endpoint(id); !e.In() && c.outAt[id] == 0 {
			c.outAt[id] = now
		}
	}
	for _, e := range v.Endpoints {
		if e.In() && c.inAt[e.ID] == 0 {
			c.inAt[e.ID] = now
		}
	}
}

// picks are the instances that the caller sends to.
func (c *caller) picks() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.held.Serving()
	if v == nil {
		return nil
	}
	for _, e := range v.Endpoints {
		if e.In() {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func process(id, revision string, s service.InstanceState) service.Instance {
	return service.Instance{ID: id, Service: "s", Revision: revision, Slot: revision + "." + id, Host: "a", Zone: "z", Address: "127.0.0.1:1", State: s}
}

func (h *hosts) start(all ...service.Instance) {
	h.edit(func() { h.all = append(h.all, all...) })
}

func TestInABurstWithdrawalsKeepTheirBudgetAndTheRestIsShedDeclaredAndArrives(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(40)
		c := newCaller(t)
		r.views = c
		l := r.begin()
		defer l.stop()
		time.Sleep(10*time.Second + 300*time.Millisecond)
		synctest.Wait()
		calm := c.versions
		c.saturate(true)
		diedAt, cameAt := map[string]time.Duration{}, map[string]time.Duration{}
		for n := range 400 { // forty seconds: ten starts a second, an end every four
			id := fmt.Sprintf("n%03d", n)
			r.hosts.start(process(id, "s-00001", service.InstanceLive))
			cameAt[id] = time.Since(c.began)
			if n%40 == 39 {
				dead := fmt.Sprint("i", 1+n/40)
				r.hosts.set(dead, service.InstanceExited)
				diedAt[dead] = time.Since(c.began)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if c.versions-calm > 40 {
			t.Errorf("%d versions were published in a burst of 400 changes that may wait, and 10 that may not", c.versions-calm)
		}
		if c.longest != budget.Longest || c.shed != budget.Longest || c.marked == 0 {
			t.Errorf("%s are declared, at most %s, and in %d views", c.shed, c.longest, c.marked)
		}
		if alarms := l.Alarms(); len(alarms) == 0 {
			t.Error("no alarm says that changes wait")
		}
		c.saturate(false)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		for id, at := range diedAt {
			if late := c.outAt[id] - at; c.outAt[id] == 0 || late > 100*time.Millisecond {
				t.Errorf("%s ended, and left the view %s later", id, late)
			}
		}
		for id, at := range cameAt {
			// It is judged at the turn of a second, and then waits.
			if late := c.inAt[id] - at; c.inAt[id] == 0 || late > budget.Longest+2*time.Second {
				t.Errorf("%s came into the view %s after it was live", id, late)
			}
		}
		if n := len(c.picks()); n != 430 || c.shed != 0 || c.last.Shed {
			t.Errorf("in the end it picks among %d, and %s are declared", n, c.shed)
		}
	})
}

// turned is a lead whose routes turn to the second revision.
type turned struct {
	*lead
	to atomic.Bool
}

func (l *turned) Routes() ([]view.Route, uint64) {
	if !l.to.Load() {
		return l.lead.Routes()
	}
	return []view.Route{{Service: "s", Splits: []view.Split{{Revision: "s-00002", Percent: 100, Group: "s-00002", Allowed: []string{"s-00002"}}}}}, 2
}

func TestARolloutInABurstNeverLeavesACallerWithoutEndpoints(t *testing.T) {
	for name, stop := range map[string]time.Duration{"that stops what was after 15 s": 15 * time.Second, "that stops it at once": time.Second, "that kills it": 0} {
		t.Run(name, func(t *testing.T) {
			inRegion(t, func(r *rig) {
				r.hosts.run(3)
				first := r.begin() // for its lead alone
				first.stop()
				c := newCaller(t)
				c.saturate(true)
				ctx, end := context.WithCancel(r.t.Context())
				l, done := &turned{lead: first.lead}, make(chan struct{})
				go func() {
					defer close(done)
					New(Config{Store: r.store, Bucket: r.bucket, Hosts: r.hosts, Views: c}).Run(ctx, l)
				}()
				defer func() { <-done }()
				defer end()
				time.Sleep(20 * time.Second) // the window is at its longest
				for i := range 3 {
					r.hosts.start(process(fmt.Sprint("j", i+1), "s-00002", service.InstanceLive))
				}
				time.Sleep(5 * time.Second)
				l.to.Store(true)
				time.Sleep(max(stop, time.Millisecond))
				for i := range 3 {
					if stop > 0 {
						r.hosts.set(fmt.Sprint("i", i+1), service.InstanceDraining)
					}
				}
				time.Sleep(stop / 2)
				ended := time.Now()
				for i := range 3 {
					r.hosts.set(fmt.Sprint("i", i+1), service.InstanceExited)
				}
				var without time.Duration // since when it has had nobody that is there
				for range 800 {
					time.Sleep(50 * time.Millisecond)
					synctest.Wait()
					there := 0
					for _, id := range c.picks() {
						if id[0] == 'j' {
							there++
						}
					}
					if there == 0 {
						without = time.Since(ended)
					}
				}
				if without > 1100*time.Millisecond { // a second, where the routes turned within it
					t.Errorf("for %s after the old ones ended it had none of those that are there", without)
				}
			})
		})
	}
}
