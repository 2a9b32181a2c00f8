package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// term is one term of leading: everything that ends when leading ends.
type term struct {
	c      *Control
	led    *led
	mirror *mirror
	began  time.Time
	end    context.CancelCauseFunc
	over   <-chan struct{} // closed when it ends
	wait   sync.WaitGroup

	clocks clocks
	stops  stops

	mu      sync.Mutex
	workers map[string]bool   // :: service name → has a worker
	needs   map[string]string // :: service name → what only a person can settle
	pauses  map[string]held   // :: service name → failed, and left alone for a while
	wake    chan struct{}     // holds one: something became due
	absent  map[string]time.Duration
	unknown map[string]bool // gateways that were heard at the last look, and are no members
	offered uint64          // routesAt of the newest table offered
	folded  view.Epoch
	// doubt is since when nothing is offered of what was listed, as some of it
	// differs from the catalog; zero: it was compared.
	doubt time.Time

	drifts map[string]drift // :: gateway name → as last noted; of the passes alone
	lost   map[string]bool  // :: host name → lost at the last look, of watchMembers alone
}

// lead leads until all of it is to end, or the lead is lost.
func (c *Control) lead(all context.Context, l lease) (*term, error) {
	ctx, end := context.WithCancelCause(all)
	defer end(nil)
	m := newMirror(c.cfg.DigestKey)
	t := &term{
		c: c, mirror: m, began: time.Now(), end: end, over: ctx.Done(), clocks: newClocks(),
		workers: map[string]bool{}, needs: map[string]string{}, pauses: map[string]held{},
		absent: map[string]time.Duration{}, drifts: map[string]drift{}, wake: make(chan struct{}, 1),
	}
	t.led = &led{
		store: c.cfg.Store, mirror: m, mint: c.mint, holder: c.cfg.Name, address: c.cfg.Address, lost: end,
		epoch: l.epoch, version: l.version, nonces: map[string]bool{l.epoch.Nonce: true},
	}
	watcher, err := t.list(ctx)
	if err != nil {
		return t, err
	}
	c.log.Info("leads", "epoch", l.epoch.Number, "services", len(m.all()))
	c.cfg.Turned(true)
	t.doubt = time.Now()
	t.offer()
	t.tellHosts()
	t.start(func() { t.beat(ctx, l.taken) })
	t.start(func() { t.follow(ctx, watcher) })
	t.start(func() { t.watchMembers(ctx) })
	t.start(func() { t.watchHosts(ctx) })
	t.start(func() { t.reconcile(ctx) })
	t.start(func() { c.cfg.Beside(ctx, beside{t}) })
	c.setTerm(t)
	<-ctx.Done()
	c.setTerm(nil)
	c.cfg.Turned(false)
	t.wait.Wait()
	if all.Err() != nil {
		t.release(all)
	}
	return t, context.Cause(ctx)
}

func (t *term) start(f func()) {
	t.wait.Add(1)
	go func() {
		defer t.wait.Done()
		f()
	}()
}

// list fills the mirror, and returns a watcher of what comes after.
func (t *term) list(ctx context.Context) (store.Watcher, error) {
	for {
		documents, sequence, err := t.c.cfg.Store.List(ctx, "")
		if err != nil {
			return nil, fmt.Errorf("cannot list the store: %w", err)
		}
		w, err := t.c.cfg.Store.Watch(ctx, sequence)
		if errors.Is(err, store.ErrTooOld) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot watch the store: %w", err)
		}
		t.mirror.load(documents, sequence)
		return w, nil
	}
}

// follow keeps the mirror current. A watch that fails is begun again by listing.
func (t *term) follow(ctx context.Context, w store.Watcher) {
	defer func() { w.Close() }()
	for ctx.Err() == nil {
		commit, err := w.Next(ctx)
		if err == nil {
			routes, members, hosts := t.mirror.absorb(commit)
			if hosts {
				t.mirror.markAll()
			}
			if routes {
				t.offer()
			}
			if members {
				t.tellHosts()
			}
			t.poke()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		t.c.log.Warn("the watch of the store ended and is begun again", "error", err)
		w.Close()
		w = t.listAgain(ctx)
		t.mu.Lock()
		t.doubt = time.Now()
		t.mu.Unlock()
		t.offer()
		t.tellHosts()
		t.poke()
	}
}

func (t *term) listAgain(ctx context.Context) store.Watcher {
	for ctx.Err() == nil {
		w, err := t.list(ctx)
		if err == nil {
			return w
		}
		if errors.Is(err, store.ErrFuture) || errors.Is(err, store.ErrClosed) {
			t.end(err)
		}
		pause(ctx, retryOfUnsure)
	}
	return closedWatcher{}
}

type closedWatcher struct{}

func (closedWatcher) Next(context.Context) (store.Commit, error) {
	return store.Commit{}, store.ErrClosed
}
func (closedWatcher) Close() {}

// offer folds the published routes into a table and offers it to the gateways.
// What was listed may have been edited, or be damaged, where nobody saw it: where
// it differs from the catalog nothing is offered until the passes have decided,
// for doubtFor at most, and gateways go on by the tables that they hold.
func (t *term) offer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.doubt.IsZero() && time.Since(t.doubt) < doubtFor && t.inDoubt() {
		return
	}
	t.doubt = time.Time{}
	routes, at := t.mirror.fold()
	e := t.led.Epoch()
	if at == t.offered && e == t.folded {
		return
	}
	t.offered, t.folded = at, e
	v := view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: at}
	t.c.cfg.Gateways.Offer(view.NewTable(v, e, routes))
}

// inDoubt says that the routes of some service are.
func (t *term) inDoubt() bool {
	w := t.world()
	return slices.ContainsFunc(t.mirror.all(), func(s *service.Snapshot) bool { return s.RoutesInDoubt(w) })
}

// settled offers what was in doubt, where the passes have decided.
func (t *term) settled() {
	t.mu.Lock()
	doubt := !t.doubt.IsZero()
	t.mu.Unlock()
	if doubt {
		t.offer()
	}
}

// offerAgain offers what is in force once more.
func (t *term) offerAgain() {
	t.mu.Lock()
	t.offered, t.folded = 0, view.Epoch{}
	t.mu.Unlock()
	t.offer()
}

// tellHosts names every known gateway to the hosts.
func (t *term) tellHosts() {
	t.mu.Lock() // the list that is read last is told last
	defer t.mu.Unlock()
	var list []service.Gateway
	for _, g := range t.mirror.members() {
		list = append(list, g.Value)
	}
	t.c.cfg.SetGateways(t.led.Epoch(), list)
}

func (t *term) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *term) needsOperator(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.needs[name]
}
