package service

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
)

// Kinds of work. Those that are sagas have the names of their definitions.
const (
	WorkNone       = ""
	WorkDeploy     = "deploy"
	WorkTraffic    = "traffic"
	WorkScale      = "scale"
	WorkRestart    = "restart"
	WorkDelete     = "delete"
	WorkCollect    = "collect"
	WorkRoutes     = "repair-routes" // published again from the catalog
	WorkSlots      = "repair-slots"  // assigned again to hosts that lost them
	WorkObserve    = "observe"       // the catalog notes the generation that is met
	WorkTrim       = "trim"          // history beyond its bounds is erased
	WorkDropRoutes = "drop-routes"   // a tombstone that every gateway has kept
	WorkClaims     = "claims"        // host names that lead here no more are set free
	CollectAfter   = 10 * time.Second
	mostOverdue    = 10 // revisions that could go, beyond which nothing new is begun
	KeptRevisions  = 20
	KeptSagas      = 20
	KeptEvents     = 500
	slackOfHistory = 5
	slackOfEvents  = 50
	WorkEnds       = "tell-ends"      // that processes of what serves ended by themselves
	WorkStrays     = "stop-strays"    // processes that no record asks for
	WorkCool       = "cool"           // the window ended in which the earlier revision is kept warm
	WorkRewarm     = "rewarm"         // slots of the warm revision whose host is gone are placed elsewhere
	WorkNeeds      = "needs-operator" // the catalog notes what only a person can settle, or that it is settled
	WorkAdopt      = "adopt"          // a deploy that waits belongs to a generation that changes nothing for it
	StrayAfter     = time.Minute
)

// Work is what a service's worker does next, and why.
type Work struct {
	Kind string
	// Saga to resume; a Doc that does not exist means that one is minted.
	Saga saga.Record
	// Version of Saga; zero means that one is minted.
	Version  uint64
	Revision string
	Reason   string
	// NeedsOperator names what only a person can settle; it may stand beside
	// work that goes on all the same.
	NeedsOperator string
}

// Plan decides what a service's worker does next. It looks at nothing but its
// arguments. The order is the order of what matters: a delete, then what is in
// flight, then what someone wants, then what has drifted, then what can go.
func Plan(s *Snapshot, w *World) Work {
	work := s.plan(w)
	if recorded := s.Catalog.Value.NeedsOperator; work.Kind == WorkNone && s.Catalog.Exists() && recorded != work.NeedsOperator {
		work.Kind, work.Reason = WorkNeeds, "what only a person can settle is recorded, or that it is settled"
	}
	return work
}

func (s *Snapshot) plan(w *World) Work {
	if why := s.unreadable(); why != "" {
		return Work{NeedsOperator: why}
	}
	if work, alone := s.planDelete(w); alone {
		return work
	}
	if !s.Desired.Exists() {
		return s.planLeftovers(w)
	}
	work, alone := s.planOpen(w)
	if work.Kind != WorkNone || alone {
		return work
	}
	needs := work.NeedsOperator
	for _, next := range []func(*World) Work{
		s.planInTurn, s.planTraffic, s.planScale, s.planRestart, s.planObserve,
		s.planRepairRoutes, s.planRefused, s.planCool, s.planRepairSlots, s.planEnds, s.planRewarm, s.planCollect, s.planStrays, s.planClaims, s.planTrim,
	} {
		work := next(w)
		needs = cmp.Or(work.NeedsOperator, needs)
		if work.Kind != WorkNone {
			work.NeedsOperator = needs
			return work
		}
	}
	return Work{NeedsOperator: needs}
}

// unreadable names the records without which nothing of this service can be
// judged. A routes record is not among them: it is published anew.
func (s *Snapshot) unreadable() string {
	for _, b := range s.Broken {
		switch b.Kind {
		case KindDesired, KindCatalog, KindRevision, KindSaga:
			return fmt.Sprintf("the %s record %s (version %d) cannot be read: %s; correct or remove it", b.Kind, b.Name, b.Version, b.Problem)
		}
	}
	return ""
}

func (s *Snapshot) planDelete(w *World) (work Work, alone bool) {
	for _, r := range s.Sagas {
		if r.Value.Kind != WorkDelete || !r.Value.Open() {
			continue
		}
		if why := w.Parked(r.Value); why != "" {
			return Work{NeedsOperator: why}, true
		}
		newer := s.Desired.Value.Generation > r.Value.Generation
		if r.Value.State == saga.Running || newer || w.Due(r.Value) {
			return resume(r, "the service is being deleted"), true
		}
		return Work{}, true
	}
	if s.Desired.Exists() && s.Desired.Value.Deleted {
		return Work{Kind: WorkDelete, Reason: fmt.Sprintf("generation %d deletes the service", s.Desired.Value.Generation)}, true
	}
	return Work{}, false
}

