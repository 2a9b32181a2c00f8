// Package discovery runs the discovery plane while its control leads: once a
// second it takes in what hosts and callers say of every instance, folds it
// into verdicts, records each change of one, and makes the views. Read [Plane]
// first, then second.go.
//
// Callers and gateways pick by its views, and deployments wait for its verdicts.
// It has no sockets: what comes in is handed to it, and what it computes is
// asked of it.
package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// Hosts tells what runs, by the word of those who run it.
type Hosts interface {
	// States is every host since the leader started, with its instances.
	States() []service.HostState
	// Changed is closed at the next change of States.
	Changed() <-chan struct{}
}

// Lead is a term of leading. Its methods may be called by several at once.
type Lead interface {
	Epoch() view.Epoch
	// Commit writes in one, bound to the epoch. Without writes it asks whether
	// this control leads still.
	Commit(ctx context.Context, writes []store.Write) error
	// Routes that are published, and the sequence of the last change of any.
	Routes() ([]view.Route, uint64)
	// RoutesChanged is closed at the next change of any of them; nil is never.
	RoutesChanged() <-chan struct{}
	// Sequence of the store that has been seen.
	Sequence() uint64
	// Knows says whether any record of the service is left.
	Knows(service string) bool
	// Lives says that the service is wanted: it is there, and not being deleted.
	Lives(service string) bool
	// Leaving are slots of the service that are to stop, by record: an order to may
	// be on its way.
	Leaving(service string) []string
	// Retired says that a person ended the host's membership.
	Retired(host string) bool
	// ReadyPath is the path at which the revision says that it is ready; empty
	// is none.
	ReadyPath(service, revision string) string
}

// Publisher takes what is published, in order. Its methods do not wait for who
// follows.
type Publisher interface {
	// Begin says that views come under an epoch from now on.
	Begin(view.Epoch)
	// Publish hands over a service's view, which does not change afterwards.
	// Those that take traffic from trouble go first.
	Publish(v *view.Service, nature view.Nature)
	// Forget says that a service is no more.
	Forget(service string)
	// MayPick are the callers who may still pick one of the instances by the views
	// that they hold.
	MayPick(service string, instances []string) routing.Pickers
	// Load is what there was to send since it was asked last.
	Load() budget.Load
	// Shed says for how long what takes no traffic from trouble waits now, and
	// why; zero: no longer than it should.
	Shed(window time.Duration, why string)
	// Missed says of which services callers did not acknowledge withdrawals as
	// soon as is promised, and who is behind: :: service → words.
	Missed() map[string]string
	// End says that no views come any more.
	End()
}

// nobody follows.
type nobody struct{}

func (nobody) Begin(view.Epoch)                         {}
func (nobody) Publish(*view.Service, view.Nature)       {}
func (nobody) Forget(string)                            {}
func (nobody) Load() budget.Load                        { return budget.Load{} }
func (nobody) Shed(time.Duration, string)               {}
func (nobody) MayPick(string, []string) routing.Pickers { return routing.Pickers{} }
func (nobody) Missed() map[string]string                { return nil }
func (nobody) End()                                     {}

// Config of a Plane. Store, Bucket and Hosts are required.
type Config struct {
	Store  store.Store
	Bucket bucket.Bucket
	Hosts  Hosts
	// Views takes what is published; nil means that nobody follows.
	Views Publisher
	// Now numbers the first tick of an installation, and dates what people
	// read; nil means time.Now. Nothing else is decided by it.
	Now func() time.Time
	// Logger; nil discards.
	Logger *slog.Logger
	// Metrics registry; nil registers nowhere.
	Metrics *prometheus.Registry
}

// Plane is the discovery plane of one control. It holds something only while
// that leads. Its methods may be called by several at once.
type Plane struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	term    *term         // nil while another leads, and until it is rebuilt
	changed chan struct{} // closed at the next change of a verdict

	detected *prometheus.HistogramVec // nil measures nothing
}

// New makes a Plane that does nothing until it is run.
func New(cfg Config) *Plane {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Views == nil {
		cfg.Views = nobody{}
	}
	p := &Plane{cfg: cfg, log: cfg.Logger, changed: make(chan struct{})}
	if cfg.Metrics != nil {
		p.detected = newDetection(cfg.Metrics)
		cfg.Metrics.MustRegister(newProberCollector(p), newCollector(p), newRuntimeCollector(p))
	}
	return p
}

