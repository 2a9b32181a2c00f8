package service

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/view"
)

// planRepairRoutes compares what is published with the catalog. With nothing
// in flight the catalog wins if its revisions answer, or if nothing does.
func (s *Snapshot) planRepairRoutes(w *World) Work {
	want, published := s.CatalogRoutes(), s.Routes.Value.Plan
	switch s.compareRoutes(w) {
	case routesKept:
		return Work{NeedsOperator: s.apart(published, want)}
	case routesUnknown: // both stay as they are
		return Work{NeedsOperator: s.Catalog.Value.NeedsOperator}
	case routesDiffer:
		return Work{Kind: WorkRoutes, Reason: fmt.Sprintf("the routes (%s) differ from the catalog (%s)", PlanText(published), PlanText(want))}
	}
	return Work{}
}

// What comes of comparing the published routes with the catalog.
const (
	routesAgree   = iota
	routesKept    // they differ, and what is published answers: that is kept
	routesUnknown // they differ, and it is not known yet which of the two answers
	routesDiffer  // they differ, and the catalog wins
)

func (s *Snapshot) compareRoutes(w *World) int {
	if !s.Catalog.Exists() {
		return routesAgree
	}
	want := s.CatalogRoutes()
	published := s.Routes.Value.Plan
	if s.Routes.Exists() && SamePlan(published, want) {
		return routesAgree
	}
	if len(want.Splits) == 0 && (!s.Routes.Exists() || len(published.Splits) == 0) && !s.brokenRoutes() {
		return routesAgree // nothing was ever put into the catalog, and nothing is published
	}
	switch answers := s.answers(want, w); {
	case !answers && s.answers(published, w) && !s.unheard(want, w):
		return routesKept
	case !answers && (s.answers(published, w) || s.unheard(published, w)):
		return routesUnknown
	}
	if s.Routes.Exists() && SamePlan(published, s.RepairedRoutes(w)) {
		return routesAgree // held until something polls
	}
	return routesDiffer
}

// RoutesInDoubt says that what is published differs from what the catalog says,
// with nothing in flight that would account for it, and that no pass has settled
// which of the two is obeyed.
func (s *Snapshot) RoutesInDoubt(w *World) bool {
	if !s.Desired.Exists() || s.Desired.Value.Deleted || s.unreadable() != "" {
		return false
	}
	if _, known := s.StandInRoutes(); s.brokenRoutes() && !known {
		return true
	}
	inFlight := func(d Doc[saga.Record]) bool {
		return d.Value.Open() && d.Value.State != saga.Waiting && d.Value.Kind != WorkCollect
	}
	if slices.ContainsFunc(s.Sagas, inFlight) {
		return false
	}
	c := s.compareRoutes(w)
	return c == routesUnknown || c == routesDiffer
}

// RepairedRoutes are the catalog's: held where a group of them has no live
// instance that could answer from it.
func (s *Snapshot) RepairedRoutes(w *World) view.Route {
	want := s.CatalogRoutes()
	if s.Unpolled(want, w) != "" {
		return Held(want)
	}
	return want
}

// Unpolled names a revision that the route leads to, not held, and of which no
// instance is live; empty when there is none. Where no instance is wanted,
// none is missed.
func (s *Snapshot) Unpolled(r view.Route, w *World) string {
	if r.Deleted || s.Desired.Value.Instances == 0 {
		return ""
	}
	for _, split := range r.Splits {
		rev := s.Revision(split.Revision).Value
		// What is not heard of may live, and then its callers are not to wait.
		if !split.Hold && !s.live(split.Revision, w) && len(rev.OnCutOff(w)) == 0 && !rev.unheard(w) {
			return split.Revision
		}
	}
	return ""
}

// apart says that the catalog is not obeyed, and what a person can do.
func (s *Snapshot) apart(published, want view.Route) string {
	move := "fairlead traffic " + s.Service
	for _, split := range published.Splits {
		if split.Percent > 0 {
			move += fmt.Sprintf(" %s=%d", split.Revision, split.Percent)
		}
	}
	return fmt.Sprintf("the routes (%s) differ from the catalog (%s), whose revision does not answer; what answers is kept: have it recorded (%s), deploy another release, or bring the catalog's revision back",
		PlanText(published), PlanText(want), move)
}

// unheard says that a revision with a share of the route may answer for all
// that is known: a host of it has not reported, and is not gone.
func (s *Snapshot) unheard(r view.Route, w *World) bool {
	return slices.ContainsFunc(r.Splits, func(split view.Split) bool {
		return split.Percent > 0 && s.Revision(split.Revision).Value.unheard(w)
	})
}

// unheard says that a host which has not reported, and is not gone, may run it.
func (r Revision) unheard(w *World) bool {
	return slices.ContainsFunc(r.Slots, func(s Slot) bool { return !w.Hosts[s.Host].Reported && !w.Gone[s.Host] })
}

