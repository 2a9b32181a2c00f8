package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// held is a service left alone after a failure that no saga's record speaks of.
type held struct {
	until   time.Time
	pause   time.Duration
	desired uint64 // version of the desired document then: another one ends the pause
	failure string // reported at the end of each pass; empty for a mere pause
}

// reconcile runs passes: over what has changed at once, over everything every
// few seconds.
func (t *term) reconcile(ctx context.Context) {
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	t.pass(ctx, t.mirror.all())
	for {
		// One of: something changed, the time for a whole pass came, the term ended.
		select {
		case <-t.wake:
			t.pass(ctx, t.mirror.takeDirty())
		case <-tick.C:
			t.forget()
			t.repairDrift(ctx)
			t.pass(ctx, t.everything())
			t.settled()
			t.report()
		case <-ctx.Done():
			return
		}
	}
}

// pass plans each service that no worker has, and starts a worker where there
// is work. What fails for one service is kept for the report, and delays no other.
func (t *term) pass(ctx context.Context, services []*service.Snapshot) {
	if len(services) == 0 {
		return
	}
	began := time.Now()
	w := t.world()
	for _, s := range services {
		if !t.free(s) {
			continue
		}
		if work := t.plan(s, w); work.Kind != service.WorkNone {
			t.work(ctx, s.Service)
		}
	}
	t.c.metrics.passed(time.Since(began), len(services))
}

// everything is each service of the store, and each of which a host runs something.
func (t *term) everything() []*service.Snapshot {
	list := t.mirror.all()
	known := make(map[string]bool, len(list)) // :: service name → in the list
	for _, s := range list {
		known[s.Service] = true
	}
	for _, h := range t.c.cfg.Hosts.States() {
		for _, i := range h.Instances {
			if !known[i.Service] {
				known[i.Service] = true
				list = append(list, t.mirror.snapshot(i.Service))
			}
		}
	}
	return list
}

// free says that no worker has the service, and that it is not left alone.
func (t *term) free(s *service.Snapshot) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.workers[s.Service] {
		return false
	}
	p, ok := t.pauses[s.Service]
	return !ok || !time.Now().Before(p.until) || p.desired != s.Desired.Version
}

// plan decides what is next for a service, and notes what needs a person.
func (t *term) plan(s *service.Snapshot, w *service.World) service.Work {
	t.clocks.see(s)
	work := service.Plan(s, w)
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.needs[s.Service]; old != work.NeedsOperator {
		if work.NeedsOperator == "" {
			delete(t.needs, s.Service)
		} else {
			t.needs[s.Service] = work.NeedsOperator
			t.c.log.Error("needs an operator", "service", s.Service, "what", work.NeedsOperator)
		}
	}
	return work
}

// work starts the service's one worker.
func (t *term) work(ctx context.Context, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.workers[name] || ctx.Err() != nil {
		return
	}
	t.workers[name] = true
	t.c.metrics.workers.Inc()
	t.start(func() {
		seen := t.attend(ctx, name)
		t.c.metrics.workers.Dec()
		t.mu.Lock()
		delete(t.workers, name)
		t.mu.Unlock()
		if s := t.mirror.snapshot(name); s != seen { // it changed since the worker's last look
			t.mirror.mark(name)
			t.poke()
		}
	})
}

// attend does the service's work until there is none, or until some fails. It
// returns the snapshot that it looked at last.
func (t *term) attend(ctx context.Context, name string) *service.Snapshot {
	var last service.Work
	for {
		s := t.mirror.snapshot(name)
		work := t.plan(s, t.world())
		if work.Kind == service.WorkNone || ctx.Err() != nil {
			t.resolve(name)
			return s
		}
		if same(work, last) {
			t.pause(s, "")
			return s
		}
		last = work
		if err := t.do(ctx, s, work); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errDeposed) {
				t.pause(t.mirror.snapshot(name), fmt.Sprintf("%s: %v", work.Kind, err))
				t.c.log.Warn("work failed", "service", name, "work", work.Kind, "error", err)
			}
			return s
		}
	}
}

// same says that what was just done is to be done again: it is left to a later pass.
func same(a, b service.Work) bool {
	return a.Kind == b.Kind && a.Saga.ID == b.Saga.ID && a.Revision == b.Revision && a.Version == b.Version
}

func (t *term) pause(s *service.Snapshot, failure string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pauses[s.Service]
	p.pause = min(max(2*p.pause, firstPause), longestPause)
	if failure == "" {
		p.pause = firstPause
	}
	p.until, p.desired, p.failure = time.Now().Add(p.pause), s.Desired.Version, failure
	t.pauses[s.Service] = p
}

func (t *term) resolve(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pauses, name)
}

// report says, at the end of a pass, what failed.
func (t *term) report() {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures := 0
	for name, p := range t.pauses {
		if p.failure != "" {
			failures++
			t.c.log.Warn("a service could not be brought to what is wanted", "service", name, "error", p.failure, "again", max(time.Until(p.until), 0).Round(time.Second))
		}
	}
	t.c.metrics.failing(failures, len(t.needs))
}

// forget drops what is known of services, revisions and sagas that are gone.
func (t *term) forget() {
	t.clocks.forget(
		func(revision string) bool {
			return t.mirror.snapshot(ownerOf(key(service.KindRevision, revision))).Revision(revision).Exists()
		},
		func(id string) bool { return t.mirror.snapshot(saga.OwnerOf(id)).Saga(id).Exists() },
	)
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.needs {
		if t.mirror.snapshot(name).Empty() {
			delete(t.needs, name)
		}
	}
	for name := range t.pauses {
		if t.mirror.snapshot(name).Empty() {
			delete(t.pauses, name)
		}
	}
}