// DefaultContract is the contract of a service that declares none.
func DefaultContract() eligibility.Contract { return eligibility.Default() }

// Run observes for one term of leading, until ctx ends.
func (p *Plane) Run(ctx context.Context, l Lead) {
	t := p.begin(ctx, l)
	if t == nil {
		return // ended before it began
	}
	p.set(t)
	defer p.set(nil)
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { t.records.run(ctx) })
	beside.Go(func() { t.keep(ctx) })
	beside.Go(func() { t.assigning(ctx) })
	defer t.endProbers()
	beside.Go(func() { t.outbox(ctx) })
	defer p.cfg.Views.End()
	t.run(ctx)
}

// window is how long what happens between two seconds is gathered, and
// routeWindow how far apart routes are followed: one commit holds all that a
// service's routes turn to, and a deploy waits for its view.
const (
	window      = 50 * time.Millisecond
	routeWindow = 10 * time.Millisecond
)

func (t *term) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	changed, rerouted := t.p.cfg.Hosts.Changed(), t.lead.RoutesChanged()
	var gathered <-chan time.Time // nil: nothing happened
	var looked time.Time          // when what happened between two seconds was published last
	gather := func() {
		if gathered == nil {
			gathered = time.After(window)
		}
	}
	for {
		select { // the end of the term, or of a second, or something between two
		case <-ctx.Done():
			return
		case <-tick.C:
			t.second(ctx)
		case <-changed:
			changed = t.p.cfg.Hosts.Changed()
			gather()
		case <-rerouted:
			rerouted = t.lead.RoutesChanged()
			gathered = time.After(routeWindow - min(routeWindow, time.Since(looked)))
		case <-t.hurried:
			gather()
		case <-gathered:
			gathered = nil
			t.between(ctx)
			looked = time.Now()
		}
	}
}

// hurry has what is urgent published within the window.
func (t *term) hurry() {
	select {
	case t.hurried <- struct{}{}:
	default: // it is on its way
	}
}

func (p *Plane) set(t *term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term = t
	p.move()
}

func (p *Plane) current() *term {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.term
}

// Standing is one instance as a person asks for it.
type Standing struct {
	evaluate.Standing
	// At is when its verdict or rule changed last; zero where it never did.
	At time.Time
	// Said is what it says of its dependencies, one line each, with what that
	// counts for.
	Said []string
	// Served is its weight in the view, in thousandths; 0 where it is not in it.
	Served int
}

// Standings are a service's instances, by identity. False says that nothing is
// known: this control does not lead, or has only just begun to.
func (p *Plane) Standings(name string) ([]Standing, bool) {
	t := p.current()
	if t == nil {
		return nil, false
	}
	t.mu.Lock()
	all, published := t.eval.Standings(name), t.eval.View(name)
	said := t.said(name)
	for i := range all {
		all[i].Account.Classes = t.tellProbes(all[i].ID, name, all[i].Account.Classes)
	}
	t.mu.Unlock()
	out := make([]Standing, len(all))
	for i, s := range all {
		out[i] = Standing{Standing: s, At: t.records.at(name, s.ID), Said: said[s.ID]}
		if published == nil {
			continue
		}
		if e, in := published.Endpoint(s.ID); in {
			out[i].Served = e.Weight
		}
	}
	tellTogether(out, published)
	return out, true
}

// tellTogether says of instances that have more than the ramp leaves them why
// that is: where nobody is past it, each has its whole weight.
func tellTogether(all []Standing, published *view.Service) {
	if published == nil {
		return
	}
	of := map[string]int{} // :: revision → in rotation
	for _, s := range all {
		if s.Served > 0 {
			of[s.Revision]++
		}
	}
	for i := range all {
		s := &all[i]
		ramp, ramps := strings.CutPrefix(s.Account.Next, "time: ")
		if !ramps || s.Served <= max(s.Weight*s.Ramp/view.FullWeight, 1) {
			continue
		}
		why := fmt.Sprintf("all %d are new together", of[s.Revision])
		if slices.ContainsFunc(published.Marks, func(m view.ZoneMark) bool { return m.DegradedConfidence && m.Zone == s.Zone }) {
			why = "health is disregarded in its zone"
		}
		s.Account.Next = fmt.Sprintf("time: whole weight meanwhile, since %s (by the ramp alone %s)", why, ramp)
	}
}

// View is what is published of a service; nil is nothing yet.
func (p *Plane) View(name string) *view.Service {
	t := p.current()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.eval.View(name)
}
