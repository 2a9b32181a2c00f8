package routing

import (
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Away is what a caller says of its calls while it heard nobody who serves views.
type Away struct {
	For                       time.Duration
	Calls, Failed, Unroutable uint64
}

// Router is one of those who may route a service's requests: a gateway, by the
// route tables that it serves and keeps, or a caller, by the view that it holds.
type Router struct {
	Role, Name string
	// Via is the relay that it subscribes at; empty is control.
	Via string
	// Serves and Keeps are a gateway's tables, in force and on its disk; zero is
	// not known.
	Serves, Keeps view.Version
	// View that it acknowledged last; zero is none.
	View      view.Version
	Connected bool
	// Silent is how long nothing was heard; zero of one that is not connected says
	// that nothing was since control began to lead.
	Silent time.Duration
	// Stands says in words how it stands.
	Stands string
	// MayRoute are revisions that it may still route to, beside those of the plan
	// in force.
	MayRoute []string
	// Away is what a caller said of its calls before it came; nil is nothing.
	Away *Away
	// Until says until when it counts as one who may route otherwise than is in
	// force; empty: it does not.
	Until string
}
