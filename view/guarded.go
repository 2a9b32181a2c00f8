package view

import (
	"cmp"
	"maps"
	"slices"
)

// Decision is a person's, about a trip of a guard that waits for one.
type Decision string

const (
	Undecided Decision = ""
	// Accepted follows health: what it keeps out is withdrawn.
	Accepted Decision = "accepted"
	// Declined does not: what was in rotation stays.
	Declined Decision = "declined"
)

// Guarded is one set in one zone, or in several small ones, whose guard has
// tripped.
type Guarded struct {
	ZoneMark
	// Served is how many endpoints callers may use all the same.
	Served   int
	Decision Decision
	// Kept are the instances that were in rotation before, sorted, where a
	// person decides.
	Kept []string
	// Covers are whom an acceptance is about, sorted, where it was taken about
	// another place; none is all.
	Covers []string
}

// Guarded are the places whose guard has tripped, by group and zone.
func (a *Assembler) Guarded() (all []Guarded) {
	for _, m := range a.last {
		if !m.tripped {
			continue
		}
		g := Guarded{ZoneMark: m.mark, Served: m.in}
		if a.Policy.Mode == HoldForPerson {
			g.Decision, g.Kept = m.decision, slices.Sorted(maps.Keys(m.served))
			g.Covers = slices.Sorted(maps.Keys(m.covers))
		}
		all = append(all, g)
	}
	slices.SortFunc(all, func(x, y Guarded) int { return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Zone, y.Zone)) })
	return all
}

// retell has a trip told by the numbers of now.
func (a *Assembler) retell(mark ZoneMark) {
	at := place{mark.Group, mark.Zone}
	m := a.last[at]
	if m.mark = mark; !mark.DegradedConfidence { // health is followed
		m.in = mark.In
	}
	a.last[at] = m
}

// Decide takes a person's decision about a trip that waits for one. It holds
// until the trip is over, and is asked for again at the next; it goes with a zone
// that enters or leaves the pool of small ones. False: there is
// no such trip.
func (a *Assembler) Decide(group, zone string, d Decision) bool {
	at := place{group, zone}
	m := a.last[at]
	if !m.tripped || a.Policy.Mode != HoldForPerson {
		return false
	}
	m.decision, m.covers = d, nil
	a.last[at] = m
	return true
}

// Restore has the assembler remember a trip that another one told by Guarded.
func (a *Assembler) Restore(g Guarded) {
	m := memory{tripped: true, served: make(map[string]bool, len(g.Kept)), decision: g.Decision, mark: g.ZoneMark, in: g.Served}
	for _, id := range g.Kept {
		m.served[id] = true
	}
	for _, id := range g.Covers {
		if m.covers == nil {
			m.covers = map[string]bool{}
		}
		m.covers[id] = true
	}
	if a.last == nil {
		a.last = map[place]memory{}
	}
	a.last[place{g.Group, g.Zone}] = m
}
