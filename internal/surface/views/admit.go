package views

import (
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/may"
)

// caller is the subscriber as policies name it.
func (sub *subscriber) caller() may.Caller { return may.Caller{Role: sub.role, Name: sub.name} }

// admittedLocked says whether a subscriber may hold a service's view, by the
// policy that its newest one carries; as long as there is none there is nothing
// to hold. One that may not is told so, and is let in when the policy does.
func (s *Server) admittedLocked(sub *subscriber, t *topic, service string) bool {
	var err error
	if t.newest != nil {
		err = may.Check(sub.caller(), service, t.newest.Callers)
	}
	h := sub.holds[service]
	if err == nil {
		delete(t.barred, sub)
		h.since = 0
		return true
	}
	if h.listed {
		sub.leaveLocked(t, h)
		t.holders.remove(h)
	}
	t.barred[sub] = struct{}{}
	if h.barred = true; h.since == 0 {
		h.since = s.now()
	}
	sub.refused = append(sub.refused, &pb.RefusedRoute{Service: service, Reason: err.Error()})
	sub.stir()
	s.cfg.Refused(err)
	return false
}

// admitLocked asks anew who may hold a service's view, after its policy changed.
func (s *Server) admitLocked(t *topic) {
	service := t.newest.Name
	for h := range t.holders.all() {
		s.admittedLocked(h.sub, t, service)
	}
	for sub := range t.barred {
		h := sub.holds[service]
		if h == nil || may.Check(sub.caller(), service, t.newest.Callers) != nil {
			continue // it was told before
		}
		s.letInLocked(sub, t, h)
	}
}

// refusedLocked is for how long a subscriber has been refused that may pick by
// what it held before; zero is one that is not, or holds nothing. One that left is
// asked for by the policy of now.
func (s *Server) refusedLocked(sub *subscriber, t *topic, h *holding) time.Duration {
	if !h.barred || h.applied.Zero() || !sub.open && (t == nil || t.newest == nil || may.Check(sub.caller(), t.newest.Name, t.newest.Callers) == nil) {
		return 0
	}
	return max(s.now()-h.since, 1)
}

// refusedLocked are how many are connected that were refused, here and at relays.
func (t *topic) refusedLocked(of string) (n int) {
	for sub := range t.barred {
		if h := sub.holds[of]; h != nil && !h.applied.Zero() {
			n++
		}
	}
	for h := range t.holders.all() {
		n += h.tally.refused
	}
	return n
}

// Refused are how many callers the policy of a service refuses that may pick by
// the view that they held before, here and at relays.
func (s *Server) Refused(of string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[of]; t != nil {
		return t.refusedLocked(of)
	}
	return 0
}

// letInLocked makes one that was barred a subscriber.
func (s *Server) letInLocked(sub *subscriber, t *topic, h *holding) {
	delete(t.barred, sub)
	h.barred, h.since, h.waits, h.hurries = false, 0, false, false
	sub.joinLocked(t, h)
	t.holders.add(h)
}
