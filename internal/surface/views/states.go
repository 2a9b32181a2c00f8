package views

import (
	"cmp"
	"slices"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// Subscribers are those that are connected, and those that were within an
// hour, by role and name.
func (s *Server) Subscribers() []service.Subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock()
	out := make([]service.Subscriber, 0, len(s.subscribers))
	for _, sub := range s.subscribers {
		x := service.Subscriber{
			Role: sub.role, Name: sub.name, Session: sub.hello.GetSession(), Library: sub.hello.GetLibrary(),
			Connected: sub.open, Silent: now.Sub(sub.heard), Missing: sub.missing(), Views: len(sub.holds),
		}
		x.Away = awayOf(sub.hello.GetAway())
		for name, h := range sub.holds {
			if h.barred {
				x.Views--
				continue
			}
			if t := s.topics[name]; t != nil && t.newest != nil && h.applied != t.newest.Version {
				x.Behind++
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b service.Subscriber) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func awayOf(a *pb.AwayReport) *service.Away {
	if a == nil {
		return nil
	}
	return &service.Away{For: millis(a.GetAwayMs()), Calls: a.GetCalls(), Failed: a.GetFailed(), Unroutable: a.GetUnroutable()}
}

// Published is the version of a service's newest view; zero is none.
func (s *Server) Published(of string) view.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[of]; t != nil && t.newest != nil {
		return t.newest.Version
	}
	return view.Version{}
}

// Newest is a service's newest view, and since when it is; nil is none. It is
// not to be changed.
func (s *Server) Newest(of string) (v *view.Service, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[of]; t != nil && t.newest != nil {
		return t.newest, s.now() - t.at
	}
	return nil, 0
}

// Holders of a service's view, by role and name.
func (s *Server) Holders(of string) []service.ViewHolder {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[of]
	var out []service.ViewHolder
	for _, sub := range s.subscribers {
		h := sub.holds[of]
		if h == nil || h.barred && s.refusedLocked(sub, t, h) == 0 {
			continue
		}
		out = append(out, service.ViewHolder{
			Refused: s.refusedLocked(sub, t, h),
			Role:    sub.role, Name: sub.name, Connected: sub.open, Version: h.applied, Objection: h.objection,
			Current: t != nil && t.newest != nil && t.newest.Version == h.applied,
		})
	}
	slices.SortFunc(out, func(a, b service.ViewHolder) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name))
	})
	return out
}
