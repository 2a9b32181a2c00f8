package evaluate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

// Published is what became of a service's view.
type Published struct {
	View *view.Service
	// Changed says that it is a new version.
	Changed bool
	// Nature is what the new version does.
	Nature view.Nature
	// Rest says that a part of the change was left for later: call again with
	// all within a second.
	Rest bool
	view.Assembly
}

// Publish brings a service's view up to date: all of it, or only what takes
// traffic away from trouble. All of it goes too once something has ended that
// was to leave by plan, and waited: what came before its end must not follow it.
func (e *Evaluator) Publish(name string, all bool) Published {
	s := e.services[name]
	if s == nil {
		return Published{}
	}
	out := Published{Assembly: s.assemble()}
	target := &out.Assembly.View
	way := out.Assembly.From(s.published)
	way.Seal()
	switch {
	case s.published != nil && s.published.Sum == target.Sum && s.told(s.published):
		s.waiting = nil
		if out.View = s.published; out.View.Shed { // what waited is no more
			s.tell(target)
			e.issue(s, target)
			out.View, out.Changed, out.Nature = target, true, view.Adds
		}
		return out
	case s.published == nil && len(target.Endpoints) == 0 && !target.Deleted && (!target.Empty || !s.routed) && !s.leaving():
		return out // nothing is known yet, which is no view
	}
	if s.published != nil {
		left := way.Left()
		if !all && !s.overtaken(left) {
			trouble := way.Trouble(s.planned)
			urgent := trouble.View()
			urgent.Seal(s.published)
			if out.Rest = urgent.Sum != target.Sum && (urgent.InRotation() > 0 || target.InRotation() == 0) ||
				urgent.Sum == target.Sum && !s.told(s.published); out.Rest {
				s.wait(left)
			}
			switch {
			case urgent.Sum != target.Sum && !out.Rest: // nobody is left to call: who comes is waited for
			case !trouble.Any():
				out.View = s.published
				return out
			default:
				target, way = urgent, view.Between(s.published, urgent)
			}
			target.Shed = out.Rest && e.Sheds
		}
	}
	if !out.Rest {
		s.waiting = nil
	}
	s.tell(target)
	if out.Rest { // the endpoints that the new shares are of may be among what waits
		target.Shares = s.published.Shares
	}
	out.Nature = way.Nature(s.planned)
	e.issue(s, target)
	out.View, out.Changed = target, true
	return out
}

// tell puts into a view what its service's policy and its route say to callers.
func (s *service) tell(v *view.Service) {
	v.Callers, v.AnyZone, v.Tags, v.Shares = s.callers, s.anyZone, s.tags, s.shares
}

// told says whether a view says that.
func (s *service) told(v *view.Service) bool {
	return v.AnyZone == s.anyZone && slices.Equal(v.Callers, s.callers) && view.EqualTags(v.Tags, s.tags) && view.EqualShares(v.Shares, s.shares)
}

// issue gives a view the next number.
func (e *Evaluator) issue(s *service, v *view.Service) {
	v.Version, v.Epoch = e.Version, e.Epoch
	e.counter++
	v.Version.Counter = e.counter
	s.published = v
}

// Lead numbers views under another epoch from now on. It returns what was
// published before, numbered anew, by service.
func (e *Evaluator) Lead(epoch view.Epoch) (again []*view.Service) {
	if epoch == e.Epoch {
		return nil
	}
	e.Epoch, e.Version.Epoch = epoch, epoch.Number
	for _, name := range slices.Sorted(maps.Keys(e.services)) {
		s := e.services[name]
		if s.published == nil {
			continue
		}
		v := *s.published
		e.issue(s, &v)
		again = append(again, &v)
	}
	return again
}

// leaving reports whether all that there is leaves by plan: that is known, and who
// follows from an earlier time must be able to acknowledge it.
func (s *service) leaving() bool {
	return s.routed && slices.ContainsFunc(s.instances, func(x *instance) bool { return x.row.Terminating && !x.row.Gone }) &&
		!slices.ContainsFunc(s.instances, func(x *instance) bool { return !x.row.Terminating && !x.row.Gone })
}

