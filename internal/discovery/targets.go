package discovery

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
)

const (
	// quick is the interval until the first verdict, but not for ever.
	quick    = 500 * time.Millisecond
	quickFor = 60 // ticks
	// confirming is the interval where callers decide, in seconds: a port that
	// closes is found, told and sealed within the budget of ten.
	confirming = 8
	// slowest interval that a contract may ask for, in seconds.
	slowest = 10
	// paceEvery is how often an interval is looked over, in ticks.
	paceEvery = 5
)

// target is an instance that is looked at, or was until a moment ago.
type target struct {
	id, service, zone string
	handle            uint32
	address           string
	check             eligibility.ProbeCheck
	interval          time.Duration
	since             int64 // tick at which it became one

	probers  []uint32 // handles of who looks at it
	before   []uint32 // of who did until the assignment before
	ends     int64    // tick from which they are no longer accepted
	borrowed bool
	over     bool // it is no longer looked at

	refused []uint32 // handles of probers that were refused when they looked last
	seen    []seen   // what each prober saw last
}

// seen is one prober's last look, for people.
type seen struct {
	prober uint32
	result eligibility.Result
	detail string
}

func (x *target) by(prober uint32) bool { return !x.over && slices.Contains(x.probers, prober) }

// follow keeps an instance among what is looked at, from when it first listens
// until it is asked to stop.
func (t *term) follow(x registry.Instance, c eligibility.Contract) {
	p, old := t.probing, t.probing.targets[x.ID]
	ready := x.Listening || x.EverReady || old != nil
	switch {
	case c.Profile.Probe && ready && !x.Gone && !x.Terminating:
	case old != nil && !old.over:
		old.over = true
		t.precede(old, nil)
		p.change()
		return
	default:
		return
	}
	check := t.check(x, c)
	if old != nil && !old.over && old.address == x.Address && old.check == check {
		return
	}
	now := t.eval.Now()
	next := &target{id: x.ID, service: x.Service, zone: x.Zone, handle: x.Handle, address: x.Address, check: check, since: now}
	if old != nil {
		next.probers, next.before, next.ends, next.borrowed, next.since = old.probers, old.before, old.ends, old.borrowed, old.since
	} else {
		next.probers, next.borrowed = p.recorded(x.ID, x.Zone)
	}
	p.targets[x.ID] = next
	t.pace(next, now)
	p.change()
}

// recorded are the handles of who looks at an instance by the records: a new
// term goes on with what there was.
func (p *probing) recorded(instance, zone string) (handles []uint32, borrowed bool) {
	for _, m := range p.members {
		if _, found := slices.BinarySearch(m.Targets, instance); found {
			handles = append(handles, m.Handle)
			borrowed = borrowed || m.Zone != zone
		}
	}
	slices.Sort(handles)
	return handles, borrowed
}

// check is how an instance is looked at: as declared, or at its ready path, or
// by a connection.
func (t *term) check(x registry.Instance, c eligibility.Contract) eligibility.ProbeCheck {
	if c.Look != nil {
		return *c.Look
	}
	if path := t.lead.ReadyPath(x.Service, x.Revision); path != "" {
		return eligibility.ProbeCheck{Kind: "http", Path: path}
	}
	return eligibility.ProbeCheck{Kind: "tcp"}
}

// unfollow forgets a target.
func (t *term) unfollow(id string) {
	if x := t.probing.targets[id]; x != nil {
		delete(t.probing.targets, id)
		delete(t.probing.before, id)
		t.probing.change()
	}
}

// precede sets who looks at a target. Who did until now is accepted for a while.
func (t *term) precede(x *target, probers []uint32) {
	if slices.Equal(x.probers, probers) {
		return
	}
	x.before, x.ends, x.probers = x.probers, t.eval.Now()+preceding, probers
	x.refused = nil
	t.probing.before[x.id] = true
	t.acquaint(x)
}

// acquaint tells the ingest who may look at a target.
func (t *term) acquaint(x *target) {
	if row, known := t.reg.Get(x.id); known {
		t.meet(row)
	}
}

// assigned is who may look at an instance, now and until the assignment before.
func (p *probing) assigned(id string) (probers, before []uint32) {
	if x := p.targets[id]; x != nil {
		return x.probers, x.before
	}
	return nil, nil
}

// expire ends what is accepted of the assignment before.
func (t *term) expire(now int64) {
	for id := range t.probing.before {
		if x := t.probing.targets[id]; now >= x.ends {
			x.before = nil
			delete(t.probing.before, id)
			t.acquaint(x)
		}
	}
}

// know has a row known by those who look, and by those who take looks in.
func (t *term) know(x registry.Instance) {
	t.follow(x, t.inForce(x.Service))
	t.meet(x)
}

func (t *term) meet(x registry.Instance) {
	c := t.inForce(x.Service)
	in := evidence.Instance{Handle: x.Handle, ID: x.ID, Service: x.Service, Profile: c.Profile}
	in.Probers, in.Before = t.probing.assigned(x.ID)
	t.ingest.Know(in)
}

// paces looks over the intervals of a part of the targets.
func (t *term) paces(now int64) {
	declared := map[string]int{} // :: service → its contract's interval
	for _, x := range t.probing.targets {
		if x.over || x.interval != quick && (now+int64(x.handle))%paceEvery != 0 {
			continue
		}
		interval, is := declared[x.service]
		if !is {
			interval = t.inForce(x.service).ProbeInterval
			declared[x.service] = interval
		}
		t.setPace(x, interval, now)
	}
}

// pace sets a target's interval: short until the first verdict, long where
// callers decide, otherwise its contract's.
func (t *term) pace(x *target, now int64) { t.setPace(x, t.inForce(x.service).ProbeInterval, now) }

func (t *term) setPace(x *target, interval int, now int64) {
	starting, enough := t.eval.Footing(x.handle)
	was := x.interval
	switch {
	case starting && now-x.since < quickFor:
		x.interval = quick
	case enough:
		x.interval = time.Duration(max(interval, min(2*interval, confirming))) * time.Second
	default:
		x.interval = time.Duration(interval) * time.Second
	}
	if x.interval != was {
		t.probing.tell(x)
	}
}

// tell wakes the streams of who looks at a target.
func (p *probing) tell(x *target) {
	for _, h := range x.probers {
		if m := p.handles[h]; m != nil && m.stream != nil {
			m.stream.wakeUp()
		}
	}
}
