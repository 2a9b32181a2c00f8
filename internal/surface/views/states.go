package views

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Subscriber is who holds views, as it last said.
type Subscriber struct {
	Role, Name, Session, Library string
	Connected                    bool
	// Silent is how long nothing was heard.
	Silent time.Duration
	// Missing are features of views that it does not know.
	Missing []string
	// Views that it holds, and how many of them are not the newest.
	Views, Behind int
}

// Subscribers are those that are connected, and those that were within an
// hour, by role and name.
func (s *Server) Subscribers() []Subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock()
	out := make([]Subscriber, 0, len(s.subscribers))
	for _, sub := range s.subscribers {
		x := Subscriber{
			Role: sub.role, Name: sub.name, Session: sub.hello.GetSession(), Library: sub.hello.GetLibrary(),
			Connected: sub.open, Silent: now.Sub(sub.heard), Missing: sub.missing(), Views: len(sub.holds),
		}
		for name, h := range sub.holds {
			if t := s.topics[name]; t != nil && t.newest != nil && h.applied != t.newest.Version {
				x.Behind++
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Subscriber) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name)) })
	return out
}

// Holder is a subscriber and the view that it picks by of one service.
type Holder struct {
	Role, Name string
	Connected  bool
	// Version that it last acknowledged, or said that it holds; zero is none.
	Version view.Version
	// Current says that this is the newest.
	Current bool
	// Objection says why it picks by something else than was sent.
	Objection string
}

// Holders of a service's view, by role and name.
func (s *Server) Holders(service string) []Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[service]
	var out []Holder
	for _, sub := range s.subscribers {
		h := sub.holds[service]
		if h == nil {
			continue
		}
		out = append(out, Holder{
			Role: sub.role, Name: sub.name, Connected: sub.open, Version: h.applied, Objection: h.objection,
			Current: t != nil && t.newest != nil && t.newest.Version == h.applied,
		})
	}
	slices.SortFunc(out, func(a, b Holder) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name)) })
	return out
}
