// Package evaluate drives eligibility and views: it folds sealed ticks into
// every instance that they speak of or that is due, keeps what is published of
// each service, and says what changed. Read [Evaluator] first.
//
// It is incremental: a tick costs by what it holds, not by the size of the
// estate. It has no clock and no I/O: whoever drives it hands it the ticks,
// commits the transitions that it returns, and then publishes the views.
package evaluate

import (
	"maps"
	"slices"
	"unique"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

// Evaluator holds what is computed of every instance and service. Nothing of
// it is stored; it is rebuilt from the registry, the recorded transitions and
// the ticks after them.
type Evaluator struct {
	Version view.Version // region, incarnation and epoch of the views; the counter is theirs
	Epoch   view.Epoch
	// Prober names probers in accounts, by their handles; nil says the number.
	Prober func(handle uint32) string
	// Sheds says that the rest waits longer than it should: views from which
	// something is held back say so.
	Sheds bool

	instances byHandle            // what is computed of each instance
	services  map[string]*service // :: service name → its terms and its view
	due       map[int64][]uint32  // :: tick → handles of those that may have to be judged then
	now       int64
	counter   uint64          // of the last view that was published, of any service: none is used again
	touched   map[string]bool // :: service name → its view may have changed
	moves     int             // transitions of the last tick
}

type instance struct {
	of     *service
	row    registry.Instance
	held   bool  // out by a person's hand
	stale  bool  // its member must be made again
	at     int32 // of the service's members
	state  eligibility.State
	due    int64 // the tick at which it must be judged; 0 is not known
	listed int64 // the tick in whose list it is; one that is past is none
}

// New makes an evaluator that has folded everything up to the tick now.
func New(v view.Version, e view.Epoch, now int64) *Evaluator {
	return &Evaluator{
		Version: v, Epoch: e, now: now,
		services: map[string]*service{}, due: map[int64][]uint32{}, touched: map[string]bool{},
	}
}

// Now is the last tick that was folded.
func (e *Evaluator) Now() int64 { return e.now }

// Transition is a change of one instance's verdict, or of the rule behind it.
type Transition struct {
	Service, Instance string
	Handle            uint32
	Tick              int64
	eligibility.Change
	// State is what was remembered at the moment: a rebuild starts from it.
	State eligibility.State
	// Ready says that the instance was in rotation for the first time.
	Ready bool
	terms *eligibility.Terms
}

// Account says why, in words. They are made when they are asked for: a change
// of a whole region must not wait for its prose.
func (t *Transition) Account() eligibility.Account { return t.State.Explain(t.terms, t.Tick) }

// SetService sets by which contract and guard a service's instances are read.
// Everything of it is judged again at the next tick.
func (e *Evaluator) SetService(name string, c eligibility.Contract, g view.GuardPolicy) {
	s := e.service(name)
	s.terms, s.assembler.Policy = eligibility.Prepare(c), g
	s.terms.Name = e.Prober
	for _, x := range s.instances {
		e.schedule(x.row.Handle, x, e.now+1)
	}
	s.moved = true
	e.touched[name] = true
}

// SetRoute sets which revisions a service's view holds. Before it was called
// nothing is published of the service: that it is routed nowhere yet says not
// that it has no instances by intent.
func (e *Evaluator) SetRoute(r view.Route) {
	s := e.service(r.Service)
	s.route, s.routed, s.rerouted, s.tags, s.shares = r, true, true, r.Tags(), r.Shares()
	e.touched[r.Service] = true
}

// SetCallers says whom a service's policy allows to hold its view; none is
// everyone. The next view tells it.
func (e *Evaluator) SetCallers(name string, allowed []string) {
	s := e.service(name)
	if !slices.Equal(s.callers, allowed) {
		s.callers = slices.Clone(allowed)
		e.touched[name] = true
	}
}

// SetZones says whether a service's callers pick from any zone alike, or prefer
// their own. The next view tells it.
func (e *Evaluator) SetZones(name string, any bool) {
	if s := e.service(name); s.anyZone != any {
		s.anyZone = any
		e.touched[name] = true
	}
}

// Callers that a service's policy allows; none is everyone.
func (e *Evaluator) Callers(name string) []string {
	if s := e.services[name]; s != nil {
		return s.callers
	}
	return nil
}

// Forget drops a service that is gone, with its view.
func (e *Evaluator) Forget(name string) {
	if s := e.services[name]; s != nil {
		for _, x := range s.instances {
			e.instances.set(x.row.Handle, nil)
		}
	}
	delete(e.services, name)
	delete(e.touched, name)
}

func (e *Evaluator) service(name string) *service {
	s := e.services[name]
	if s == nil {
		s = &service{name: name, terms: eligibility.Prepare(eligibility.Default())}
		s.route.Service = name
		e.services[name] = s
	}
	return s
}

// Enter sets an instance's row. One that is new starts from the state of its
// last recorded transition, where there is one.
func (e *Evaluator) Enter(row registry.Instance, recorded *eligibility.State) {
	x := e.instances.get(row.Handle)
	s := e.service(row.Service)
	if x == nil {
		x = &instance{of: s, state: eligibility.State{Born: e.now + 1, Ready: row.EverReady}}
		if recorded != nil {
			x.state = *recorded
		}
		e.instances.set(row.Handle, x)
		s.instances, s.moved = append(s.instances, x), true
	}
	row.EverReady = row.EverReady || x.state.Ready
	// Thousands of rows share these few strings.
	row.Service, row.Revision, row.Host, row.Zone = s.name, unique.Make(row.Revision).Value(), unique.Make(row.Host).Value(), unique.Make(row.Zone).Value()
	s.moved = s.moved || row.Revision != x.row.Revision || row.Zone != x.row.Zone
	x.row = row
	s.mark(x)
	e.schedule(row.Handle, x, e.now+1)
	e.touched[row.Service] = true
}

// End judges an instance whose authority saw its process end, between two
// ticks: that is a fact and no evidence, so nothing of a tick is anticipated.
// False: its verdict changed with the last tick, and the next will judge it.
func (e *Evaluator) End(row registry.Instance) (t Transition, judged bool) {
	x := e.instances.get(row.Handle)
	if x == nil || !row.Gone || x.state.Since >= e.now {
		return Transition{}, false
	}
	e.Enter(row, nil)
	s := x.of
	ch, _, due := x.state.Judge(s.terms, x.facts(), e.now)
	e.schedule(row.Handle, x, due)
	return Transition{
		Service: s.name, Instance: x.row.ID, Handle: row.Handle, Tick: e.now, Change: ch, State: x.state, terms: s.terms,
	}, true
}

// Early folds what the next tick holds about one instance before that tick is
// whole, if that puts the instance out by hard evidence; otherwise nothing is
// changed. The tick must hold the same row in the end: it is passed over then.
func (e *Evaluator) Early(r evidence.TickRow) (t Transition, left bool) {
	x := e.instances.get(r.Instance)
	if x == nil || x.state.Judged > e.now || x.state.Verdict == eligibility.Ineligible || x.state.Rule == eligibility.Starting {
		return t, false
	}
	s, next := x.of, x.state
	ch, _, due := next.Fold(s.terms, r.Evidence, x.facts(), e.now+1)
	if ch.To != eligibility.Ineligible || !ch.Rule.Hard() && !ch.Quarantined {
		return t, false
	}
	x.state = next
	e.schedule(r.Instance, x, due)
	s.mark(x)
	e.touched[s.name] = true
	return Transition{
		Service: s.name, Instance: x.row.ID, Handle: r.Instance, Tick: e.now + 1, Change: ch, State: x.state, terms: s.terms,
	}, true
}

// Touch has a service among those whose views may have changed.
func (e *Evaluator) Touch(name string) { e.touched[name] = true }

// Leave drops an instance: its process ended, and nobody asks about it.
func (e *Evaluator) Leave(handle uint32) {
	x := e.instances.get(handle)
	if x == nil {
		return
	}
	e.instances.set(handle, nil)
	s := x.of
	s.instances, s.moved = slices.DeleteFunc(s.instances, func(y *instance) bool { return x == y }), true
	e.touched[s.name] = true
}

// Footing says what an instance's verdict rests on: nothing yet, or callers that
// are enough to decide by themselves.
func (e *Evaluator) Footing(handle uint32) (starting, enough bool) {
	x := e.instances.get(handle)
	if x == nil {
		return false, false
	}
	return x.state.Rule == eligibility.Starting, x.state.Enough(x.of.terms, e.now)
}

// HoldOut has a person keep an instance out, or no longer.
func (e *Evaluator) HoldOut(handle uint32, out bool) {
	if x := e.instances.get(handle); x != nil && x.held != out {
		x.held = out
		e.schedule(handle, x, e.now+1)
	}
}

// schedule has an instance judged at a tick. One that is listed for an earlier
// tick stays there, and is moved on when that comes: evidence puts most off again
// and again.
func (e *Evaluator) schedule(handle uint32, x *instance, at int64) {
	if x.due = at; x.listed <= e.now || at < x.listed {
		x.listed = at
		e.due[at] = append(e.due[at], handle)
	}
}

// Fold folds the next tick. Ticks come in order; one that was folded already
// is passed over. What it returns is to be committed before views are
// published.
func (e *Evaluator) Fold(t evidence.Tick) (out []Transition) {
	if t.Number <= e.now {
		return nil
	}
	e.now = t.Number
	if e.moves > 0 { // or they are copied again and again as they become more
		out = make([]Transition, 0, min(e.moves, mostReady))
	}
	defer func() { e.moves = len(out) }()
	for i := range t.Rows {
		h := t.Rows[i].Instance
		if x := e.instances.get(h); x != nil {
			out = e.judge(h, x, t.Rows[i].Evidence, out)
		}
	}
	handles := e.due[t.Number]
	delete(e.due, t.Number)
	slices.Sort(handles)
	for _, h := range handles {
		x := e.instances.get(h)
		switch {
		case x == nil || x.listed != t.Number: // it is gone, or listed elsewhere
		case x.due == t.Number: // and no row had it judged
			out = e.judge(h, x, eligibility.Evidence{}, out)
		case x.due > t.Number:
			e.schedule(h, x, x.due)
		}
	}
	return out
}

// mostReady transitions are made room for, where the last tick had some.
const mostReady = 1000

// far is where what is due is not worth a place in the list: evidence will
// have come before.
const far = 4 * 3600

func (e *Evaluator) judge(h uint32, x *instance, ev eligibility.Evidence, out []Transition) []Transition {
	if x.state.Judged >= e.now { // a rebuild begins before this one's last transition, or it was judged early
		if x.due <= e.now {
			e.schedule(h, x, x.state.Judged+1)
		}
		return out
	}
	s := x.of
	wasReady := x.state.Ready
	ch, changed, due := x.state.Fold(s.terms, ev, x.facts(), e.now)
	if x.due <= e.now {
		x.due = 0
	}
	if due <= e.now+far {
		e.schedule(h, x, max(due, e.now+1))
	}
	if !changed {
		return out
	}
	s.mark(x)
	e.touched[s.name] = true
	if ch.From == ch.To && ch.FromRule == ch.Rule && !ch.Quarantined {
		return out // a weight or a step of the ramp: seen in the view, and no transition
	}
	ready := !wasReady && x.state.Ready
	x.row.EverReady = x.row.EverReady || ready
	return append(out, Transition{
		Service: s.name, Instance: x.row.ID, Handle: h, Tick: e.now, Change: ch,
		State: x.state, Ready: ready, terms: s.terms,
	})
}

func (x *instance) facts() eligibility.Facts {
	return eligibility.Facts{Terminating: x.row.Terminating, Gone: x.row.Gone, LeaseEnded: x.row.Missing > 0 && x.row.Source == registry.Lease, HeldOut: x.held}
}

// Touched are the services whose views may have changed since they were taken
// last, sorted.
func (e *Evaluator) Touched() []string {
	names := slices.Sorted(maps.Keys(e.touched))
	clear(e.touched)
	return names
}
