package service

import (
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/view"
)

// ViewHolder is who picks by a service's view, as it last said.
type ViewHolder struct {
	Role, Name string
	// Via is the relay that it subscribes at; empty is here.
	Via       string
	Library   string
	Connected bool
	// Version that it last acknowledged, or said that it holds; zero is none.
	Version view.Version
	// Current says that this is the newest.
	Current bool
	// Objection says why it picks by something else than was sent.
	Objection string
	// Behind is for how long there has been a newer version; zero is current.
	Behind time.Duration
	// Silent is how long nothing was heard.
	Silent time.Duration
	// Missing are features of views that it does not know.
	Missing []string
	// Refused is for how long the service's policy has refused it: it is given no
	// view, and may pick by the one that it holds still. Zero: it does not.
	Refused time.Duration
	// Away is what it said of its calls before it came; nil is nothing.
	Away *Away
}

// Holding says who holds a service's view, and at which version.
type Holding struct {
	Service   string
	Published view.Version // zero is none
	// Callers who route by it and are connected, here or at a relay.
	Callers int
	// Refused are connected too, and refused by the service's policy.
	Refused int
	// Versions that they acknowledged last, the newest first; who acknowledged
	// none is in none.
	Versions []VersionHeld
	// Rows are who they are, those that are behind first; More are left out.
	Rows []ViewHolder
	More int
	// Unheard are relays that did not say who their subscribers are.
	Unheard []string
}

// VersionHeld is how many hold a version; Behind is for how long there has been
// a newer one.
type VersionHeld struct {
	Version view.Version
	Holders int
	Behind  time.Duration
}

// Subscriber is who holds views, as it last said.
type Subscriber struct {
	Role, Name, Session, Library string
	Connected                    bool
	// Silent is how long nothing was heard.
	Silent time.Duration
	// Missing are features of views that it does not know.
	Missing []string
	// Views that it holds, and how many of them are not the newest.
	Views, Behind int
	// Away is what it said of its calls before it came; nil is nothing.
	Away *Away
}

// Away is what a caller says of its calls while it heard nobody who serves views.
type Away = routing.Away
