package view

import (
	"cmp"
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

func (m *Member) counted() bool { return m.EverReady && !m.Terminating && !m.Removed }

// Assembly is a view in the making, and what it is made from.
type Assembly struct {
	View Service
	// Alarms in words, for the plane and not for callers.
	Tripped, Untripped []ZoneMark
	// Lost says that no counted instance of the service is in rotation by its
	// verdict, and none left by plan: the gravest alarm.
	Lost bool

	amended []Endpoint // of the view before; nil where all was assembled
	places  []int32    // of endpoints that may be otherwise than there
}

// Assembler makes the views of one service, one after the other. It remembers
// the guard's state, and how the last view was made.
type Assembler struct {
	Policy GuardPolicy
	last   map[place]memory // :: set and zone → what it was like
	made   *arrangement     // of the last view; nil where that cannot be amended
}

// place is a set in a zone; small zones share the one without a name.
type place struct{ group, zone string }

// Assemble makes the view of what a route names out of the service's members,
// which come by ID. Version, epoch and sum are the publisher's to set.
func (a *Assembler) Assemble(r Route, members []Member) Assembly {
	out := Assembly{View: Service{Name: r.Service, Deleted: r.Deleted}}
	weights := make([]int, len(members)) // :: member → weight in the view, or absent
	for i := range weights {
		weights[i] = absent
	}
	now := map[place]memory{}
	counted, in := 0, 0
	made := begin(len(members))
	for _, set := range sets(r) {
		made.settled = append(made.settled, 0)
		mine := of(members, set.allowed)
		settled := slices.ContainsFunc(mine, func(i int32) bool { m := &members[i]; return m.counted() && m.Verdict.In() && m.Settled })
		for _, g := range zones(set.group, members, mine) {
			mark := a.judge(&g, members, &out, now)
			for _, i := range g.members {
				if weights[i] == absent && members[i].withdrawn() {
					weights[i] = 0
				}
			}
			for _, i := range g.served {
				weights[i] = members[i].weight(settled, mark.DegradedConfidence)
			}
			counted, in = counted+mark.Counted, in+mark.In
			out.View.Marks = append(out.View.Marks, mark)
			made.note(&g, mark, members, now[g.place].tripped)
		}
	}
	a.last = now
	out.Lost = counted > 0 && in == 0
	out.View.Empty = len(r.Splits) == 0 && !r.Deleted
	out.View.Endpoints = made.endpoints(members, weights)
	slices.SortFunc(out.View.Marks, func(x, y ZoneMark) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Zone, y.Zone))
	})
	v := out.View
	a.made = made.keep(&v)
	return out
}

// absent is the weight of what is not in a view at all.
const absent = -1

func (r *arrangement) endpoints(members []Member, weights []int) []Endpoint {
	n := 0
	for _, w := range weights {
		if w != absent {
			n++
		}
	}
	out := make([]Endpoint, 0, n)
	for i, w := range weights {
		if w != absent {
			e := members[i].Endpoint
			e.Weight = w
			r.at[i], out = int32(len(out)), append(out, e)
		}
	}
	return out
}

// weight that callers see; never 0.
func (m *Member) weight(settled, disregarded bool) int {
	w := m.Weight
	if w == 0 { // nobody judged it yet, which says nothing about it
		w = FullWeight
	}
	switch {
	case disregarded:
		return FullWeight
	case settled:
		return max(w*m.Ramp/1000, 1)
	}
	return w
}

// withdrawn says that the verdict alone keeps the member out: it is there, and
// meant to stay.
func (m *Member) withdrawn() bool { return !m.Verdict.In() && !m.Terminating && !m.Removed }

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

// of are the members of a set, by index.
func of(members []Member, revisions []string) []int32 {
	mine := make([]int32, 0, len(members))
	for i := range members {
		if slices.Contains(revisions, members[i].Revision) {
			mine = append(mine, int32(i))
		}
	}
	return mine
}

// gathering is the members of a set in one zone, or in several small ones.
type gathering struct {
	place
	members []int32
	counted int
	served  []int32
}

// zones gathers a set's members by zone; zones with few counted instances are
// pooled, since a share of one or two says nothing.
func zones(group string, members []Member, mine []int32) (all []gathering) {
	for _, i := range mine {
		m := &members[i]
		at := slices.IndexFunc(all, func(g gathering) bool { return g.zone == m.Zone })
		if at < 0 {
			at = len(all)
			all = append(all, gathering{place: place{group, m.Zone}})
		}
		all[at].members = append(all[at].members, i)
		if m.counted() {
			all[at].counted++
		}
	}
	pool := gathering{place: place{group: group}}
	all = slices.DeleteFunc(all, func(g gathering) bool {
		small := g.counted < pooledBelow
		if small {
			pool.members = append(pool.members, g.members...)
		}
		return small
	})
	if len(pool.members) > 0 {
		all = append(all, pool)
	}
	return all
}
