package gatewaytest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Caller sends requests for one service to every gateway of a Sim. They are
// leased by the real waiting rooms, with the credits that hosts give, held for
// some ticks, and answered by the process that was leased. It hears hosts as
// hosttest.Polls, and keeps what was promised of requests: whatever breaks it
// is told to Wrong.
type Caller struct {
	cfg  CallerConfig
	sim  *Sim
	from time.Time

	// Guarded by the Sim's lock.
	ticks  int64
	rooms  map[string]*rooms // :: gateway → rooms
	polled map[string]*polled
	by     map[string]int // :: revision → requests that it answered
	apart  int            // whose gateway or instance died
}

// CallerConfig is whom a Caller calls, and what is promised to it.
type CallerConfig struct {
	Service string
	// Wait bounds the wait for a lease.
	Wait time.Duration
	// Exclusive: two revisions never answer at once, and requests may have to
	// wait longer than Wait while none runs.
	Exclusive bool
	// Unserved: no route may lead to the service.
	Unserved func() bool
	// Wrong is told what breaks a promise, under the Sim's lock.
	Wrong func(what string)
}

// What each instance gives to each gateway, and how long a request may wait at
// all: the time to the first byte of a response.
const (
	creditsEach = 8
	firstByte   = time.Minute
)

// polled is an instance as its host tells of it.
type polled struct {
	service.Instance
	group     string
	withdrawn bool
}

// NewCaller makes the caller of a Sim that has none. It is to be ticked.
func (s *Sim) NewCaller(cfg CallerConfig) *Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Caller{cfg: cfg, sim: s, from: time.Now(), rooms: map[string]*rooms{}, polled: map[string]*polled{}, by: map[string]int{}}
	s.caller = c
	return c
}

func (c *Caller) now() time.Duration { return time.Since(c.from) }

// roomsOf gives the rooms of a running gateway, governed by what it serves.
func (c *Caller) roomsOf(g *Gateway) *rooms {
	r := c.rooms[g.name]
	if r == nil {
		r = &rooms{c: c, gateway: g.name, queues: map[string]*lease.Queue{}}
		c.rooms[g.name] = r
		for _, id := range slices.Sorted(maps.Keys(c.polled)) {
			if p := c.polled[id]; !p.withdrawn {
				r.offer(p)
			}
		}
	}
	r.govern(g.held.Serving())
	return r
}

func (r *rooms) offer(p *polled) {
	_, cs := r.queue(p.group).Offer(p.ID, p.Revision, p.Minted, creditsEach)
	r.obey(p.group, cs)
}

// governLocked has a gateway's rooms follow the table that it has just taken.
func (g *Gateway) governLocked() {
	if c := g.sim.caller; c != nil && !g.down {
		c.roomsOf(g)
	}
}

// dieLocked ends what a gateway held.
func (g *Gateway) dieLocked() {
	if c := g.sim.caller; c != nil {
		if r := c.rooms[g.name]; r != nil {
			c.apart += len(r.leased) + len(r.waiting)
			delete(c.rooms, g.name)
		}
	}
}

// Tick answers what is due, and lets a request arrive at each running gateway.
// Most are held for one tick; one in eight for as many as long says.
func (c *Caller) Tick(long int64) {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	c.ticks++
	for _, g := range c.sim.gateways {
		if g.down {
			continue
		}
		r := c.roomsOf(g)
		r.tick()
		if why := c.overdueLocked(r); why != "" && !c.cfg.Exclusive && !c.unserved() {
			c.wrong("%s", why)
		}
		if g.held.Serving() == nil {
			continue
		}
		r.arrivals++
		a := &ask{number: r.arrivals, until: 1}
		if a.number%8 == 0 {
			a.until = long
		}
		a.Arrived, a.Deadline, a.Owner = c.now(), c.now()+firstByte, a
		r.choose(a, false)
	}
}

// Answered counts the requests that were answered, :: revision → requests.
func (c *Caller) Answered() map[string]int {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	return maps.Clone(c.by)
}

func (c *Caller) wrong(format string, a ...any) {
	c.cfg.Wrong(fmt.Sprintf(format, a...))
}

func (c *Caller) unserved() bool { return c.cfg.Unserved != nil && c.cfg.Unserved() }

// Overdue says which request waits for longer than it should; empty when none does.
func (c *Caller) Overdue() string {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.rooms)) {
		if why := c.overdueLocked(c.rooms[name]); why != "" {
			return why
		}
	}
	return ""
}

