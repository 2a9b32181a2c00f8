package crashpoints

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

var (
	writeFaults   = []Fault{CrashBefore, CrashAfter, NotLanded, Landed, Unknown, Twice, Late}
	readFaults    = []Fault{CrashBefore, CrashAfter, NotLanded}
	commandFaults = []Fault{CrashBefore, CrashAfter, NotLanded, Landed, Twice, Late, Disordered}
	offerFaults   = []Fault{CrashBefore, CrashAfter, Twice, Late}
)

// call makes one call with whatever fault is planned for it. Do may be called
// more than once, and after ctx has ended.
func (l *Life) call(name string, faults []Fault, do func() error) error {
	return l.command(name, faults, do, func() {})
}

// command is call; overtaken lets what comes later pass it.
func (l *Life) command(name string, faults []Fault, do func() error, overtaken func()) error {
	if l.Dead() {
		return ErrDead
	}
	switch f, delay := l.points.reach(l.number, name, faults); f {
	case CrashBefore:
		l.Die()
		return ErrDead
	case NotLanded:
		return ErrFault
	case Late, Disordered:
		if f == Disordered {
			overtaken()
		}
		if !l.points.late(delay) {
			return ErrDead
		}
		return do()
	case Twice:
		if err := do(); err != nil {
			return err
		}
		return do()
	case CrashAfter, Landed, Unknown:
		if err := do(); err != nil {
			return err
		}
		if f == CrashAfter {
			l.Die()
			return ErrDead
		}
		if f == Unknown {
			return store.ErrUnknown
		}
		return ErrFault
	default:
		return do()
	}
}

// Store wraps a controller's store. Closing it leaves the wrapped one open.
func (l *Life) Store(s store.Store) store.Store { return &wrappedStore{s, l} }

type wrappedStore struct {
	store.Store
	life *Life
}

// Apply is a point where it writes for a service; memberships and the lead are not.
func (w *wrappedStore) Apply(ctx context.Context, a store.Apply) (res store.Result, err error) {
	name := w.life.points.names(a)
	do := func() error {
		if w.life.Dead() {
			return ErrDead
		}
		res, err = w.Store.Apply(ctx, a)
		return err
	}
	if name == "" {
		err = do()
		return res, err
	}
	err = w.life.call(name, writeFaults, do)
	return res, err
}

// applied names an Apply by what it writes; empty when that is no service's.
func applied(a store.Apply) string {
	var what []string
	for _, w := range a.Writes {
		switch w.Kind {
		case service.KindGateway, service.KindHost, service.KindLeader:
			continue
		case service.KindEvent:
			if !w.Delete {
				continue
			}
		}
		name := w.Kind + " " + normal(w.Name)
		if w.Kind == service.KindTransition { // named by tick and handle
			name, _, _ = strings.Cut(name, ".")
		}
		if w.Delete {
			name = "-" + name
		}
		if !slices.Contains(what, name) {
			what = append(what, name)
		}
	}
	if len(what) == 0 {
		return ""
	}
	slices.Sort(what)
	return "apply " + strings.Join(what[:min(len(what), 4)], "+")
}

func (w *wrappedStore) Get(ctx context.Context, k store.Key) (d store.Document, err error) {
	do := func() error {
		d, err = w.Store.Get(ctx, k)
		return err
	}
	if k.Kind == service.KindLeader {
		err = do()
		return d, err
	}
	err = w.life.call("get "+k.Kind+" "+normal(k.Name), readFaults, do)
	return d, err
}

func (w *wrappedStore) List(ctx context.Context, kind string) (list []store.Document, sequence uint64, err error) {
	err = w.life.call("list "+kind, readFaults, func() error {
		list, sequence, err = w.Store.List(ctx, kind)
		return err
	})
	return list, sequence, err
}

func (w *wrappedStore) Watch(ctx context.Context, from uint64) (out store.Watcher, err error) {
	err = w.life.call("watch", readFaults, func() error {
		out, err = w.Store.Watch(ctx, from)
		return err
	})
	if err == nil && w.life.reports {
		out = &wrappedWatcher{Watcher: out, life: w.life}
	}
	return out, err
}

func (w *wrappedStore) Close() error { return nil }

// Hosts wraps a controller's hosts.
func (l *Life) Hosts(h control.Hosts) control.Hosts {
	return &wrappedHosts{h, l, newHostReports(l)}
}

type wrappedHosts struct {
	control.Hosts
	life    *Life
	reports *reports[service.HostState]
}

func (w *wrappedHosts) States() []service.HostState {
	if !w.life.reports {
		return w.Hosts.States()
	}
	return w.reports.show(w.Hosts.States())
}

// command is one that, when late, takes effect although its caller has given up.
func (w *wrappedHosts) command(ctx context.Context, name, slot string, do func(context.Context) error) error {
	answer := make(chan error, 1)
	before, made := w.life.turn(slot)
	go func() {
		defer made()
		if before != nil {
			<-before
		}
		answer <- w.life.command(name, commandFaults, func() error { return do(context.WithoutCancel(ctx)) }, made)
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *wrappedHosts) Prepare(ctx context.Context, e view.Epoch, host, revision string, t service.Template) error {
	return w.command(ctx, "prepare "+revision+" on "+host, revision+" on "+host, func(ctx context.Context) error {
		return w.Hosts.Prepare(ctx, e, host, revision, t)
	})
}

func (w *wrappedHosts) Assign(ctx context.Context, e view.Epoch, host string, a service.Assignment) error {
	return w.command(ctx, "assign "+a.Slot, a.Slot, func(ctx context.Context) error { return w.Hosts.Assign(ctx, e, host, a) })
}

func (w *wrappedHosts) Stop(ctx context.Context, e view.Epoch, host string, s service.Stop) error {
	return w.command(ctx, "stop "+s.Slot, s.Slot, func(ctx context.Context) error { return w.Hosts.Stop(ctx, e, host, s) })
}

func (w *wrappedHosts) Release(ctx context.Context, e view.Epoch, host string, r service.Release) error {
	return w.command(ctx, "release "+host, host, func(ctx context.Context) error { return w.Hosts.Release(ctx, e, host, r) })
}

// Gateways wraps a controller's gateways.
func (l *Life) Gateways(g control.Gateways) control.Gateways {
	return &wrappedGateways{g, l, newGatewayReports(l)}
}

type wrappedGateways struct {
	control.Gateways
	life    *Life
	reports *reports[service.GatewayState]
}

func (w *wrappedGateways) States() []service.GatewayState {
	if !w.life.reports {
		return w.Gateways.States()
	}
	return w.reports.show(w.Gateways.States())
}

// Offer does not wait: one that is late comes from elsewhere.
func (w *wrappedGateways) Offer(t *view.Table) {
	if w.life.Dead() {
		return
	}
	f, delay := w.life.points.reach(w.life.number, "offer", offerFaults)
	switch f {
	case CrashBefore:
		w.life.Die()
	case CrashAfter:
		w.Gateways.Offer(t)
		w.life.Die()
	case Twice:
		w.Gateways.Offer(t)
		w.Gateways.Offer(t)
	case Late:
		time.AfterFunc(delay, func() {
			if !w.life.Dead() {
				w.Gateways.Offer(t)
			}
		})
	default:
		w.Gateways.Offer(t)
	}
}
