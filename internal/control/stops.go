package control

import (
	"cmp"
	"slices"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// stops are those that wait for callers, for people to see.
type stops struct {
	mu  sync.Mutex
	all map[string]map[string]service.StopWait // :: service → first instance → stop
}

func (s *stops) set(name string, w service.StopWait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]map[string]service.StopWait{}
	}
	if s.all[name] == nil {
		s.all[name] = map[string]service.StopWait{}
	}
	s.all[name][w.Instances[0]] = w
}

func (s *stops) end(name, instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.all[name], instance); len(s.all[name]) == 0 {
		delete(s.all, name)
	}
}

// of a service, those that end first before others.
func (s *stops) of(name string) []service.StopWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []service.StopWait
	for _, w := range s.all[name] {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b service.StopWait) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Instances[0], b.Instances[0]))
	})
	return out
}

// Stops of a service that wait until callers have acknowledged that instances
// leave; none where this control does not lead.
func (c *Control) Stops(name string) []service.StopWait {
	if t := c.current(); t != nil {
		return t.stops.of(name)
	}
	return nil
}