// planned reports whether an instance leaves by plan. The members are those of
// the view in the making.
func (s *service) planned(id string) bool {
	i, found := slices.BinarySearchFunc(s.instances, id, func(x *instance, id string) int { return cmp.Compare(x.row.ID, id) })
	if !found {
		return false // its authority saw it end
	}
	row := &s.instances[i].row
	return row.Terminating || !s.routes(row.Revision)
}

// wait notes what leaves by plan and is in the published view still.
func (s *service) wait(left []view.Endpoint) {
	for _, e := range left {
		if e.In() && s.planned(e.ID) && !s.ended(e.ID) {
			if s.waiting == nil {
				s.waiting = map[string]bool{}
			}
			s.waiting[e.ID] = true
		}
	}
}

// overtaken reports whether something ended that was to leave by plan, and is
// in the published view still.
func (s *service) overtaken(left []view.Endpoint) bool {
	return slices.ContainsFunc(left, func(e view.Endpoint) bool {
		return e.In() && s.ended(e.ID) && (s.waiting[e.ID] || s.planned(e.ID))
	})
}

func (s *service) ended(id string) bool {
	i, found := slices.BinarySearchFunc(s.instances, id, func(x *instance, id string) int { return cmp.Compare(x.row.ID, id) })
	return !found || s.instances[i].row.Gone
}

func (s *service) routes(revision string) bool {
	return slices.ContainsFunc(s.route.Splits, func(p view.Split) bool { return slices.Contains(p.Allowed, revision) })
}

// service is a service's instances, and what is made of them. Members stand
// beside the instances, so that a view is made without a look at each of these.
type service struct {
	name      string
	terms     *eligibility.Terms
	assembler view.Assembler
	route     view.Route
	routed    bool     // the route was set: it is the plane's word
	callers   []string // that its policy allows; none is everyone
	anyZone   bool     // its policy has callers pick from any zone
	tags      []view.Tag
	shares    []view.Share
	instances []*instance   // by identity, once gathered
	members   []view.Member // likewise
	moved     bool          // instances came or left, or all are read otherwise
	rerouted  bool          // the route is another
	stale     []*instance   // whose members must be made again
	published *view.Service
	waiting   map[string]bool // :: instance → it leaves by plan, and its removal waits
}

// mark has an instance's member made again.
func (s *service) mark(x *instance) {
	if !x.stale && !s.moved {
		x.stale, s.stale = true, append(s.stale, x)
	}
}

// assemble makes the view of the service as it stands: by what changed, where
// that is enough.
func (s *service) assemble() view.Assembly {
	whole := s.moved || s.rerouted
	changed := s.gather()
	if !whole {
		if a, ok := s.assembler.Amend(s.members, changed); ok {
			return a
		}
	}
	s.rerouted = false
	return s.assembler.Assemble(s.route, s.members)
}

// gather brings the members up to date, by identity, and says which are otherwise.
func (s *service) gather() (changed []int32) {
	if s.moved {
		slices.SortFunc(s.instances, func(a, b *instance) int { return cmp.Compare(a.row.ID, b.row.ID) })
		s.members = slices.Grow(s.members[:0], len(s.instances))[:len(s.instances)]
		for i, x := range s.instances {
			x.at = int32(i)
			s.members[i] = s.member(x)
		}
	}
	for _, x := range s.stale {
		if x.stale = false; !s.moved {
			s.members[x.at] = s.member(x)
			changed = append(changed, x.at)
		}
	}
	s.moved, s.stale = false, s.stale[:0]
	return changed
}

func (s *service) member(x *instance) view.Member {
	return view.Member{
		Endpoint: view.Endpoint{
			ID: x.row.ID, Revision: x.row.Revision, Address: x.row.Address, Zone: x.row.Zone,
			Weight: int(x.state.Weight), Verdict: verdicts[x.state.Verdict],
			HealthUnknown: !s.terms.Profile.Probe && !s.terms.Profile.Self,
		},
		Ramp: int(x.state.Ramped(s.terms)), Settled: x.state.Settled(s.terms),
		EverReady: x.row.EverReady, Terminating: x.row.Terminating, Removed: x.row.Gone,
	}
}

