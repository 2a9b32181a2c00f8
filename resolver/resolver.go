package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/credential"
)

// Resolver picks instances of services by the views that it holds, whatever
// happens to the plane that it has them from. It is safe for concurrent use.
// Nothing of it panics in its host's process, and nothing but Open, Await and
// Close waits.
type Resolver struct {
	cfg      Config
	identity *credential.Folder // nil: the user has his own means
	views    *Views
	began    time.Time
	stir     chan struct{} // endpoints were set aside
	batches  chan *pb.ReportOutcomesRequest
	events   chan Event
	cancel   context.CancelFunc
	running  sync.WaitGroup

	calls    callCount
	dropped  atomic.Uint64 // rows of outcomes
	reported atomic.Uint64
	untold   atomic.Uint64 // events

	mu    sync.Mutex                       // whoever changes pools
	pools atomic.Pointer[map[string]*pool] // :: service → its; immutable
}

// slowestReturn bounds the back-off between two connections to the plane.
const slowestReturn = 5 * time.Second

// Open loads what is on disk, and begins to follow the plane. It picks by what
// was on disk from the beginning, whether or not the plane answers. The error
// wraps ErrConfig: that the plane is away, or a file damaged, is none. Ctx bounds
// Open alone; Close ends the resolver.
func Open(ctx context.Context, cfg Config) (*Resolver, error) {
	cfg.fill()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("cannot open a resolver: %w", err)
	}
	views, folder, err := identify(&cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot open a resolver: %w", err)
	}
	return open(ctx, cfg, views, folder)
}

// open is Open, of what is filled and checked.
func open(ctx context.Context, cfg Config, views ViewsConfig, folder *credential.Folder) (*Resolver, error) {
	views.Library, views.Folder, views.Controls = library(), filepath.Join(cfg.StateDir, "fairlead", "views"), cfg.Plane
	views.Relays = RelaysFirst
	views.Log, views.slowest = cfg.Log, cmp.Or(views.slowest, slowestReturn)
	r := &Resolver{
		cfg: cfg, identity: folder, began: time.Now(), stir: make(chan struct{}, 1),
		batches: make(chan *pb.ReportOutcomesRequest, batchesHeld), events: make(chan Event, eventsHeld),
	}
	r.pools.Store(&map[string]*pool{})
	views.Calls = r.calls.since
	views.beside, views.event = r.report, r.event
	var err error
	if r.views, err = OpenViews(views); err != nil {
		return nil, fmt.Errorf("cannot open a resolver: %w", err)
	}
	if err := r.subscribe(cfg.Services); err != nil {
		return nil, fmt.Errorf("cannot open a resolver: %w", err)
	}
	r.start()
	r.awaitFirst(ctx)
	return r, nil
}

// library says by which version of this package a caller picks.
func library() string {
	const path = "github.com/fairlead-platform/fairlead"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == path && m.Version != "" {
				return "resolver-go " + m.Version
			}
		}
	}
	return "resolver-go"
}

// start runs what runs until Close.
func (r *Resolver) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	panics := &r.views.panics
	r.views.listen(r.see)
	r.running.Go(func() { panics.catch("loading views", r.views.tellAll) }) // but for those that are asked for before
	r.running.Go(func() { panics.again(ctx, "following the plane", func() { _ = r.views.Run(ctx) }) })
	r.running.Go(func() { panics.again(ctx, "telling the observer", func() { r.observe(ctx) }) })
	r.running.Go(func() { panics.again(ctx, "keeping time", func() { r.keepTime(ctx) }) })
	if r.identity != nil {
		r.running.Go(func() {
			panics.again(ctx, "renewing the identity", func() { r.identity.Run(ctx, renewal(r.cfg.Plane, r.views.cfg.Dial), r.notRenewed) })
		})
	}
}

func (r *Resolver) notRenewed(err error) { r.views.note("the identity is not renewed: " + err.Error()) }

// Close ends the resolver and waits until what is held is on disk. Picks go on
// by what is held; outcomes are reported no more.
func (r *Resolver) Close() error {
	r.cancel()
	r.running.Wait()
	return nil
}

// Subscribe has the views of more services held, from now on and on disk. One
// whose view is on disk is picked by at once. The error names a limit.
func (r *Resolver) Subscribe(services ...string) error {
	if err := r.subscribe(services); err != nil {
		return err
	}
	for _, s := range services {
		r.views.deliver(s)
	}
	return nil
}

func (r *Resolver) subscribe(services []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := maps.Clone(*r.pools.Load())
	for _, s := range services {
		if s == "" {
			return errors.New("cannot subscribe to a service without a name")
		}
		if next[s] == nil {
			next[s] = r.newPool(s)
		}
	}
	if len(next) > MostServices {
		return fmt.Errorf("cannot subscribe to %d services: %d may be", len(next), MostServices)
	}
	r.pools.Store(&next)
	r.views.Add(services...)
	return nil
}

// newPool picks by what is on disk from its first pick on.
func (r *Resolver) newPool(service string) *pool {
	p := newPool(service, &r.cfg, r.clock, r.stirred, r.event)
	p.calls = &r.calls
	if !r.views.has(service) {
		return p
	}
	p.ask = func() {
		r.views.panics.catch("loading "+service, func() { p.takeFirst(r.views.View(service)) })
	}
	if p.cold.Store(true); p.table.Load() != nil { // what is on disk goes before a fallback
		p.first()
	}
	return p
}

// Unsubscribe has the views of services held no more; they are removed from
// disk too.
func (r *Resolver) Unsubscribe(services ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := maps.Clone(*r.pools.Load())
	for _, s := range services {
		delete(next, s)
	}
	r.pools.Store(&next)
	r.views.Drop(services...)
}

// Await waits until a view of each of the services is held, or ctx ends, whose
// error it then gives. One that the plane refuses has none: see Status.
func (r *Resolver) Await(ctx context.Context, services ...string) error {
	for {
		changed := r.views.Changed()
		missing := slices.DeleteFunc(slices.Clone(services), r.holds)
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("cannot wait longer for the views of %v: %w", missing, ctx.Err())
		}
	}
}

func (r *Resolver) holds(service string) bool {
	p := (*r.pools.Load())[service]
	if p == nil {
		return false
	}
	t := p.current()
	return t != nil && !t.fallback
}

// awaitFirst waits a moment for views of which there is nothing at all.
func (r *Resolver) awaitFirst(ctx context.Context) {
	if r.cfg.FirstView < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.FirstView)
	defer cancel()
	pools := *r.pools.Load()
	bare := slices.DeleteFunc(slices.Clone(r.cfg.Services), func(s string) bool { return pools[s].table.Load() != nil || r.views.has(s) })
	if err := r.Await(ctx, bare...); err != nil {
		r.cfg.Log.Info("no view came yet", "services", bare)
	}
}
