package views

import (
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
	if err == nil {
		delete(t.barred, sub)
		return true
	}
	h := sub.holds[service]
	if h.listed {
		sub.leaveLocked(t, h)
		t.holders.remove(h)
	}
	t.barred[sub], h.barred = struct{}{}, true
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

// letInLocked makes one that was barred a subscriber.
func (s *Server) letInLocked(sub *subscriber, t *topic, h *holding) {
	delete(t.barred, sub)
	h.barred, h.waits, h.hurries = false, false, false
	sub.joinLocked(t, h)
	t.holders.add(h)
}