// planLeftovers ends what outlived its desired document.
func (s *Snapshot) planLeftovers(w *World) Work {
	if len(s.Revisions)+len(s.Sagas) > 0 || s.Catalog.Exists() {
		return Work{NeedsOperator: "there are records of this service and no desired document; deploy it again, or delete it once deployed"}
	}
	if s.Routes.Exists() && s.Routes.Value.Plan.Deleted && s.everyGatewayKeepsRoutes(w) {
		return Work{Kind: WorkDropRoutes, Reason: "every known gateway has kept that the service is gone"}
	}
	return s.planStrays(w)
}

// everyGatewayKeepsRoutes says that no known gateway holds a table from before
// the routes in force, served or kept.
func (s *Snapshot) everyGatewayKeepsRoutes(w *World) bool {
	for _, g := range w.Gateways {
		floor, unknown := g.floorOf(s.Service, w)
		if unknown || floor < s.Routes.Version {
			return false
		}
	}
	return true
}

// planOpen looks at what is in flight. Alone says that nothing else may be
// done to the service meanwhile.
func (s *Snapshot) planOpen(w *World) (work Work, alone bool) {
	needs := ""
	for _, doc := range s.Sagas {
		r := doc.Value
		if !r.Open() {
			continue
		}
		if why := w.Parked(r); why != "" {
			return Work{NeedsOperator: why}, true
		}
		ends := cmp.Or(s.AbortedBy(r), s.Superseded(r))
		switch {
		case ends != "" && r.State != saga.Compensating:
			return resume(doc, ends), true
		case r.State != saga.Compensating && s.HeldAt(r) != "":
			return Work{}, true // a person holds it
		case r.State == saga.Running:
			return resume(doc, "it is in flight"), true
		case r.State == saga.Compensating:
			if r.RetryAt.IsZero() || w.Due(r) {
				return resume(doc, "what a failed attempt did is to be undone"), true
			}
			needs = fmt.Sprintf("what attempt %d of %s did cannot be undone: %s; it is tried again by itself", r.Attempt, r.ID, r.Effects["undo"])
			return Work{NeedsOperator: needs}, true
		case s.Desired.Value.Generation > r.Generation && s.Desired.Value.AskedAt() <= r.Generation && r.Kind == WorkDeploy:
			work := resume(doc, fmt.Sprintf("generation %d asks for nothing that it waits for", s.Desired.Value.Generation))
			work.Kind = WorkAdopt
			return work, true
		case s.Desired.Value.Generation > r.Generation:
			return resume(doc, fmt.Sprintf("generation %d asks for the same again", s.Desired.Value.Generation)), true
		case w.Due(r):
			return resume(doc, fmt.Sprintf("attempt %d failed and its wait is over", r.Attempt)), true
		}
	}
	return Work{NeedsOperator: needs}, false
}

func resume(doc Doc[saga.Record], reason string) Work {
	return Work{Kind: doc.Value.Kind, Saga: doc.Value, Version: doc.Version, Revision: doc.Value.Subject, Reason: reason}
}

// AbortedBy says that a person ended an open saga; empty means not.
func (s *Snapshot) AbortedBy(r saga.Record) string {
	switch r.Kind {
	case WorkDeploy, WorkTraffic, WorkScale, WorkRestart:
		if d := s.Desired.Value; d.Aborted > 0 && r.Generation <= d.Aborted {
			return fmt.Sprintf("generation %d ended what was asked for until then", d.Aborted+1)
		}
	}
	return ""
}

// HeldAt says that a person holds the saga before the step that it is at;
// empty means not. What is published is recorded all the same, and requests
// that are held for an exclusive handover are not kept waiting.
func (s *Snapshot) HeldAt(r saga.Record) string {
	if !s.Desired.Value.Paused || r.Kind != WorkDeploy && r.Kind != WorkTraffic {
		return ""
	}
	switch at := r.At(); {
	case at == "finalize" || at == "record" || at == "":
		return ""
	case s.Routes.Value.Held():
		return ""
	default:
		return fmt.Sprintf("it is paused before %s; it goes on by: fairlead resume %s", at, s.Service)
	}
}

// Superseded says which later intent has won over an open saga; empty means none.
func (s *Snapshot) Superseded(r saga.Record) string {
	if r.Kind == WorkDelete || !s.Desired.Exists() {
		return ""
	}
	d := s.Desired.Value
	if d.Deleted {
		return fmt.Sprintf("generation %d deletes the service", d.Generation)
	}
	switch r.Kind {
	case WorkDeploy:
		rev := s.Revision(r.Subject)
		if rev.Exists() && !s.wants(rev.Value) {
			return fmt.Sprintf("generation %d asks for something else", d.Generation)
		}
	case WorkTraffic:
		// A generation that wants the same traffic changes nothing for it.
		if moves := r.Effects[EffectWanted]; moves != "" && moves != s.WantedTraffic() {
			return fmt.Sprintf("generation %d wants other traffic", d.Generation)
		}
	case WorkScale, WorkRestart:
		if d.Generation > r.Generation {
			return fmt.Sprintf("generation %d came after it", d.Generation)
		}
	}
	return ""
}

