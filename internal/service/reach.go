package service

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/view"
)

// BehindAfter is the silence after which a gateway is behind.
const BehindAfter = 5 * time.Second

// Behind says that nothing was heard of the gateway for so long that nobody
// waits for it. It may still route by what it held.
func (g KnownGateway) Behind() bool { return g.Silent >= BehindAfter }

// holds are the tables that it may route by, as last told: by itself since the
// leader started, else by the record.
func (g KnownGateway) holds() (serves, keeps view.Version) {
	if g.State != nil {
		return g.State.Serves, g.State.Keeps
	}
	return g.Serves, g.Keeps
}

// floor is the counter of the oldest table that the gateway may route by.
// Zero means any. Unknown says that it holds a table that this store never
// published: of another incarnation, or from a later time than the store's.
func (g KnownGateway) floor(incarnation string, sequence uint64) (counter uint64, unknown bool) {
	serves, keeps := g.holds()
	counter = math.MaxUint64
	for _, v := range []view.Version{serves, keeps} {
		switch {
		case v.Zero():
			// What it was sent may yet be served, or be on its way to its disk.
			counter = 0
		case v.Incarnation != incarnation || v.Counter > sequence:
			return 0, true
		default:
			counter = min(counter, v.Counter)
		}
	}
	return counter, false
}

// Orphans says that the gateway still serves a service by a route that the
// store it follows now does not have.
func (g KnownGateway) Orphans(service string) bool {
	return g.State != nil && strings.HasPrefix(g.State.Refused[service], view.ReasonOrphaned)
}

// drifted says that what it serves is not what its table's number says.
func (g KnownGateway) drifted() bool { return g.State != nil && g.State.Drifted }

// HoldsUnknown says that the gateway holds a table that the store never published.
func (g KnownGateway) HoldsUnknown(w *World) bool {
	_, unknown := g.floor(w.Incarnation, w.Sequence)
	return unknown
}

// floorOf is the floor for one service. Where the gateway refuses the entry it
// routes by some earlier one, whatever table it acknowledged.
func (g KnownGateway) floorOf(service string, w *World) (counter uint64, unknown bool) {
	if g.drifted() {
		return 0, true
	}
	counter, unknown = g.floor(w.Incarnation, w.Sequence)
	if g.State != nil && g.State.Refused[service] != "" {
		return 0, unknown || g.Orphans(service)
	}
	return counter, unknown
}

// Reach is what may still be routed to: by the route tables of known gateways, and
// by the views of callers.
type Reach struct {
	// All says that it cannot be told: everything counts as reached.
	All bool
	// revisions :: revision → name of a gateway, or "" for the plan in force
	revisions map[string]string
	splits    []view.Split // that lead to them
	// by names a gateway for which it cannot be told.
	by      string
	callers func(revision string) routing.Pickers // nil: there are none
}

// Callers are those who may still pick an instance of a revision by the views that
// they hold, whatever gateways may.
func (r Reach) Callers(revision string) routing.Pickers {
	if r.callers == nil {
		return routing.Pickers{}
	}
	return r.callers(revision)
}

// Revision says whether some gateway may still route to the revision, and why.
func (r Reach) Revision(name string) (why string, reached bool) {
	if r.All {
		return fmt.Sprintf("gateway %s holds routes that this store does not know", r.by), true
	}
	g, ok := r.revisions[name]
	switch {
	case !ok:
		return "", false
	case g == "":
		return "it is in the routes in force", true
	}
	return fmt.Sprintf("gateway %s may still route to it", g), true
}

// Process says the same of one process: a plan that names another life of its
// revision's name does not lead to it.
func (r Reach) Process(i Instance) (why string, reached bool) {
	why, reached = r.Revision(i.Revision)
	if r.All || !reached {
		return why, reached
	}
	leads := func(s view.Split) bool {
		return s.Allows(i.Revision, i.Minted) || !slices.Contains(s.Allowed, i.Revision) && s.Revision == i.Revision
	}
	if !slices.ContainsFunc(r.splits, leads) {
		return "", false
	}
	return why, true
}

// MayRoute says what the known gateways may still route to: by the plan in
// force, and by each earlier plan that a gateway may hold, served or kept; and
// which callers may pick by an earlier view.
// What it says is only ever too much: acknowledgements arrive late.
func (s *Snapshot) MayRoute(w *World) Reach {
	reach := Reach{revisions: map[string]string{}, callers: s.callers(w)}
	reach.add(s.Routes.Value.Plan, "")
	if r, known := s.StandInRoutes(); known {
		reach.add(r, "")
	}
	for _, g := range w.Gateways {
		floor, unknown := g.floorOf(s.Service, w)
		if unknown {
			return Reach{All: true, by: g.Name, callers: s.callers(w)}
		}
		for _, p := range s.heldFrom(floor) {
			reach.add(p, g.Name)
		}
	}
	return reach
}

