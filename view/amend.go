package view

import "slices"

// arrangement is how the last view was made, so that the next one can be made
// from it by what changed.
type arrangement struct {
	view     *Service
	at       []int32  // :: member → place among the view's endpoints, or absent
	of       []int32  // :: member → its gathering, or absent where no set has it
	facts    []factor // :: member → what of it was counted
	gathered []gathered
	settled  []int // :: set → counted members that are in rotation and settled
	shared   bool  // a member is of two sets
}

// gathered is one mark of the view, by its numbers.
type gathered struct {
	ZoneMark
	set, mark int // of the view's marks
	tripped   bool
}

// factor is what of a member is counted.
type factor uint8

const (
	isCounted factor = 1 << iota
	isIn
	isSettled
)

func (m *Member) factor() (f factor) {
	if !m.counted() {
		return 0
	}
	f = isCounted
	if m.Verdict.In() {
		f |= isIn
		if m.Settled {
			f |= isSettled
		}
	}
	return f
}

// begin is an arrangement of so many members, in which none has a place.
func begin(members int) *arrangement {
	r := &arrangement{at: make([]int32, members), of: make([]int32, members), facts: make([]factor, members)}
	for i := range r.of {
		r.at[i], r.of[i] = absent, absent
	}
	return r
}

// note keeps that a set was gathered so.
func (r *arrangement) note(g *gathering, mark ZoneMark, members []Member, tripped bool) {
	for _, i := range g.members {
		r.shared = r.shared || r.of[i] != absent
		r.of[i], r.facts[i] = int32(len(r.gathered)), members[i].factor()
		if r.facts[i]&isSettled != 0 {
			r.settled[len(r.settled)-1]++
		}
	}
	r.gathered = append(r.gathered, gathered{ZoneMark: mark, set: len(r.settled) - 1, tripped: tripped})
}

// Amend makes the view that Assemble would make of the same members, of which
// only those named by index are otherwise than when the last one was made, and
// of the same route and policy. False: there was none, or more of it changed
// than a few weights; it must be assembled.
func (a *Assembler) Amend(members []Member, changed []int32) (Assembly, bool) {
	r := a.made
	a.made = nil // what is counted below holds only if all of it does
	if r == nil || r.shared || len(r.of) != len(members) || a.Policy.Mode == HoldForPerson || !a.recount(r, members, changed) {
		return Assembly{}, false
	}
	out, counted, in := Assembly{amended: r.view.Endpoints}, 0, 0
	if len(changed) > 0 {
		r.view, out.places = r.next(members, changed)
	}
	a.made, out.View = r, *r.view
	for i := range r.gathered {
		g := &r.gathered[i]
		counted, in = counted+g.Counted, in+g.In
		if g.tripped {
			a.retell(g.ZoneMark)
		}
	}
	out.Lost = counted > 0 && in == 0
	return out, true
}

// next is the view after the one that was made last, and where it may be otherwise.
func (r *arrangement) next(members []Member, changed []int32) (_ *Service, places []int32) {
	v := *r.view
	v.Endpoints, v.Marks = slices.Clone(v.Endpoints), slices.Clone(v.Marks)
	for i := range r.gathered {
		v.Marks[r.gathered[i].mark].In = r.gathered[i].In
	}
	for _, i := range changed {
		if r.at[i] != absent {
			v.Endpoints[r.at[i]] = r.endpoint(&members[i], i)
			places = append(places, r.at[i])
		}
	}
	slices.Sort(places)
	return &v, slices.Compact(places)
}

// keep is what the next view is made from.
func (r *arrangement) keep(v *Service) *arrangement {
	for i := range r.gathered {
		g := &r.gathered[i]
		g.mark = slices.IndexFunc(v.Marks, func(m ZoneMark) bool { return m.Group == g.Group && m.Zone == g.Zone })
	}
	r.view = v
	return r
}

// recount brings the numbers up to date. False: more than weights changed.
func (a *Assembler) recount(r *arrangement, members []Member, changed []int32) bool {
	had := slices.Clone(r.settled)
	for _, i := range changed {
		if r.of[i] == absent {
			continue
		}
		m, was, g := &members[i], r.facts[i], &r.gathered[r.of[i]]
		is := m.factor()
		if was&isCounted != is&isCounted || is&isCounted == 0 && (r.at[i] != absent) != m.withdrawn() {
			return false
		}
		g.In += int(is&isIn)/int(isIn) - int(was&isIn)/int(isIn)
		r.settled[g.set] += int(is&isSettled)/int(isSettled) - int(was&isSettled)/int(isSettled)
		r.facts[i] = is
	}
	for i := range r.gathered {
		if g := &r.gathered[i]; a.trips(g.In, g.Counted, g.tripped) != g.tripped {
			return false
		}
	}
	for i := range had {
		if (had[i] > 0) != (r.settled[i] > 0) {
			return false
		}
	}
	return true
}

// endpoint is how the view shows a member that has a place in it.
func (r *arrangement) endpoint(m *Member, i int32) Endpoint {
	g, e := &r.gathered[r.of[i]], m.Endpoint
	switch {
	case r.facts[i]&isIn != 0, r.facts[i]&isCounted != 0 && g.DegradedConfidence:
		e.Weight = m.weight(r.settled[g.set] > 0, g.DegradedConfidence)
	default:
		e.Weight = 0
	}
	return e
}
