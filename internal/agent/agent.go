// Package agent is a resolver as a daemon, for programs of any language: it
// holds views, picks by them and takes in what became of requests, by a local
// API on a UNIX socket and on a loopback port. Who asks is known by the user of
// its process or by a token, and is refused what a service's policy forbids. It
// never waits for the plane but where it is asked to, and knows no other rule of
// picking than package resolver's. Read [Config] first, then [Agent.Handler].
package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/may"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/resolver"
)

// Config of an agent. Resolver, Role and Name are required.
type Config struct {
	Resolver *resolver.Resolver
	// Role and Name are those of the agent's identity.
	Role, Name string
	// Identity says it in full; nil says nothing.
	Identity func() string
	// Workloads are known by the user of their process; nil takes every local
	// user for a workload uid-N. :: user id → workload
	Workloads map[uint32]string
	// Tokens of the loopback port. :: token → workload
	Tokens map[string]string
	// AtOnce is how many requests of one workload are answered at a time; more are
	// refused. Zero means 256.
	AtOnce int
	// Metrics registry; nil registers nowhere.
	Metrics *prometheus.Registry
	// Now must be monotonic; nil means time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

const (
	// mostWait is for how long a request may ask to wait for a first view.
	mostWait = time.Second
	// mostBare services are subscribed to of which there is no view yet: names
	// that nobody serves do not pile up.
	mostBare = 200
)

// Agent serves the local API.
type Agent struct {
	cfg     Config
	picks   *picks
	metrics metrics
	bound   bound

	mu      sync.Mutex
	wanted  map[string]bool // :: service → subscribed to
	bare    []string        // of these those without a view, the oldest first
	refused uint64
}

// New makes an agent. It subscribes to what an earlier run had views of.
func New(cfg Config) (*Agent, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Identity == nil {
		cfg.Identity = func() string { return "" }
	}
	a := &Agent{cfg: cfg, wanted: map[string]bool{}, bound: bound{most: cmp.Or(cfg.AtOnce, defaultAtOnce), at: map[string]int{}}}
	a.picks = newPicks(cfg.Now)
	a.metrics = newMetrics(a, cfg.Metrics)
	before := cfg.Resolver.OnDisk()
	for _, s := range before {
		a.wanted[s] = true
	}
	return a, cfg.Resolver.Subscribe(before...)
}

// Run gives up picks that nobody tells the end of, until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select { // a second is over, or the end
		case <-tick.C:
			a.picks.expire()
		case <-ctx.Done():
			a.picks.giveUp()
			return nil
		}
	}
}

// want subscribes to a service that is asked for the first time.
func (a *Agent) want(name string) error {
	if err := service.CheckServiceName(name); err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted[name] {
		return nil
	}
	if err := a.cfg.Resolver.Subscribe(name); err != nil {
		return fault.New(fault.Exhausted, "", "cannot hold another view: %w", err)
	}
	a.wanted[name] = true
	a.bare = append(a.bare, name)
	if len(a.bare) > mostBare {
		a.forgetLocked()
	}
	return nil
}

// forgetLocked drops the oldest that never got a view.
func (a *Agent) forgetLocked() {
	bare := a.bare[:0]
	for _, name := range a.bare {
		if _, err := a.cfg.Resolver.Resolve(name); errors.Is(err, resolver.ErrNoView) {
			bare = append(bare, name)
		}
	}
	for ; len(bare) > mostBare; bare = bare[1:] {
		delete(a.wanted, bare[0])
		a.cfg.Resolver.Unsubscribe(bare[0])
	}
	a.bare = bare
}

// resolve is the view of a service for a workload; wait is for how long a first
// one is waited for, zero not at all.
func (a *Agent) resolve(ctx context.Context, workload, name string, wait time.Duration) (resolver.Resolution, error) {
	if err := a.want(name); err != nil {
		return resolver.Resolution{}, err
	}
	r, err := a.cfg.Resolver.Resolve(name)
	if err != nil && wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, min(wait, mostWait))
		_ = a.cfg.Resolver.Await(ctx, name) // what came is seen below
		cancel()
		r, err = a.cfg.Resolver.Resolve(name)
	}
	if err != nil {
		return r, a.viewless(name, err)
	}
	switch {
	case r.Refused != "":
		err = a.barred(name, r.Refused)
	case r.View != nil:
		err = a.may(workload, name, r.View.Callers)
	}
	return r, err
}

// barred: the plane gives no newer view. What is held is of before its policy
// was changed.
func (a *Agent) barred(name, why string) error {
	a.mu.Lock()
	a.refused++
	a.mu.Unlock()
	return fault.New(fault.Forbidden, "", "the plane gives this agent no view of %s: %s", name, why)
}

// may asks the one check, and counts what it refuses.
func (a *Agent) may(workload, name string, allowed []string) error {
	err := may.Check(may.Caller{Role: a.cfg.Role, Name: a.cfg.Name, Workload: workload}, name, allowed)
	if err == nil {
		return nil
	}
	a.mu.Lock()
	a.refused++
	a.mu.Unlock()
	return fault.Wrap(fault.Forbidden, "", err)
}

// viewless says why there is no view.
func (a *Agent) viewless(name string, err error) error {
	s := a.cfg.Resolver.Status()
	for _, v := range s.Services {
		if v.Service == name && v.Refused != "" {
			return a.barred(name, v.Refused)
		}
	}
	if !s.Connected {
		return fault.New(fault.Unavailable, "ask again; `fairlead resolve "+name+"` asks control itself", "no view of %s is held, and the plane is not heard: %w", name, err)
	}
	return fault.New(fault.Unavailable, "ask again, or with wait: the first view comes within moments where there is such a service", "no view of %s is held yet: %w", name, err)
}