// callers who may pick an instance of a revision, as w sees them.
func (s *Snapshot) callers(w *World) func(string) routing.Pickers {
	if w.MayPick == nil {
		return nil
	}
	return func(revision string) routing.Pickers {
		var ids []string
		for _, i := range w.Of[s.Service] {
			if i.Revision == revision && i.State != InstanceExited {
				ids = append(ids, i.ID)
			}
		}
		if len(ids) == 0 {
			return routing.Pickers{}
		}
		return w.MayPick(s.Service, ids)
	}
}

func (r *Reach) add(p view.Route, gateway string) {
	if p.Deleted {
		return
	}
	for _, split := range p.Splits {
		if split.Hold {
			continue // nobody leases there
		}
		r.splits = append(r.splits, split)
		for _, rev := range append([]string{split.Revision}, split.Allowed...) {
			if _, ok := r.revisions[rev]; !ok {
				r.revisions[rev] = gateway
			}
		}
	}
}

// heldFrom gives the earlier plans that were in force at the counter or later.
func (s *Snapshot) heldFrom(counter uint64) []view.Route {
	var out []view.Route
	ended := s.Routes.Version // the sequence at which the next plan came
	for _, p := range s.Routes.Value.Earlier {
		if ended <= counter {
			break
		}
		out = append(out, p.Plan)
		ended = p.Sequence
	}
	return out
}

// Publish is the routes record that puts plan in force after what is published
// now. What no known gateway can hold any more is left out of Earlier.
func (s *Snapshot) Publish(plan view.Route, sagaID, reason string, w *World) Routes {
	plan.Sequence = 0
	next := Routes{Service: s.Service, Plan: plan, Saga: sagaID, Reason: reason}
	if !s.Routes.Exists() {
		next.Earlier = s.unreadPlans()
		return next
	}
	current := PublishedPlan{Sequence: s.Routes.Version, Plan: s.Routes.Value.Plan}
	next.Earlier = append([]PublishedPlan{current}, s.kept(w)...)
	return next
}

// kept are the earlier plans that some gateway may still hold.
func (s *Snapshot) kept(w *World) []PublishedPlan {
	n := 0
	for _, g := range w.Gateways {
		floor, unknown := g.floorOf(s.Service, w)
		if unknown {
			floor = 0
		}
		n = max(n, len(s.heldFrom(floor)))
	}
	return slices.Clone(s.Routes.Value.Earlier[:n])
}

// unreadPlans stands for what was published by a record that cannot be read
// or is gone: every revision that was not retired may be in it.
func (s *Snapshot) unreadPlans() []PublishedPlan {
	var plan view.Route
	for _, r := range s.Revisions {
		if r.Value.State == RevisionRetired {
			continue
		}
		plan.Splits = append(plan.Splits, view.Split{Revision: r.Value.Name, Group: r.Value.GroupOf(), Allowed: []string{r.Value.Name}})
	}
	if !s.Catalog.Exists() || len(plan.Splits) == 0 || s.Catalog.Value.Latest == "" {
		return nil
	}
	plan.Service = s.Service
	return []PublishedPlan{{Plan: plan}}
}

// Settlement says how far a publication has got, asked at one moment.
type Settlement struct {
	// Done: every known gateway has acknowledged or is behind, and at least one has acknowledged.
	Done         bool
	Acknowledged []string
	Behind       []string
	Waiting      []string
	// Refused :: gateway name → why it refused this service's entry
	Refused map[string]string
}

// Settled looks at the gateways known now, never at a list taken earlier.
func Settled(gateways []KnownGateway, v view.Version, service string) Settlement {
	s := Settlement{Refused: map[string]string{}}
	for _, g := range gateways {
		serves, _ := g.holds()
		order := serves.Against(v)
		switch {
		case g.State != nil && !g.drifted() && (order == view.Same || order == view.Newer):
			s.Acknowledged = append(s.Acknowledged, g.Name)
			if why, ok := g.State.Refused[service]; ok {
				s.Refused[g.Name] = why
			}
		case g.Behind():
			s.Behind = append(s.Behind, g.Name)
		default:
			s.Waiting = append(s.Waiting, g.Name)
		}
	}
	s.Done = len(s.Waiting) == 0 && len(s.Acknowledged) > 0
	return s
}

// Text says a settlement in words.
func (s Settlement) Text() string {
	if len(s.Acknowledged)+len(s.Behind)+len(s.Waiting) == 0 {
		return "no gateway is known"
	}
	text := fmt.Sprintf("acknowledged by %d of %d gateways", len(s.Acknowledged), len(s.Acknowledged)+len(s.Behind)+len(s.Waiting))
	if len(s.Behind) > 0 {
		text += ", behind: " + strings.Join(s.Behind, ", ")
	}
	if len(s.Waiting) > 0 {
		text += ", waiting for " + strings.Join(s.Waiting, ", ")
	}
	return text
}
