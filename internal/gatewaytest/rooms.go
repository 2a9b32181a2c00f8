package gatewaytest

import (
	"maps"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
)

// rooms are the waiting rooms of one service at one simulated gateway: the
// real ones, governed by the tables that the gateway takes. Guarded by the
// Sim's lock.
type rooms struct {
	c        *Caller
	gateway  string
	by       *view.Table // that governs
	route    view.Route
	chooser  *lease.Chooser
	queues   map[string]*lease.Queue // :: group → room
	leased   []*ask
	waiting  []*ask // those of before may be among them
	again    []*ask // displaced, to choose anew
	arrivals int
}

// ask is one request.
type ask struct {
	lease.Request
	number int
	group  string
	in     *lease.Instance // that holds it; nil while it waits
	until  int64           // tick at which it is answered, once it is leased
	rules  *lease.Rules
	over   bool
	late   bool // it chose anew after its deadline, which nobody looked at between two ticks
}

func (r *rooms) queue(group string) *lease.Queue {
	q := r.queues[group]
	if q == nil {
		q = lease.NewQueue()
		r.queues[group] = q
	}
	return q
}

// govern puts the table in force, if it is another one.
func (r *rooms) govern(t *view.Table) {
	if t == nil || t == r.by {
		return
	}
	r.by = t
	r.route, _ = t.Route(r.c.cfg.Service)
	r.chooser = lease.NewChooser(r.route.Splits)
	rules := lease.RulesOf(t.Version, r.route)
	for g := range rules {
		r.queue(g)
	}
	// What leads here first: what is displaced may choose among all.
	for _, nothing := range []bool{false, true} {
		for _, g := range slices.Sorted(maps.Keys(r.queues)) {
			if (rules[g] == nil) == nothing {
				r.obey(g, r.queues[g].Govern(rules[g]))
			}
		}
	}
	again := r.again
	r.again = nil
	for _, a := range again {
		r.choose(a, true)
	}
}

// choose leads a request to a group, where it is leased or waits.
func (r *rooms) choose(a *ask, again bool) {
	at := -1
	if r.chooser != nil {
		at = r.chooser.Choose("", uint32(a.number)*0x9E3779B1)
	}
	if at < 0 {
		r.c.unrouted(r, a)
		return
	}
	a.group = r.route.Splits[at].Group
	enter := r.queue(a.group).Arrive
	if again {
		a.late = r.c.now() >= a.Deadline
		enter = r.queue(a.group).Rejoin
	}
	r.obey(a.group, enter(&a.Request, r.c.now()))
	if a.in == nil && !a.over && !again {
		r.waiting = append(r.waiting, a)
	}
}

func (r *rooms) obey(group string, cs []lease.Command) {
	for _, c := range slices.Clone(cs) {
		switch c.Verb {
		case lease.Grant:
			r.c.granted(r, c.Request.Owner.(*ask), c)
		case lease.Reject:
			a := c.Request.Owner.(*ask)
			a.over = true
			r.c.rejected(r, a, c.Reason, r.queue(group).Free())
		case lease.Displace:
			r.again = append(r.again, c.Request.Owner.(*ask))
		}
	}
}

// tick answers what is due, and turns away what waited too long.
func (r *rooms) tick() {
	held := r.leased
	r.leased = nil
	for _, a := range held {
		if a.over {
			continue
		}
		if a.until > r.c.ticks {
			r.leased = append(r.leased, a)
			continue
		}
		a.over = true
		r.c.answered(r, a)
		r.obey(a.group, r.queue(a.group).End(a.in))
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(a *ask) bool { return a.over || a.in != nil })
	for _, a := range r.waiting {
		if r.c.now() < a.Deadline {
			break // in order of arrival
		}
		r.obey(a.group, r.queue(a.group).Expire(&a.Request, r.c.now()))
	}
}

// busy counts the leases on the instance.
func (r *rooms) busy(instance string) int {
	n := 0
	for _, a := range r.leased {
		if !a.over && a.in.ID == instance {
			n++
		}
	}
	return n
}
