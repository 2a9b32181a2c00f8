package crashpoints_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/view"
)

// callers pick the service's instances by the views that discovery planes
// publish, whichever is heard, and hold them over the deaths of controllers.
// One has a view at once, the other after a while. Operations that are not
// judged have no discovery plane, and no callers.
type callers struct {
	*gatewaytest.Caller // hears what hosts say to gateways
	w                   *world

	mu    sync.Mutex
	began time.Time
	all   []*picker
	asked map[string]time.Time // :: instance → since when a stop waits for a view without it
}

type picker struct {
	name  string
	after time.Duration // it takes a view so long after its publication
	held  *view.HeldService
}

func newCallers(w *world) *callers {
	return &callers{Caller: w.caller, w: w, began: time.Now(), asked: map[string]time.Time{}, all: []*picker{{name: "quick", after: 100 * time.Millisecond}, {name: "slow", after: 3 * time.Second}}}
}

// Withdrawn looks whether a caller may pick what its host ends, or is told to end.
// Where no view can be published, a stop waits for a while and no longer.
func (c *callers) Withdrawn(instance string) {
	c.Caller.Withdrawn(instance)
	c.mu.Lock()
	defer c.mu.Unlock()
	if since, waits := c.asked[instance]; waits && time.Since(since) >= routing.Grace {
		return
	}
	for _, p := range c.all {
		if p.held == nil {
			continue
		}
		if e, _ := p.held.Told().Endpoint(instance); e.In() {
			fmt.Fprintf(&c.w.broken, "at %s: instance %s is withdrawn, and caller %s may pick it by the view %s\n", time.Now().Format(time.StampMilli), instance, p.name, p.held.Told().Version)
		}
	}
}

// take has a caller hold a view, where it holds no newer one.
func (c *callers) take(p *picker, v *view.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next, err := p.held.Take(v.ChangeFrom(nil), time.Since(c.began)); err == nil {
		p.held = next
	}
}

// asking notes since when a stop waits for what no view tells yet.
type asking struct {
	*discovery.Plane
	c *callers
}

func (a asking) MayPick(service string, instances []string) routing.Pickers {
	p := a.Plane.MayPick(service, instances)
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	for _, id := range instances {
		if _, waits := a.c.asked[id]; p.Why == "" {
			delete(a.c.asked, id)
		} else if !waits {
			a.c.asked[id] = time.Now()
		}
	}
	return p
}

// publisher is the way from one controller's plane to the callers, who come to
// it a moment after it began.
type publisher struct {
	c      *callers
	began  time.Time
	recent []routing.Published // the newest is last
	over   bool
}

var _ discovery.Publisher = (*publisher)(nil)

// comeWithin is when the last caller has come to another plane.
const comeWithin = 2 * time.Second

func (b *publisher) Begin(view.Epoch) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.began.IsZero() {
		b.began = time.Now()
	}
}

func (b *publisher) Publish(v *view.Service, _ view.Nature) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.over || v.Name != name {
		return
	}
	b.recent = append(b.recent, routing.Published{View: v, At: time.Since(b.c.began)})
	for _, p := range b.c.all {
		time.AfterFunc(max(p.after, comeWithin-time.Since(b.began)), func() { b.c.take(p, v) })
	}
}

func (b *publisher) MayPick(_ string, instances []string) (out routing.Pickers) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	newestFirst := func(yield func(routing.Published) bool) {
		for _, r := range slices.Backward(b.recent) {
			if !yield(r) {
				return
			}
		}
	}
	since, is := routing.Without(newestFirst, instances)
	switch left := since.At + routing.Grace - time.Since(b.c.began); {
	case time.Since(b.began) < comeWithin:
		out.Why = "callers that have not come back"
	case len(b.recent) == 0 && b.c.all[0].held != nil:
		out.Why = "callers, who hold a view from before any that is published yet"
	case len(b.recent) == 0:
	case !is:
		out.Why = "the view, which names it still"
	case left <= 0:
	default:
		out.For = left
		for _, p := range b.c.all {
			if told := p.held.Told(); told == nil || told.Version.Against(since.View.Version) == view.Older {
				out.Add(1, func() string { return p.name })
			}
		}
	}
	return out
}

func (b *publisher) End() {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.over = true
}

func (b *publisher) Forget(string) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.recent = nil
}

func (b *publisher) Load() budget.Load          { return budget.Load{} }
func (b *publisher) Shed(time.Duration, string) {}
func (b *publisher) Missed() map[string]string  { return nil }