// planRefused names a gateway that does not serve what is published: it says
// so itself, and nothing that could be published again would change it.
func (s *Snapshot) planRefused(w *World) Work {
	for _, g := range w.Gateways {
		if g.State == nil || g.State.Refused[s.Service] == "" || g.Orphans(s.Service) {
			continue
		}
		return Work{NeedsOperator: fmt.Sprintf("gateway %s refuses the published route (%s) and serves what it held before: %s; correct what it names, and deploy again",
			g.Name, PlanText(s.Routes.Value.Plan), g.State.Refused[s.Service])}
	}
	return Work{}
}

// StandInRoutes is what stands in the place of a routes record that cannot be
// read: what was read of it last, else what the catalog asks for. False: neither
// is known, or the record can be read.
func (s *Snapshot) StandInRoutes() (r view.Route, known bool) {
	switch {
	case !s.brokenRoutes():
		return view.Route{}, false
	case s.LastRoutes != nil:
		return *s.LastRoutes, true
	}
	r = s.CatalogRoutes()
	return r, s.Catalog.Exists() && len(r.Splits) > 0
}

// UnreadRoutes says that the routes record cannot be read, and what stands in its
// place; empty: it can.
func (s *Snapshot) UnreadRoutes() string {
	for _, b := range s.Broken {
		if b.Kind != KindRoutes {
			continue
		}
		stands := "what gateways and callers hold of it stands, and no view of it is published, until they are published anew"
		if r, known := s.StandInRoutes(); known {
			stands = PlanText(r) + " stands until they are published anew"
		}
		return fmt.Sprintf("the routes of %s (version %d) cannot be read: %s; %s", s.Service, b.Version, b.Problem, stands)
	}
	return ""
}

func (s *Snapshot) brokenRoutes() bool {
	return slices.ContainsFunc(s.Broken, func(b Broken) bool { return b.Kind == KindRoutes })
}

// answers says that every revision with a share of the route has a live instance.
func (s *Snapshot) answers(r view.Route, w *World) bool {
	any := false
	for _, split := range r.Splits {
		if split.Percent == 0 {
			continue
		}
		if any = s.live(split.Revision, w); !any {
			return false
		}
	}
	return any
}

func (s *Snapshot) live(revision string, w *World) bool {
	r := s.Revision(revision).Value
	for _, slot := range r.Slots {
		if slices.ContainsFunc(r.Processes(slot.ID, w), func(i Instance) bool { return i.State == InstanceLive }) {
			return true
		}
	}
	return false
}

// planRepairSlots finds slots that their host lost, of serving revisions and
// of the one that is kept warm.
func (s *Snapshot) planRepairSlots(w *World) Work {
	for _, r := range s.Revisions {
		if !s.Catalog.Value.KeepsRunning(r.Value.Name) {
			continue
		}
		if lost := r.Value.Lost(w); len(lost) > 0 {
			return Work{Kind: WorkSlots, Revision: r.Value.Name, Reason: fmt.Sprintf("host %s has no instance of slot %s", lost[0].Host, lost[0].ID)}
		}
	}
	return Work{}
}

// Lost are the revision's slots of which their host reports nothing of its own;
// on a host that drains none is missed where another can take it.
func (r Revision) Lost(w *World) []Slot {
	var out []Slot
	for _, slot := range r.Staying(w) {
		h := w.Hosts[slot.Host]
		if h.Connected && h.Reported && len(r.Processes(slot.ID, w)) == 0 {
			out = append(out, slot)
		}
	}
	return out
}

// planInTurn begins what is asked for, once what nothing refers to any more is
// stopped, where that has fallen behind: however fast someone deploys, what runs
// for nobody stays bounded.
func (s *Snapshot) planInTurn(w *World) Work {
	work := s.planDeploy(w)
	if work.Kind == WorkNone {
		return work
	}
	if all := s.collectable(w, mostOverdue+1); len(all) > mostOverdue {
		return all[0]
	}
	return work
}

// planCollect finds a revision that nothing refers to any more: by the
// catalog for a while, by a saga, by what is asked for today, or by a gateway.
func (s *Snapshot) planCollect(w *World) Work {
	for _, work := range s.collectable(w, 1) {
		return work
	}
	return Work{}
}

// collectable is what can go, at most so many.
func (s *Snapshot) collectable(w *World, most int) (all []Work) {
	var reach *Reach
	for _, doc := range s.Revisions {
		if len(all) == most {
			break
		}
		r := doc.Value
		if s.Catalog.Value.KeepsRunning(r.Name) {
			if !s.anyOpen() && stoppable(r.Leaving, w) {
				all = append(all, Work{Kind: WorkCollect, Revision: r.Name, Reason: "slots that left it still run"})
			}
			continue
		}
		done := r.State == RevisionRetired && len(r.Slots)+len(r.Leaving) == 0
		if done || s.KeptBy(r) != "" || w.Unreferenced(r.Name) < CollectAfter {
			continue
		}
		if r.State == RevisionRetired && !stoppable(r.Leaving, w) && len(r.Slots) == 0 {
			continue // its host is away
		}
		if reach == nil {
			m := s.MayRoute(w)
			reach = &m
		}
		if _, reached := reach.Revision(r.Name); reached {
			continue
		}
		if !reach.Callers(r.Name).Nobody() && w.Unreferenced(r.Name) < CollectAfter+routing.Grace {
			continue // the service's worker does not wait for them meanwhile
		}
		all = append(all, Work{Kind: WorkCollect, Revision: r.Name, Reason: "nothing has referred to it for " + CollectAfter.String()})
	}
	return all
}

