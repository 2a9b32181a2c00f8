package gatewaytest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// PortConfig is a controller's half of a port, as the stream's server takes it.
// The functions are called from goroutines of the Sim.
type PortConfig struct {
	// Admit is called when a gateway connects, before anything is sent to it;
	// an error refuses it, and it tries again within a second. Nil admits all.
	Admit func(ctx context.Context, g service.GatewayState) (view.Epoch, error)
	// Goodbye ends a membership. Nil does nothing.
	Goodbye func(ctx context.Context, name string) error
}

// SimPort is one controller's port to the gateways of a Sim.
type SimPort struct {
	sim    *Sim
	cfg    PortConfig
	ctx    context.Context
	cancel context.CancelFunc

	// Guarded by the Sim's lock.
	newest  *view.Table
	offered map[view.Version]string // :: version offered → its digest
	states  []*simState             // ordered by name
	links   []*link                 // ordered by name
	changed chan struct{}
}

type simState struct {
	service.GatewayState
	quiet bool      // nothing is heard since heard
	heard time.Time // meaningful while quiet
}

// Offer makes t the table that is sent to every gateway. A lower version of
// the same incarnation than was offered before is ignored.
func (p *SimPort) Offer(t *view.Table) {
	p.sim.change(func(time.Time) {
		if p.newest != nil && t.Version.Against(p.newest.Version) == view.Older {
			return
		}
		p.newest = t
		p.offered[t.Version] = t.Digest.String()
		for _, s := range p.states {
			if s.Connected {
				s.Sent = t.Version
			}
		}
	})
}

// States returns every gateway that has followed this port, ordered by name.
func (p *SimPort) States() []service.GatewayState {
	p.sim.mu.Lock()
	defer p.sim.mu.Unlock()
	out := make([]service.GatewayState, 0, len(p.states))
	for _, s := range p.states {
		g := s.GatewayState
		g.Refused = maps.Clone(g.Refused)
		if s.quiet {
			g.Silent = time.Since(s.heard)
		}
		out = append(out, g)
	}
	return out
}

// Changed is closed at the next change of States.
func (p *SimPort) Changed() <-chan struct{} {
	p.sim.mu.Lock()
	defer p.sim.mu.Unlock()
	return p.changed
}

// Close ends the port as the death of its controller does.
func (p *SimPort) Close() {
	p.cancel()
	p.sim.change(func(time.Time) {
		p.sim.ports = slices.DeleteFunc(p.sim.ports, func(q *SimPort) bool { return q == p })
	})
}

func (p *SimPort) stateLocked(name string) *simState {
	for _, s := range p.states {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// saidLocked takes what a gateway says of itself.
func (p *SimPort) saidLocked(g service.GatewayState) {
	s := p.stateLocked(g.Name)
	if s == nil {
		s = &simState{}
		p.states = append(p.states, s)
	}
	g.Sent, g.Drifts = s.Sent, s.Drifts
	digest, known := p.offered[g.Serves]
	if g.Drifted = known && digest != g.ServesDigest; g.Drifted && !s.Drifted {
		g.Drifts++
	}
	s.GatewayState, s.quiet = g, false
	slices.SortFunc(p.states, func(a, b *simState) int { return strings.Compare(a.Name, b.Name) })
	p.changedLocked()
}

func (p *SimPort) disconnectLocked(name string, now time.Time) {
	s := p.stateLocked(name)
	if s == nil || !s.Connected {
		return
	}
	s.Connected = false
	if !s.quiet {
		s.quiet, s.heard = true, now
	}
	p.changedLocked()
}

func (p *SimPort) forgetLocked(name string) {
	p.states = slices.DeleteFunc(p.states, func(s *simState) bool { return s.Name == name })
	p.changedLocked()
}

func (p *SimPort) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// quietLocked begins the silence of a gateway at every port.
func (s *Sim) quietLocked(g *Gateway, now time.Time) {
	for _, p := range s.ports {
		if st := p.stateLocked(g.name); st != nil && !st.quiet {
			st.quiet, st.heard = true, now
		}
	}
}
