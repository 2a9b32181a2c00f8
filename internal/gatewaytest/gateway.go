package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// Gateway is one simulated gateway. Its methods are its knobs.
type Gateway struct {
	sim  *Sim
	name string

	// Guarded by the Sim's lock.
	held    *view.Held // in memory
	kept    *view.Held // on its disk
	runs    int        // how often it was started
	down    bool
	cut     bool
	cuts    int // how often it was cut off: each ends its connections
	lag     time.Duration
	keepErr error
	refuse  map[string]string // :: service → reason
	polled  []string          // hosts that poll it
}

// Name it is known by.
func (g *Gateway) Name() string { return g.name }

// Table is what it routes by now; nil while it is stopped or holds none.
func (g *Gateway) Table() *view.Table {
	g.sim.mu.Lock()
	defer g.sim.mu.Unlock()
	if g.down {
		return nil
	}
	return g.held.Serving()
}

// Kept is what it would route by after a restart.
func (g *Gateway) Kept() *view.Table {
	g.sim.mu.Lock()
	defer g.sim.mu.Unlock()
	return g.kept.Serving()
}

// Lag makes every table take effect, and be acknowledged, only d after it was
// offered; what was offered meanwhile is coalesced.
func (g *Gateway) Lag(d time.Duration) {
	g.sim.change(func(time.Time) { g.lag = d })
}

// Cut lets nothing through in either direction, as a network that swallows
// everything: the connection still seems to be there, and is silent.
func (g *Gateway) Cut() {
	g.sim.change(func(now time.Time) {
		g.sim.quietLocked(g, now)
		g.cut = true
	})
}

// Heal ends Cut; the gateway connects again.
func (g *Gateway) Heal() {
	g.sim.change(func(time.Time) {
		if g.cut {
			g.cut = false
			g.cuts++
		}
	})
}

// Wake ends Cut, and the connection is still that of before.
func (g *Gateway) Wake() {
	g.sim.change(func(time.Time) {
		g.cut = false
		for _, p := range g.sim.ports {
			if st := p.stateLocked(g.name); st != nil {
				st.quiet = false
			}
		}
	})
}

// Stop kills its process: connections end, what is on its disk stays.
func (g *Gateway) Stop() {
	g.sim.change(func(now time.Time) {
		g.sim.quietLocked(g, now)
		g.down, g.held = true, nil
		g.dieLocked()
		for _, p := range g.sim.ports {
			p.disconnectLocked(g.name, now)
		}
	})
}

// Start runs it again, under a new session, by what its disk kept.
func (g *Gateway) Start() {
	g.sim.change(func(time.Time) {
		if g.down {
			g.down = false
			g.runs++
			g.held = view.Restore(g.kept.Snapshot(), g.objectLocked)
			g.governLocked()
		}
	})
}

// Restart is Stop and Start.
func (g *Gateway) Restart() {
	g.Stop()
	g.Start()
}

// Tamper edits a route on its disk, and what it serves by now where it runs,
// as an editor that puts the checksums right.
func (g *Gateway) Tamper(service string, edit func(view.Route) view.Route) {
	g.sim.change(func(time.Time) {
		g.kept = g.tamperedLocked(g.kept, service, edit)
		if !g.down {
			g.held = g.tamperedLocked(g.held, service, edit)
		}
	})
}

func (g *Gateway) tamperedLocked(h *view.Held, service string, edit func(view.Route) view.Route) *view.Held {
	s := h.Snapshot()
	for i, r := range s.Routes {
		if r.Service == service {
			s.Routes[i] = edit(r)
		}
	}
	return view.Restore(s, g.objectLocked)
}

// LoseDisk empties its disk; what is in memory stays.
func (g *Gateway) LoseDisk() {
	g.sim.change(func(time.Time) { g.kept = nil })
}

// FailKeeping makes its disk refuse writes; nil ends that, and what is served is kept.
func (g *Gateway) FailKeeping(err error) {
	g.sim.change(func(time.Time) { g.keepErr = err })
}

// Refuse makes it refuse entries of the service from now on; an empty reason ends that.
func (g *Gateway) Refuse(service, reason string) {
	g.sim.change(func(time.Time) {
		if reason == "" {
			delete(g.refuse, service)
			return
		}
		g.refuse[service] = reason
	})
}

// Polled makes it say that these hosts poll it, in place of those before.
func (g *Gateway) Polled(hosts ...string) {
	g.sim.change(func(time.Time) {
		g.polled = hosts
		if g.cut || g.down {
			return
		}
		for _, p := range g.sim.ports {
			if s := p.stateLocked(g.name); s != nil && s.Connected {
				s.Polled = hosts
				p.changedLocked()
			}
		}
	})
}

// Goodbye ends its membership at every port that it follows, and stops it.
func (g *Gateway) Goodbye(ctx context.Context) error {
	g.sim.mu.Lock()
	var ports []*SimPort
	for _, p := range g.sim.ports {
		if p.stateLocked(g.name) != nil {
			ports = append(ports, p)
		}
	}
	g.sim.mu.Unlock()
	var failed error
	for _, p := range ports {
		if p.cfg.Goodbye != nil {
			if err := p.cfg.Goodbye(ctx, g.name); err != nil {
				failed = errors.Join(failed, fmt.Errorf("cannot say goodbye: %w", err))
				continue
			}
		}
		g.sim.change(func(time.Time) { p.forgetLocked(g.name) })
	}
	if failed != nil {
		return failed
	}
	g.Stop()
	return nil
}

func (g *Gateway) objectLocked(r view.Route) error {
	if reason, ok := g.refuse[r.Service]; ok {
		return errors.New(reason)
	}
	return r.Check()
}

// helloLocked is what it says of itself.
func (g *Gateway) helloLocked() service.GatewayState {
	s := service.GatewayState{
		Name: g.name, Session: fmt.Sprintf("%s-%d", g.name, g.runs),
		Poll: g.name + ":7000", Public: g.name + ":8080",
		Connected: true, Epoch: g.held.Epoch(), Refused: g.held.Objections(), Polled: g.polled,
	}
	if t := g.held.Told(); t != nil {
		s.Serves, s.ServesDigest = t.Version, t.Digest.String()
	}
	if t := g.kept.Told(); t != nil {
		s.Keeps = t.Version
	}
	if g.keepErr != nil && g.kept != g.held {
		s.KeepError = g.keepErr.Error()
	}
	return s
}