func (c *Caller) overdueLocked(r *rooms) string {
	for _, a := range r.waiting { // in order of arrival
		if a.over || a.in != nil {
			continue
		}
		if waited := c.now() - a.Arrived; waited > c.cfg.Wait {
			return fmt.Sprintf("a request that came to gateway %s for group %s waits, by now %s", r.gateway, a.group, waited)
		}
		break
	}
	return ""
}

// granted keeps a lease, after a look at whether it may be.
func (c *Caller) granted(r *rooms, a *ask, g lease.Command) {
	a.in, a.rules, a.until = g.Instance, g.Rules, c.ticks+a.until
	p := c.polled[a.in.ID]
	if p == nil || p.withdrawn {
		c.wrong("gateway %s leased a request to instance %s of %s, which was withdrawn", r.gateway, a.in.ID, a.in.Revision)
	} else if p.Revision != a.in.Revision {
		c.wrong("instance %s is of %s, not of %s", a.in.ID, p.Revision, a.in.Revision)
	}
	if r.by == nil || a.rules.Table != r.by.Version || p != nil && !r.allows(a.group, p.Instance) {
		c.wrong("gateway %s leased a request of group %s to %s by table %s, which does not allow that", r.gateway, a.group, a.in.Revision, a.rules.Text)
	}
	if c.cfg.Exclusive {
		for _, other := range c.rooms {
			for _, b := range other.leased {
				if !b.over && b.in.Revision != a.in.Revision {
					c.wrong("gateway %s leased a request to %s while %s still answers one at gateway %s", r.gateway, a.in.Revision, b.in.Revision, other.gateway)
					break
				}
			}
		}
	}
	r.leased = append(r.leased, a)
}

// allows reads the table itself, not the rules that were made of it.
func (r *rooms) allows(group string, i service.Instance) bool {
	any := false
	for _, s := range r.route.Splits {
		if s.Group != group {
			continue
		}
		if s.Hold || !s.Allows(i.Revision, i.Minted) {
			return false
		}
		any = true
	}
	return any && !r.route.Deleted
}

func (c *Caller) answered(r *rooms, a *ask) {
	if p := c.polled[a.in.ID]; p == nil {
		c.wrong("gateway %s got an answer of instance %s of %s, which has ended", r.gateway, a.in.ID, a.in.Revision)
	}
	c.by[a.in.Revision]++
}

// rejected: a hold of an exclusive handover may last longer than requests wait.
func (c *Caller) rejected(r *rooms, a *ask, why lease.Reason, free int) {
	if free > 0 && !a.late || !c.cfg.Exclusive && !c.unserved() {
		c.wrong("gateway %s refused a request for %s (%s) while %d credits were free", r.gateway, a.group, why, free)
	}
}

func (c *Caller) unrouted(r *rooms, a *ask) {
	a.over = true
	if !c.unserved() {
		c.wrong("gateway %s has no route for a request", r.gateway)
	}
}

// Offered is part of hosttest.Polls.
func (c *Caller) Offered(i service.Instance, group string) {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	if i.Service != c.cfg.Service {
		return
	}
	p := &polled{Instance: i, group: group}
	c.polled[i.ID] = p
	for _, name := range slices.Sorted(maps.Keys(c.rooms)) {
		c.rooms[name].offer(p)
	}
}

// Withdrawn is part of hosttest.Polls.
func (c *Caller) Withdrawn(instance string) {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	p := c.polled[instance]
	if p == nil {
		return
	}
	p.withdrawn = true
	for _, name := range slices.Sorted(maps.Keys(c.rooms)) {
		r := c.rooms[name]
		r.obey(p.group, r.queue(p.group).Terminate(instance))
	}
}

// Ended is part of hosttest.Polls. What a process held when somebody ended it
// before its time to drain had passed is lost.
func (c *Caller) Ended(instance string, drained time.Duration) {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	p := c.polled[instance]
	if p == nil {
		return
	}
	delete(c.polled, instance)
	for _, name := range slices.Sorted(maps.Keys(c.rooms)) {
		r := c.rooms[name]
		for _, a := range r.leased {
			if a.over || a.in.ID != instance {
				continue
			}
			a.over = true
			if c.apart++; drained >= 0 {
				c.wrong("a request at gateway %s is lost: %s of %s was ended %s after it was withdrawn", name, instance, p.Revision, drained)
			}
		}
		r.obey(p.group, r.queue(p.group).Gone(instance))
	}
}

// Busy is part of hosttest.Polls.
func (c *Caller) Busy(instance string) bool {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	for _, r := range c.rooms {
		if r.busy(instance) > 0 {
			return true
		}
	}
	return false
}
