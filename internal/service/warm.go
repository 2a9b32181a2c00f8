package service

import (
	"cmp"
	"fmt"
	"slices"
)

// planCool ends the window of the warm revision, by the leader's clock.
func (s *Snapshot) planCool(w *World) Work {
	c := s.Catalog.Value
	if c.Warm == "" || !w.Cooled(c.Warm) {
		return Work{}
	}
	return Work{Kind: WorkCool, Revision: c.Warm, Reason: "the window for going back to " + c.Warm + " has passed"}
}

// planRewarm keeps what a rollback needs for as long as the window lasts.
func (s *Snapshot) planRewarm(w *World) Work {
	r := s.warm()
	gone := r.OnGone(w)
	if len(gone) == 0 {
		gone = s.unrouted(r, r.OnDraining(w), w)
	}
	if len(gone) == 0 || s.anyOpen() {
		return Work{}
	}
	why := cmp.Or(w.Drains(gone[0].Host), "it is gone")
	return Work{Kind: WorkRewarm, Revision: r.Name, Reason: fmt.Sprintf("slot %s, which is kept warm, leaves host %s: %s", gone[0].ID, gone[0].Host, why)}
}

// unrouted are the slots, unless some gateway may still route to their revision.
func (s *Snapshot) unrouted(r Revision, slots []Slot, w *World) []Slot {
	if len(slots) == 0 {
		return nil
	}
	if _, reached := s.MayRoute(w).Revision(r.Name); reached {
		return nil
	}
	return slots
}

// Rewarmed is the warm revision with as many slots as before: none of them on
// a host that is gone, nor on one that drains unless it may be routed to.
func (s *Snapshot) Rewarmed(w *World) (Revision, error) {
	r := s.warm()
	n := len(r.Slots)
	r = r.LeaveGone(w)
	drains := s.unrouted(r, r.OnDraining(w), w)
	r.Slots, r.Leaving = r.without(drains), append(slices.Clone(r.Leaving), drains...)
	return r.Grow(n, w)
}

// warm is the revision that is kept running for a rollback; the zero one where
// there is none.
func (s *Snapshot) warm() Revision {
	if s.Catalog.Value.Warm == "" {
		return Revision{}
	}
	return s.Revision(s.Catalog.Value.Warm).Value
}
