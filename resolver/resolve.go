package resolver

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Resolution is what is known of one service.
type Resolution struct {
	// View that is picked by; nil where endpoints come from Config.Fallback. It
	// is shared: do not change it.
	View *view.Service
	// Fallback says that there is no view, and these addresses are picked by.
	Fallback []string
	// Source is SourceDisk or SourceStream; empty for a fallback.
	Source string
	// Connected to the plane, which was heard Age ago; before it ever was, Age is
	// since the newest view was written to disk.
	Connected bool
	Age       time.Duration
	// Marked are the zones in which health is disregarded (degraded confidence).
	Marked []string
	// Objection says why View is not what the plane told; empty where it is.
	Objection string
	// Refused says why the plane gives no newer view; empty where it does.
	Refused string
	// Ejected endpoints are set aside by this caller, for what it saw itself.
	Ejected []EjectedEndpoint
}

// Resolve says what picks of a service go by. It never waits for the plane. The
// error is a [*PickError] with ErrNotSubscribed or ErrNoView.
func (r *Resolver) Resolve(service string) (Resolution, error) {
	p := (*r.pools.Load())[service]
	if p == nil {
		return Resolution{}, &PickError{service, ErrNotSubscribed}
	}
	out := Resolution{Ejected: p.ejected()}
	var standing ViewStatus
	standing, out.Age, out.Connected = r.views.standing(service)
	out.Refused = standing.Refused
	t := p.current()
	switch {
	case t == nil:
		return Resolution{}, p.refusals.noView
	case t.fallback:
		for _, m := range t.members {
			out.Fallback = append(out.Fallback, m.Address)
		}
	default:
		out.View, out.Source, out.Objection, out.Marked = t.view, standing.Source, standing.Objection, markedZones(t.view)
	}
	return out, nil
}

// Status says how a resolver stands.
type Status struct {
	// Connected to Plane, the address that is followed; Age is as in Resolution.
	Connected bool
	Plane     string
	Age       time.Duration
	// Identity is the caller's, e.g. spiffe://fairlead/caller/batch, which ends
	// at Until; both are empty where Config has TLS, or none was found yet.
	Identity string
	Until    time.Time
	// Services by name.
	Services []ServiceStatus
	// Missing are features of views that the plane relies on and this library lacks.
	Missing []string
	// RefusedViews were not taken: lower ones, and such as did not fit what is held.
	RefusedViews uint64
	// Reported and Dropped count rows of outcomes: one is of one endpoint and second.
	Reported, Dropped uint64
	// DroppedEvents were not told to Config.Observer.
	DroppedEvents uint64
	// KeepError says why views are not on disk; empty where they are.
	KeepError string
	// Panics were caught; LastPanic is the last, with its stack.
	Panics    uint64
	LastPanic string
	// Notes are what a person should know, the latest last.
	Notes []string
}

// ServiceStatus is how one service stands.
type ServiceStatus struct {
	ViewStatus
	// Endpoints in rotation; of a fallback its addresses.
	Endpoints int
	Fallback  bool
	Marked    []string
	Ejected   []EjectedEndpoint
	// Ejections counts how often an endpoint was set aside.
	Ejections uint64
}

// Status says how the resolver stands now.
func (r *Resolver) Status() Status {
	v := r.views.Status()
	s := Status{
		Connected: v.Connected, Plane: v.Control, Age: v.Age, Missing: v.Missing, RefusedViews: v.Refusals, DroppedEvents: r.untold.Load(), KeepError: v.KeepError, Notes: v.Notes,
		Reported: r.reported.Load(), Dropped: r.dropped.Load(), Panics: r.views.panics.n.Load(), LastPanic: r.views.panics.text(),
	}
	if r.identity != nil {
		s.Identity, s.Until = r.identity.ID(), r.identity.NotAfter()
	}
	pools := *r.pools.Load()
	for _, vs := range v.Views {
		if p := pools[vs.Service]; p != nil {
			s.Services = append(s.Services, p.status(vs))
		}
	}
	slices.SortFunc(s.Services, func(a, b ServiceStatus) int { return cmp.Compare(a.Service, b.Service) })
	return s
}

func (p *pool) status(v ViewStatus) ServiceStatus {
	s := ServiceStatus{ViewStatus: v, Ejected: p.ejected(), Ejections: p.ejections.Load()}
	if t := p.current(); t != nil {
		s.Endpoints, s.Fallback = len(t.members), t.fallback
		if !t.fallback {
			s.Marked = markedZones(t.view)
		}
	}
	return s
}

// Changed is closed at the next change of Status, ages and counters apart.
func (r *Resolver) Changed() <-chan struct{} { return r.views.Changed() }

// OnDisk are the services of which a view is held, subscribed to or not: what
// an earlier run was subscribed to.
func (r *Resolver) OnDisk() []string {
	var out []string
	for _, v := range r.views.Status().Views {
		if !v.Keeps.Zero() {
			out = append(out, v.Service)
		}
	}
	return out
}
