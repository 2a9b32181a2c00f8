package crashpoints

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// What comes to a controller by itself: the commits of its watch, and what
// hosts and gateways report. Each commit and each change of a report is a point.
var (
	watchFaults  = []Fault{NotLanded, Twice, Late}
	reportFaults = []Fault{NotLanded, Swapped, Late}
)

// lostFor is for how long a lost report is not shown: its sender says the same
// again, or something newer.
const lostFor = 4 * time.Second

// wrappedWatcher delivers commits late, twice, or not at all: then it ends.
type wrappedWatcher struct {
	store.Watcher
	life  *Life
	again *store.Commit // to be delivered once more
}

func (w *wrappedWatcher) Next(ctx context.Context) (store.Commit, error) {
	if w.again != nil {
		c := *w.again
		w.again = nil
		return c, nil
	}
	c, err := w.Watcher.Next(ctx)
	if err != nil {
		return c, err
	}
	var a store.Apply
	for _, change := range c.Changes {
		a.Writes = append(a.Writes, store.Write{Key: change.Key, Delete: change.Deleted})
	}
	name := applied(a)
	if name == "" {
		return c, nil
	}
	switch f, delay := w.life.points.reach(w.life.number, "next"+strings.TrimPrefix(name, "apply"), watchFaults); f {
	case NotLanded:
		return store.Commit{}, ErrFault
	case Twice:
		w.again = &c
	case Late:
		if !w.life.points.late(delay) {
			return store.Commit{}, ErrDead
		}
	}
	return c, ctx.Err()
}

// told is what one host or gateway has reported, as it is shown.
type told[T any] struct {
	state T
	sign  string    // of state
	at    time.Time // since when state is shown although there is a newer one
	until time.Time // shown until then
}

// reports of hosts, or of gateways.
type reports[T any] struct {
	life *Life
	of   func(T) (name, sign string)
	age  func(T, time.Duration) T // as it is seen when nothing was heard for so long

	mu   sync.Mutex
	told map[string]*told[T] // :: name → report
}

// show returns what is seen of the states: each that changed is a point.
func (r *reports[T]) show(states []T) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i, s := range states {
		name, sign := r.of(s)
		t := r.told[name]
		switch {
		case t == nil:
			r.told[name] = &told[T]{state: s, sign: sign}
			continue
		case now.Before(t.until):
			states[i] = r.age(t.state, now.Sub(t.at))
			continue
		case sign == t.sign:
			t.state = s
			continue
		}
		before := *t
		t.state, t.sign = s, sign
		f, delay := r.life.points.reach(r.life.number, "report of "+name, reportFaults)
		switch f {
		case NotLanded:
			*t = told[T]{state: before.state, sign: before.sign, at: now, until: now.Add(lostFor)}
		case Late:
			*t = told[T]{state: before.state, sign: before.sign, at: now, until: now.Add(delay)}
		case Swapped: // it was shown, then the one before it
			*t = told[T]{state: before.state, sign: before.sign, at: now, until: now.Add(time.Second)}
			continue
		default:
			continue
		}
		states[i] = r.age(before.state, 0)
	}
	return states
}

func newHostReports(l *Life) *reports[service.HostState] {
	return &reports[service.HostState]{
		life: l, told: map[string]*told[service.HostState]{},
		of: func(h service.HostState) (string, string) {
			var b strings.Builder
			for _, i := range h.Instances {
				fmt.Fprintf(&b, " %s:%s:%d:%d", i.Slot, i.State, i.Round, i.Restarts)
			}
			return "host " + h.Name, b.String()
		},
		age: func(h service.HostState, d time.Duration) service.HostState {
			h.Silent = max(h.Silent, d)
			h.Instances = slices.Clone(h.Instances)
			return h
		},
	}
}

func newGatewayReports(l *Life) *reports[service.GatewayState] {
	return &reports[service.GatewayState]{
		life: l, told: map[string]*told[service.GatewayState]{},
		of: func(g service.GatewayState) (string, string) {
			return "gateway " + g.Name, fmt.Sprint(g.Serves, g.Keeps, g.Refused)
		},
		age: func(g service.GatewayState, d time.Duration) service.GatewayState {
			g.Silent = max(g.Silent, d)
			return g
		},
	}
}
