package gatewaytest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Sim is a set of simulated gateways that any number of controllers share,
// each by a port of its own. Every running gateway follows every open port, so
// that a leader who was succeeded still reaches it, and is refused by its epoch.
type Sim struct {
	mu       sync.Mutex
	gateways []*Gateway // ordered by name
	ports    []*SimPort
	wake     chan struct{} // closed at any change
	ctx      context.Context
	cancel   context.CancelFunc
	links    sync.WaitGroup
	caller   *Caller // nil: no requests come
}

// NewSim makes a set with running gateways of these names. Close ends it.
func NewSim(names ...string) *Sim {
	s := &Sim{wake: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, name := range names {
		s.Add(name)
	}
	return s
}

// Close ends every connection and waits until Admit and Goodbye have returned.
func (s *Sim) Close() {
	s.cancel()
	s.links.Wait()
}

// Add starts one more gateway, with an empty disk.
func (s *Sim) Add(name string) *Gateway { return s.AddLagging(name, 0) }

// AddLagging adds a gateway that lags from its first table on.
func (s *Sim) AddLagging(name string, lag time.Duration) *Gateway {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &Gateway{sim: s, name: name, refuse: map[string]string{}, runs: 1, lag: lag}
	s.gateways = append(s.gateways, g)
	slices.SortFunc(s.gateways, func(a, b *Gateway) int { return strings.Compare(a.name, b.name) })
	for _, p := range s.ports {
		s.connectLocked(g, p)
	}
	s.wakeLocked()
	return g
}

// Gateway returns the one of this name; nil when there is none.
func (s *Sim) Gateway(name string) *Gateway {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gateways {
		if g.name == name {
			return g
		}
	}
	return nil
}

// MayRoute returns every table that some gateway routes by now, or would route
// by if it were restarted now.
func (s *Sim) MayRoute() []*view.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*view.Table
	for _, g := range s.gateways {
		for _, h := range []*view.Held{g.held, g.kept} {
			if t := h.Serving(); t != nil && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// Attach opens a port for one controller; every gateway begins to follow it at once.
func (s *Sim) Attach(cfg PortConfig) *SimPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &SimPort{sim: s, cfg: cfg, offered: map[view.Version]string{}, changed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	s.ports = append(s.ports, p)
	for _, g := range s.gateways {
		s.connectLocked(g, p)
	}
	return p
}

func (s *Sim) connectLocked(g *Gateway, p *SimPort) {
	l := &link{g: g, p: p}
	p.links = append(p.links, l)
	slices.SortFunc(p.links, func(a, b *link) int { return strings.Compare(a.g.name, b.g.name) })
	s.links.Go(l.run)
}

func (s *Sim) wakeLocked() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// change does f under the lock and wakes every link.
func (s *Sim) change(f func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(time.Now())
	s.wakeLocked()
}
