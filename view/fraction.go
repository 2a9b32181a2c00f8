package view

import "slices"

// GuardMode is what happens where health would leave too little of a set.
type GuardMode string

const (
	// ServeAll disregards health: all that count are served, with equal
	// weights, and the zone is marked. The default.
	ServeAll GuardMode = "serve-all"
	// HoldForPerson keeps what was in rotation when the guard tripped, until a
	// person decides: see [Assembler.Decide].
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
func (a *Assembler) judge(g *gathering, members []Member, out *Assembly, now map[place]memory) ZoneMark {
	mark := ZoneMark{Group: g.group, Zone: g.zone}
	counted, in := make([]int32, 0, len(g.members)), make([]int32, 0, len(g.members))
	for _, i := range g.members {
		m := &members[i]
		if !m.counted() {
			continue
		}
		counted = append(counted, i)
		if m.Verdict.In() {
			in = append(in, i)
		}
	}
	mark.Counted, mark.In = len(counted), len(in)
	g.served = in
	was := a.before(g, members)
	if !a.trips(len(in), len(counted), was.tripped) {
		if was.tripped {
			out.Untripped = append(out.Untripped, mark)
		}
		now[g.place] = a.remember(g, members, in)
		return mark
	}
	held := a.Policy.Mode == HoldForPerson
	honoured := a.Policy.Mode == Honour || held && was.decision == Accepted
	mark.DegradedConfidence = !honoured
	if !was.tripped {
		out.Tripped = append(out.Tripped, mark)
	}
	was.tripped = true
	switch {
	case honoured:
	case held:
		if was.served == nil { // it is not known who was: nobody is withdrawn for that
			was.served = idsOf(members, counted)
		}
		g.served = slices.DeleteFunc(counted, func(i int32) bool { return !was.served[members[i].ID] && !members[i].Verdict.In() })
	default:
		g.served = counted
	}
	was.mark, was.in, was.pooled = mark, len(g.served), a.pool(g, members)
	now[g.place] = was
	return mark
}

// memory is what a place held: whether its guard had tripped and, where a
// person decides, who was in rotation before it did.
type memory struct {
	tripped  bool
	served   map[string]bool // :: instance → was in rotation; nil is not known
	decision Decision
	covers   map[string]bool // :: instance → it was accepted that health keeps it out; nil is of all
	pooled   map[string]bool // zones that were gathered here, of the pool; nil is not known
	mark     ZoneMark
	in       int // endpoints that are served
}

func idsOf(members []Member, some []int32) map[string]bool {
	out := make(map[string]bool, len(some))
	for _, i := range some {
		out[members[i].ID] = true
	}
	return out
}

func (a *Assembler) remember(g *gathering, members []Member, in []int32) memory {
	if a.Policy.Mode != HoldForPerson {
		return memory{}
	}
	return memory{served: idsOf(members, in), pooled: a.pool(g, members)}
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
