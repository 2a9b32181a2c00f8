package view

import "slices"

// GuardMode is what happens where health would leave too little of a set.
type GuardMode string

const (
	// ServeAll disregards health: all that count are served, with equal
	// weights, and the zone is marked. The default.
	ServeAll GuardMode = "serve-all"
	// HoldForPerson keeps what was in rotation when the guard tripped, until a
	// person decides.
	HoldForPerson GuardMode = "hold"
	// Honour follows health also to an empty set.
	Honour GuardMode = "honour"
)

// GuardPolicy is a service's minimum healthy fraction.
type GuardPolicy struct {
	// Fraction of the counted instances of a set in a zone, in thousandths;
	// zero means a half.
	Fraction int       `json:"fraction,omitempty"`
	Mode     GuardMode `json:"mode,omitempty"` // empty means serve-all
}

const (
	defaultFraction = 500
	// margin above the fraction at which a trip ends, in thousandths, so that
	// a set at the edge does not come and go.
	margin      = 100
	pooledBelow = 3 // counted instances
)

// judge decides what a gathering serves. It stands after every verdict, so
// that no fault of scoring or fusion can pass it.
func (a *Assembler) judge(g gathering, out *Assembly, now map[place]memory) (ZoneMark, []Member) {
	mark := ZoneMark{Group: g.group, Zone: g.zone}
	var counted, in []Member
	for _, m := range g.members {
		if !m.counted() {
			continue
		}
		counted = append(counted, m)
		if m.Verdict.In() {
			in = append(in, m)
		}
	}
	mark.Counted, mark.In = len(counted), len(in)
	was := a.last[g.place]
	if !a.trips(len(in), len(counted), was.tripped) {
		if was.tripped {
			out.Untripped = append(out.Untripped, mark)
		}
		now[g.place] = a.remember(in)
		return mark, in
	}
	mark.DegradedConfidence = a.Policy.Mode != Honour
	if !was.tripped {
		out.Tripped = append(out.Tripped, mark)
	}
	was.tripped = true
	now[g.place] = was
	switch a.Policy.Mode {
	case Honour:
		return mark, in
	case HoldForPerson:
		return mark, was.keep(counted, in)
	}
	return mark, counted
}

// memory is what a place held: whether its guard had tripped and, where a
// person decides, who was in rotation before it did.
type memory struct {
	tripped bool
	served  map[string]bool // :: instance → was in rotation
}

func (a *Assembler) remember(in []Member) memory {
	if a.Policy.Mode != HoldForPerson {
		return memory{}
	}
	m := memory{served: make(map[string]bool, len(in))}
	for _, x := range in {
		m.served[x.ID] = true
	}
	return m
}

// keep is who was in rotation before the trip and still counts, and who is in
// rotation now.
func (m memory) keep(counted, in []Member) (out []Member) {
	for _, x := range counted {
		if m.served[x.ID] || slices.ContainsFunc(in, func(y Member) bool { return y.ID == x.ID }) {
			out = append(out, x)
		}
	}
	return out
}

// trips reports whether too few are in rotation. A trip ends with a margin.
func (a *Assembler) trips(in, counted int, tripped bool) bool {
	fraction := a.Policy.Fraction
	if fraction == 0 {
		fraction = defaultFraction
	}
	if tripped {
		fraction = min(fraction+margin, 1000)
	}
	return counted > 0 && in*1000 < fraction*counted
}
