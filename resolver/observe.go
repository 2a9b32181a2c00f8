package resolver

import (
	"context"

	"github.com/fairlead-platform/fairlead/view"
)

// EventKind says what happened.
type EventKind string

const (
	// Connected and Disconnected are about the plane at the address Event.Plane.
	Connected    EventKind = "connected"
	Disconnected EventKind = "disconnected"
	// ViewTaken: a view of a service came into force.
	ViewTaken EventKind = "view taken"
	// ViewRefused: one was not taken, for Why; what was held stands.
	ViewRefused EventKind = "view refused"
	// ViewGuarded: one came into force, and a guard keeps what it would have taken
	// away without an explanation.
	ViewGuarded EventKind = "view guarded"
	// SubscriptionRefused: the plane gives no views of a service, for Why.
	SubscriptionRefused EventKind = "subscription refused"
	// EndpointEjected and EndpointReturned: this caller set an endpoint aside by
	// what it saw, and took it back.
	EndpointEjected  EventKind = "endpoint ejected"
	EndpointReturned EventKind = "endpoint returned"
	// OutcomesDropped: Count rows of outcomes reach nobody.
	OutcomesDropped EventKind = "outcomes dropped"
)

// Event is something that happened. Fields that do not belong to its kind are
// zero.
type Event struct {
	Kind              EventKind
	Service, Instance string
	Version           view.Version
	Plane             string
	Why               string
	Count             int
}

// eventsHeld wait for an observer; more are dropped.
const eventsHeld = 256

// event never waits.
func (r *Resolver) event(e Event) {
	if r.cfg.Observer == nil {
		return
	}
	select {
	case r.events <- e:
	default:
		r.untold.Add(1)
	}
}

func (r *Resolver) observe(ctx context.Context) {
	if r.cfg.Observer == nil {
		return
	}
	for {
		select {
		case e := <-r.events:
			r.views.panics.catch("telling the observer", func() { r.cfg.Observer(e) })
		case <-ctx.Done():
			return
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
