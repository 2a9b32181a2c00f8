package view

// before is what a place held before. Where a person decides, it is put together
// from the places that its zones come from, if these are others: a zone that
// enters or leaves the pool of small ones takes along what was decided about its
// instances, and asks nobody anew while that covers whom health keeps out.
func (a *Assembler) before(g *gathering, members []Member) memory {
	was := a.last[g.place]
	if a.Policy.Mode != HoldForPerson {
		return was
	}
	if a.moved(g, members) {
		return a.carried(g, members)
	}
	return was.asked(g, members)
}

// came is the place at which a zone's members were gathered last, if they were.
func (a *Assembler) came(group, zone string) (m memory, at place, known bool) {
	at = place{group, zone}
	if m, known = a.last[at]; known {
		return m, at, true
	}
	at = place{group: group}
	m, known = a.last[at]
	return m, at, known && m.pooled[zone]
}

// pool are the zones of a gathering of several, where a person decides.
func (a *Assembler) pool(g *gathering, members []Member) map[string]bool {
	if a.Policy.Mode != HoldForPerson || g.zone != "" {
		return nil
	}
	zones := map[string]bool{}
	for _, i := range g.members {
		zones[members[i].Zone] = true
	}
	return zones
}

// moved says that members of a gathering were gathered elsewhere before.
func (a *Assembler) moved(g *gathering, members []Member) bool {
	for _, i := range g.members {
		if _, at, known := a.came(g.group, members[i].Zone); known && at != g.place {
			return true
		}
	}
	return false
}

// carried is the memory of a gathering whose zones come from elsewhere.
func (a *Assembler) carried(g *gathering, members []Member) memory {
	next := memory{served: map[string]bool{}, covers: map[string]bool{}}
	asks, declined, accepted := false, false, false
	for _, i := range g.members {
		m := &members[i]
		if !m.counted() {
			continue
		}
		was, _, known := a.came(g.group, m.Zone)
		if !known {
			was = memory{}
		}
		mine := was.tripped && was.decision == Accepted && (was.covers == nil || was.covers[m.ID])
		served := !known || was.served == nil || was.served[m.ID]
		switch out := !m.Verdict.In(); {
		case out && mine:
			next.covers[m.ID], accepted = true, true
		case out && !served: // health kept it out before
			next.covers[m.ID] = true
		case !out || was.tripped && was.decision == Declined:
			next.served[m.ID] = true
			declined = declined || out
		default:
			next.served[m.ID], asks = true, true
		}
	}
	switch {
	case asks:
	case declined:
		next.decision = Declined
	case accepted:
		next.decision = Accepted
		return next
	}
	next.covers = nil
	return next
}

// asked is the memory with a decision taken back that was taken about others, if
// it does not cover whom health keeps out now: who was served until now stays.
func (m memory) asked(g *gathering, members []Member) memory {
	if m.decision != Accepted || m.covers == nil {
		return m
	}
	served, asks := map[string]bool{}, false
	for _, i := range g.members {
		x := &members[i]
		if covered := m.covers[x.ID]; x.counted() && (x.Verdict.In() || !covered) {
			served[x.ID] = true
			asks = asks || !x.Verdict.In()
		}
	}
	if asks {
		m.decision, m.served, m.covers = Undecided, served, nil
	}
	return m
}
