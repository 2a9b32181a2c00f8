package view

import (
	"cmp"
	"maps"
	"slices"
)

// Member is an instance as the plane knows it: the registry's row, and what
// eligibility makes of it.
type Member struct {
	Endpoint // Weight is by evidence alone: the ramp comes here
	// Ramp is the share of the weight that its slow start leaves it, in
	// thousandths; Settled says that it is past it.
	Ramp    int
	Settled bool
	// EverReady, Terminating and Removed (by its authority) are facts of the
	// registry. Only who was once ready and is meant to stay is counted.
	EverReady, Terminating, Removed bool
}

func (m Member) counted() bool { return m.EverReady && !m.Terminating && !m.Removed }

// Assembly is a view in the making, and what it is made from.
type Assembly struct {
	View Service
	// Alarms in words, for the plane and not for callers.
	Tripped, Untripped []ZoneMark
	// Lost says that no counted instance of the service is in rotation by its
	// verdict, and none left by plan: the gravest alarm.
	Lost bool
}

// Assembler makes the views of one service, one after the other. It remembers
// the guard's state and nothing else.
type Assembler struct {
	Policy GuardPolicy
	last   map[place]memory // :: set and zone → what it was like
}

// place is a set in a zone; small zones share the one without a name.
type place struct{ group, zone string }

// Assemble makes the view of what a route names out of the service's members.
// Version and epoch are the publisher's to set.
func (a *Assembler) Assemble(r Route, members []Member) Assembly {
	out := Assembly{View: Service{Name: r.Service, Deleted: r.Deleted}}
	inView := map[string]Endpoint{} // :: instance → as it is served
	now := map[place]memory{}
	counted, in := 0, 0
	for _, set := range sets(r) {
		mine := of(members, set.allowed)
		settled := slices.ContainsFunc(mine, func(m Member) bool { return m.counted() && m.Verdict.In() && m.Settled })
		for _, g := range zones(set.group, mine) {
			mark, serve := a.judge(g, &out, now)
			for _, m := range g.members {
				if _, served := inView[m.ID]; !served && m.withdrawn() {
					inView[m.ID] = m.out()
				}
			}
			for _, m := range serve {
				inView[m.ID] = m.served(settled, mark.DegradedConfidence)
			}
			counted, in = counted+mark.Counted, in+mark.In
			out.View.Marks = append(out.View.Marks, mark)
		}
	}
	a.last = now
	out.Lost = counted > 0 && in == 0
	out.View.Empty = len(r.Splits) == 0 && !r.Deleted
	out.View.Endpoints = slices.SortedFunc(maps.Values(inView), func(x, y Endpoint) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(out.View.Marks, func(x, y ZoneMark) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Zone, y.Zone))
	})
	return out
}

// served is the member with the weight that callers see.
func (m Member) served(settled, disregarded bool) Endpoint {
	e := m.Endpoint
	if e.Weight == 0 { // nobody judged it yet, which says nothing about it
		e.Weight = FullWeight
	}
	switch {
	case disregarded:
		e.Weight = FullWeight
	case settled:
		e.Weight = max(e.Weight*m.Ramp/1000, 1)
	}
	return e
}

// withdrawn says that the verdict alone keeps the member out: it is there, and
// meant to stay.
func (m Member) withdrawn() bool { return !m.Verdict.In() && !m.Terminating && !m.Removed }

func (m Member) out() Endpoint {
	e := m.Endpoint
	e.Weight = 0
	return e
}

// set is a routable set: a request group and who may answer from it.
type set struct {
	group   string
	allowed []string
}

func sets(r Route) (all []set) {
	for _, s := range r.Splits {
		i := slices.IndexFunc(all, func(x set) bool { return x.group == s.Group })
		if i < 0 {
			all = append(all, set{s.Group, s.Allowed})
			continue
		}
		all[i].allowed = slices.Concat(all[i].allowed, s.Allowed)
	}
	return all
}

func of(members []Member, revisions []string) (mine []Member) {
	for _, m := range members {
		if slices.Contains(revisions, m.Revision) {
			mine = append(mine, m)
		}
	}
	return mine
}

// gathering is the members of a set in one zone, or in several small ones.
type gathering struct {
	place
	members []Member
}

// zones gathers a set's members by zone; zones with few counted instances are
// pooled, since a share of one or two says nothing.
func zones(group string, members []Member) (all []gathering) {
	by, counted := map[string][]Member{}, map[string]int{} // :: zone → members, how many count
	for _, m := range members {
		by[m.Zone] = append(by[m.Zone], m)
		if m.counted() {
			counted[m.Zone]++
		}
	}
	pool := gathering{place: place{group: group}}
	for _, zone := range slices.Sorted(maps.Keys(by)) {
		if counted[zone] < pooledBelow {
			pool.members = append(pool.members, by[zone]...)
			continue
		}
		all = append(all, gathering{place{group, zone}, by[zone]})
	}
	if len(pool.members) > 0 {
		all = append(all, pool)
	}
	return all
}
