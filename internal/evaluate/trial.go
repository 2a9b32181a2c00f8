package evaluate

import (
	"cmp"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

// Past is what is retained of one service, for contracts to be tried on.
type Past struct {
	Service string
	Ticks   []evidence.Tick // in order; the service's rows alone
	Members []PastMember
	InForce eligibility.Contract // at To
	Earlier []Earlier            // in force before it, in order
	Guard   view.GuardPolicy
	// From is the tick from which a trial's contract is in force; before it
	// the one in force is. To is the last tick.
	From, To int64
}

// Earlier is a contract that was in force before a tick.
type Earlier struct {
	Until    int64
	Contract eligibility.Contract
}

// inForce is the contract that was in force at a tick.
func (p *Past) inForce(n int64) eligibility.Contract {
	for _, e := range p.Earlier {
		if n < e.Until {
			return e.Contract
		}
	}
	return p.InForce
}

// PastMember is one instance as it was.
type PastMember struct {
	Row  registry.Instance
	Born int64 // the tick at which it was entered
	// State that it had at or before From, as it was recorded; nil: it is
	// folded from its birth.
	State *eligibility.State
	Facts []Fact // in order
}

// Fact is what the registry said of the instance from a tick on.
type Fact struct {
	Tick int64
	Row  registry.Instance
	Held bool // out by a person's hand
}

// Trial is what became of a service under one contract from Past.From on.
type Trial struct {
	Transitions []Transition
	Trips       []Trip
}

// Trip is the fraction guard's: it disregarded health from a tick on.
type Trip struct {
	Tick int64
	view.ZoneMark
}

// Try folds the past as this evaluator would have folded it, by the contract.
func Try(p Past, c eligibility.Contract) Trial { return try(trial{Past: p, contract: &c}) }

// Replay folds the past by what was in force at each tick.
func Replay(p Past) Trial { return try(trial{Past: p}) }

func try(run trial) Trial {
	p := run.Past
	run.begin()
	for n := run.start; n <= p.To; n++ {
		run.second(n)
	}
	return run.out
}

type trial struct {
	Past
	contract *eligibility.Contract // from From on; nil is what was in force
	eval     *Evaluator
	start    int64
	ticks    map[int64]evidence.Tick // :: number → tick
	births   map[int64][]PastMember  // :: tick → who is entered at it
	facts    map[int64][]Fact        // :: tick → what is known from it on
	place    []int                   // :: dependency of the contract → its place in the evidence, or -1
	out      Trial
}

func (t *trial) begin() {
	t.ticks, t.births, t.facts = map[int64]evidence.Tick{}, map[int64][]PastMember{}, map[int64][]Fact{}
	t.start = t.From
	for _, x := range t.Ticks {
		t.ticks[x.Number], t.start = x, min(t.start, x.Number)
	}
	for _, m := range t.Members {
		at := max(m.Born, t.start)
		if m.State != nil {
			at = t.start
		}
		t.births[at] = append(t.births[at], m)
		for _, f := range m.Facts {
			t.facts[f.Tick] = append(t.facts[f.Tick], f)
		}
	}
	t.eval = New(view.Version{Epoch: 1}, view.Epoch{Number: 1}, t.start-1)
	t.enforce(t.start)
	t.eval.SetRoute(t.route())
}

// enforce puts in force what is so from a tick on.
func (t *trial) enforce(n int64) {
	was := t.inForce(n)
	if t.contract == nil || n < t.From {
		t.eval.SetService(t.Service, was, t.Guard)
		return
	}
	t.place = t.place[:0] // evidence has them in the order of the contract that was in force
	for _, d := range t.contract.Dependencies {
		t.place = append(t.place, slices.IndexFunc(was.Dependencies, func(x eligibility.Dependency) bool { return x.Name == d.Name }))
	}
	if n == t.From {
		t.eval.SetService(t.Service, *t.contract, t.Guard)
	}
}

// route has a group for each revision that there was: who is gone or leaves is
// not counted, so that revisions which got no traffic any more trip nothing.
func (t *trial) route() view.Route {
	r := view.Route{Service: t.Service}
	seen := map[string]bool{} // :: revision → has a group
	for _, m := range t.Members {
		if name := m.Row.Revision; !seen[name] {
			seen[name] = true
			r.Splits = append(r.Splits, view.Split{Revision: name, Group: name, Allowed: []string{name}})
		}
	}
	slices.SortFunc(r.Splits, func(a, b view.Split) int { return cmp.Compare(a.Revision, b.Revision) })
	return r
}

func (t *trial) second(n int64) {
	for _, m := range t.births[n] {
		t.eval.Enter(m.Row, copied(m.State))
	}
	if n == t.From && t.contract != nil || slices.ContainsFunc(t.Earlier, func(e Earlier) bool { return e.Until == n }) {
		t.enforce(n)
	}
	for _, f := range t.facts[n] {
		t.eval.Enter(f.Row, nil)
		t.eval.HoldOut(f.Row.Handle, f.Held)
	}
	tick := t.ticks[n]
	tick.Number = n
	if n >= t.From && t.contract != nil {
		tick = t.renamed(tick)
	}
	changes := t.eval.Fold(tick)
	trips := t.trips(n)
	if n >= t.From {
		t.out.Transitions = append(t.out.Transitions, changes...)
		t.out.Trips = append(t.out.Trips, trips...)
	}
}

func (t *trial) trips(n int64) (out []Trip) {
	for _, name := range t.eval.Touched() {
		for _, m := range t.eval.Publish(name, true).Tripped {
			out = append(out, Trip{n, m})
		}
	}
	return out
}

// renamed is the tick with what is said of dependencies in the order of the
// contract that is tried: in evidence they have the order of the one in force.
func (t *trial) renamed(tick evidence.Tick) evidence.Tick {
	rows := slices.Clone(tick.Rows)
	for i, r := range rows {
		if r.Self == nil || len(r.Self.Dependencies) == 0 {
			continue
		}
		self := *r.Self
		self.Dependencies = make([]eligibility.Permille, len(t.place))
		for k, at := range t.place {
			if at >= 0 && at < len(r.Self.Dependencies) {
				self.Dependencies[k] = r.Self.Dependencies[at]
			}
		}
		rows[i].Self = &self
	}
	tick.Rows = rows
	return tick
}

func copied(s *eligibility.State) *eligibility.State {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}

// Entered is an instance and since when the evaluator has it.
type Entered struct {
	registry.Instance
	Born int64
}

// Entered are a service's instances, by handle.
func (e *Evaluator) Entered(name string) (out []Entered) {
	if s := e.services[name]; s != nil {
		for _, x := range s.instances {
			out = append(out, Entered{x.row, x.state.Born})
		}
	}
	slices.SortFunc(out, func(a, b Entered) int { return cmp.Compare(a.Handle, b.Handle) })
	return out
}