var verdicts = [...]view.Verdict{
	eligibility.Unknown: view.Unknown, eligibility.Eligible: view.Eligible,
	eligibility.Degraded: view.Degraded, eligibility.Ineligible: view.Ineligible,
}

// Standing is one instance as a person asks for it.
type Standing struct {
	registry.Instance
	Verdict view.Verdict
	Rule    eligibility.Rule
	Since   int64               // tick
	Weight  int                 // thousandths, before the ramp
	Ramp    int                 // thousandths
	Account eligibility.Account // why
	Flaps   int                 // changes by evidence in the last ten minutes
	Until   int64               // tick at which a quarantine ends; 0 is none
}

// Standings are a service's instances, by identity.
func (e *Evaluator) Standings(name string) []Standing {
	s := e.services[name]
	if s == nil {
		return nil
	}
	out := make([]Standing, 0, len(s.instances))
	for _, x := range s.instances {
		out = append(out, e.standing(s, x))
	}
	slices.SortFunc(out, func(a, b Standing) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Standing is how one instance stands. False: there is none of that handle.
func (e *Evaluator) Standing(handle uint32) (Standing, bool) {
	x := e.instances.get(handle)
	if x == nil {
		return Standing{}, false
	}
	return e.standing(x.of, x), true
}

func (e *Evaluator) standing(s *service, x *instance) Standing {
	st := Standing{
		Instance: x.row, Verdict: verdicts[x.state.Verdict], Rule: x.state.Rule, Since: x.state.Since,
		Weight: int(x.state.Weight), Ramp: int(x.state.Ramped(s.terms)), Account: x.state.Explain(s.terms, e.now), Flaps: x.state.FlapsWithin(e.now),
	}
	if x.state.Quarantine.Until > e.now {
		st.Until = x.state.Quarantine.Until
	}
	return st
}

// Guarded are the places of a service whose guard has tripped.
func (e *Evaluator) Guarded(name string) []view.Guarded {
	if s := e.services[name]; s != nil {
		return s.assembler.Guarded()
	}
	return nil
}

// Decide takes a person's decision about a trip that waits for one. False:
// there is no such trip.
func (e *Evaluator) Decide(name, group, zone string, d view.Decision) bool {
	s := e.services[name]
	if s == nil || !s.assembler.Decide(group, zone, d) {
		return false
	}
	e.touched[name] = true
	return true
}

// Restore has a service's guard remember a trip of before.
func (e *Evaluator) Restore(name string, g view.Guarded) { e.service(name).assembler.Restore(g) }

// Counts of a service's instances by verdict: :: verdict → instances.
func (e *Evaluator) Counts(name string) map[view.Verdict]int {
	out := map[view.Verdict]int{}
	if s := e.services[name]; s != nil {
		for _, x := range s.instances {
			out[verdicts[x.state.Verdict]]++
		}
	}
	return out
}

// Unseen is how many of a service's instances in rotation nobody sees any more,
// and how many are in rotation.
func (e *Evaluator) Unseen(name string) (unseen, in int) {
	if s := e.services[name]; s != nil {
		for _, x := range s.instances {
			if x.row.Gone || x.row.Terminating || !x.row.EverReady || x.state.Verdict == eligibility.Ineligible {
				continue
			}
			in++
			if x.state.Rule == eligibility.Unseen {
				unseen++
			}
		}
	}
	return unseen, in
}

// Flapping is how often a service's instances came and went by evidence in the
// last ten minutes, and how many are in quarantine.
func (e *Evaluator) Flapping(name string) (changes, quarantined int) {
	if s := e.services[name]; s != nil {
		for _, x := range s.instances {
			changes += x.state.FlapsWithin(e.now)
			if x.state.Quarantine.Until > e.now {
				quarantined++
			}
		}
	}
	return changes, quarantined
}

// View is what is published of a service; nil is nothing yet.
func (e *Evaluator) View(name string) *view.Service {
	if s := e.services[name]; s != nil {
		return s.published
	}
	return nil
}
