// Package may is the one check of who may call which service: on every
// subscription, query and report, at control, at relays and at agents alike. It
// is pure: a service's policy says whom it allows, and a view carries that to
// whoever checks away from control. Open by default. Read [Check] first.
package may

import (
	"fmt"
	"strings"
)

// Caller is who asks, by a certificate or, at an agent, by its socket.
type Caller struct {
	Role, Name string
	// Workload of an agent's machine; empty is the agent itself.
	Workload string
}

// String is the caller as policies name it: role/name, or agent/name/workload.
func (c Caller) String() string {
	s := c.Role + "/" + c.Name
	if c.Workload != "" {
		s += "/" + c.Workload
	}
	return s
}

// Forbidden says that a service does not allow a caller.
type Forbidden struct {
	Caller  Caller
	Service string
}

func (f *Forbidden) Error() string {
	return fmt.Sprintf("service %s does not allow %s: its policy names who may call it (fairlead policy get %s)", f.Service, f.Caller, f.Service)
}

// Check says why the caller may not hold the service's view, ask for it or
// report about it: nil, or a [*Forbidden]. An empty list allows everyone. An
// entry is ROLE/NAME, or agent/NAME/WORKLOAD, with * for all of a part.
//
// Relays and gateways are infrastructure and always allowed: a relay passes
// views on to callers that it checks itself, and what a gateway serves is said
// by routes. Operators see everything. An agent may hold what any workload of
// its machine may: it checks those itself, since nobody else can tell them
// apart.
func Check(c Caller, service string, allowed []string) error {
	switch {
	case len(allowed) == 0, c.Role == "relay", c.Role == "gateway", c.Role == "operator":
		return nil
	}
	for _, entry := range allowed {
		if c.named(entry) {
			return nil
		}
	}
	return &Forbidden{c, service}
}

func (c Caller) named(entry string) bool {
	role, rest, _ := strings.Cut(entry, "/")
	name, workload, particular := strings.Cut(rest, "/")
	if role != c.Role || name != "*" && name != c.Name {
		return false
	}
	// One that names an agent names all of its workloads; one that names a
	// workload lets the agent hold the view, for that one.
	return !particular || c.Workload == "" || workload == "*" || workload == c.Workload
}