// wants says that the revision is what is asked for today.
func (s *Snapshot) wants(r Revision) bool {
	return r.Digest == s.Intent && r.Force == s.Desired.Value.Force
}

func (s *Snapshot) planDeploy(w *World) Work {
	d := s.Desired.Value
	if latest := s.Revision(s.LatestAfter()); latest.Exists() && s.wants(latest.Value) {
		return Work{}
	}
	for _, doc := range s.Sagas {
		r := doc.Value
		if r.Kind != WorkDeploy {
			continue
		}
		rev := s.Revision(r.Subject)
		same := rev.Exists() && s.wants(rev.Value)
		if same && (r.Open() || r.State == saga.Failed && r.Generation <= d.Aborted) {
			return Work{} // it waits, or was ended by a person
		}
	}
	name := RevisionName(s.Service, s.NextRevision(w))
	return Work{Kind: WorkDeploy, Revision: name, Reason: fmt.Sprintf("generation %d asks for what no revision is", d.Generation)}
}

// waits says that a saga of the kind, for today's generation, waits for its next attempt.
func (s *Snapshot) waits(kind string) bool {
	return slices.ContainsFunc(s.Sagas, func(d Doc[saga.Record]) bool {
		return d.Value.Kind == kind && d.Value.Open() && d.Value.Generation >= s.Desired.Value.Generation
	})
}

func (s *Snapshot) planTraffic(*World) Work {
	c := s.Catalog.Value
	if c.Latest == "" {
		return Work{}
	}
	latest := s.LatestAfter()
	parts, err := s.Parts(latest)
	if err != nil {
		return Work{NeedsOperator: err.Error()}
	}
	if latest == c.Latest && slices.Equal(parts, c.Traffic) && slices.Equal(s.Desired.Value.HostsOf(), c.Hosts) || s.waits(WorkTraffic) {
		return Work{}
	}
	return Work{Kind: WorkTraffic, Reason: fmt.Sprintf("generation %d wants other traffic or host names", s.Desired.Value.Generation)}
}

// Serving are the revisions that the catalog refers to.
func (s *Snapshot) Serving() []Doc[Revision] {
	var out []Doc[Revision]
	for _, r := range s.Revisions {
		if s.Catalog.Value.Referenced(r.Value.Name) {
			out = append(out, r)
		}
	}
	return out
}

func (s *Snapshot) planScale(w *World) Work {
	n := s.Desired.Value.Instances
	for _, r := range s.Serving() {
		if gone := r.Value.OnGone(w); len(gone) > 0 && !s.waits(WorkScale) {
			return Work{Kind: WorkScale, Reason: fmt.Sprintf("host %s of slot %s is gone", gone[0].Host, gone[0].ID)}
		}
		if drains := r.Value.OnDraining(w); len(drains) > 0 && !s.waits(WorkScale) {
			return Work{Kind: WorkScale, Reason: fmt.Sprintf("slot %s leaves host %s: %s", drains[0].ID, drains[0].Host, w.Drains(drains[0].Host))}
		}
		if len(r.Value.Slots) != n && !s.waits(WorkScale) {
			return Work{Kind: WorkScale, Reason: fmt.Sprintf("%s has %d instances, wanted are %d", r.Value.Name, len(r.Value.Slots), n)}
		}
	}
	return Work{}
}

func (s *Snapshot) planRestart(*World) Work {
	for _, r := range s.Serving() {
		if r.Value.Round < s.Desired.Value.Round && !s.waits(WorkRestart) {
			return Work{Kind: WorkRestart, Reason: fmt.Sprintf("a restart is asked for (round %d)", s.Desired.Value.Round)}
		}
	}
	return Work{}
}

// planObserve notes a generation that is met without anything to do.
func (s *Snapshot) planObserve(*World) Work {
	c, d := s.Catalog.Value, s.Desired.Value
	if c.Latest == "" || c.ObservedGeneration >= d.Generation {
		return Work{}
	}
	latest := s.Revision(c.Latest)
	if !latest.Exists() || !s.wants(latest.Value) || s.anyOpen() {
		return Work{}
	}
	return Work{Kind: WorkObserve, Reason: fmt.Sprintf("generation %d is met", d.Generation)}
}

func (s *Snapshot) anyOpen() bool {
	return slices.ContainsFunc(s.Sagas, func(d Doc[saga.Record]) bool { return d.Value.Open() && d.Value.Kind != WorkCollect })
}