// stoppable says that a host of one of the slots can be told to stop it, or
// will never be.
func stoppable(slots []Slot, w *World) bool {
	return slices.ContainsFunc(slots, func(s Slot) bool { return w.Hosts[s.Host].Connected || w.IsRetired(s.Host) })
}

// KeptBy says why a revision that the catalog does not refer to is kept, the
// gateways aside; empty when nothing keeps it.
func (s *Snapshot) KeptBy(r Revision) string {
	if s.Catalog.Value.Referenced(r.Name) {
		return "the catalog refers to it"
	}
	if s.Catalog.Value.Warm == r.Name {
		return "it led the traffic just before and is kept warm until " + s.Catalog.Value.WarmUntil.UTC().Format(time.DateTime)
	}
	for _, doc := range s.Sagas {
		if doc.Value.Subject == r.Name && doc.Value.Open() && doc.Value.Kind == WorkDeploy {
			return "its deploy has not ended"
		}
		if doc.Value.Subject == r.Name && doc.Value.Open() && doc.Value.Kind == WorkCollect {
			return "it is being collected"
		}
		if doc.Value.Kind == WorkTraffic && doc.Value.Open() && s.Desired.Value.Names(r.Name) {
			return "traffic is being moved to it"
		}
	}
	pending := r.State == RevisionPending || r.State == RevisionFailed
	if pending && s.wants(r) && r.Number == s.Catalog.Value.LastRevision && s.Superseding(r) == "" {
		return "it is what is asked for today"
	}
	return ""
}

// Superseding says that the revision's deploy ended because a later intent won,
// or because a person ended it.
func (s *Snapshot) Superseding(r Revision) string {
	for _, doc := range s.Sagas {
		ended := doc.Value.State == saga.Superseded || doc.Value.State == saga.Failed
		if doc.Value.Subject == r.Name && doc.Value.Kind == WorkDeploy && ended {
			return cmp.Or(doc.Value.Error, "its deploy ended")
		}
	}
	return ""
}

// planStrays finds processes that no record asks for: of a host that was away
// while its slots were given up.
func (s *Snapshot) planStrays(w *World) Work {
	if strays := s.Strays(w); len(strays) > 0 {
		return Work{Kind: WorkStrays, Reason: fmt.Sprintf("nobody asked for slot %s on host %s", strays[0].Slot, strays[0].Host)}
	}
	return Work{}
}

// Strays are running processes whose slot no revision has, seen for a while,
// and which no gateway may route to.
func (s *Snapshot) Strays(w *World) []Instance {
	var out []Instance
	var reach *Reach
	for _, i := range w.Of[s.Service] {
		if i.State == InstanceExited || !w.Hosts[i.Host].Connected || s.asksFor(i) || w.Stray(StrayKey(i.Slot, i.Minted)) < StrayAfter {
			continue
		}
		if reach == nil {
			m := s.MayRoute(w)
			reach = &m
		}
		// Another slot of a revision that is routed may go; a revision that is
		// nobody's may not while some gateway may route to it.
		if _, reached := reach.Process(i); reached && (reach.All || !s.Revision(i.Revision).Value.Owns(i)) {
			continue
		}
		out = append(out, i)
	}
	return out
}

// StrayKey tells the lives of a slot's name apart.
func StrayKey(slot, minted string) string { return slot + " " + minted }

func (s *Snapshot) asksFor(i Instance) bool {
	r := s.Revision(i.Revision).Value
	if !r.Owns(i) {
		return false
	}
	is := func(slot Slot) bool { return slot.ID == i.Slot && slot.Host == i.Host }
	return slices.ContainsFunc(r.Slots, is) || slices.ContainsFunc(r.Leaving, is)
}

// planClaims finds host names that are claimed and lead here no more.
func (s *Snapshot) planClaims(*World) Work {
	if len(s.FreeClaims()) == 0 {
		return Work{}
	}
	return Work{Kind: WorkClaims, Reason: "host names that lead here no more are set free"}
}

// FreeClaims are claims of names that are neither wanted, nor in the catalog,
// nor published.
func (s *Snapshot) FreeClaims() []Doc[string] {
	var out []Doc[string]
	for _, c := range s.Claims {
		if !slices.Contains(s.Desired.Value.HostNames, c.Value) && !slices.Contains(s.Catalog.Value.Hosts, c.Value) &&
			!slices.Contains(s.Routes.Value.Plan.Hosts, c.Value) {
			out = append(out, c)
		}
	}
	return out
}
