// Package routing is the one table of who may still route a service's requests,
// and by what: gateways by the route tables that they serve and keep, callers by
// the views that they acknowledged. Whoever stops something asks it first, and
// people are shown the same. It is pure: who keeps the states hands them in, and
// durations are as of then. Read [Pickers] and [Router] first.
package routing

import (
	"fmt"
	"strings"
	"time"
)

// Grace is how long callers have to acknowledge a view without an instance, from
// its publication on: the budget of the last in a thousand. Who has not by then,
// or was not heard since, is not waited for. Gateways have no such time: what
// they may still route to stays.
const Grace = 15 * time.Second

// MostNamed of those who are waited for are named.
const MostNamed = 5

// Pickers are the callers who may still pick an instance by the views that they
// hold. The zero Pickers are nobody.
type Pickers struct {
	// Why nobody can be counted: a view names it still, or is not known of.
	// Empty where Named and Callers say who there is.
	Why string
	// Callers are how many they are; Named are some of them.
	Callers int
	Named   []string
	// Among are how many were looked at: to look takes its time.
	Among int
	// For is for how long yet they count, at most; zero where Why is not for ever.
	For time.Duration
}

// Nobody says that there are none.
func (p Pickers) Nobody() bool { return p.Why == "" && p.Callers == 0 }

// Add counts n callers in, and names them while few are named: there may be
// thousands.
func (p *Pickers) Add(n int, who func() string) {
	if n <= 0 {
		return
	}
	if p.Callers += n; len(p.Named) < MostNamed {
		p.Named = append(p.Named, who())
	}
}

// Text names them, e.g. "3 callers (service/payments, 2 at relay/r1)".
func (p Pickers) Text() string {
	switch {
	case p.Why != "":
		return p.Why
	case p.Callers == 0:
		return "nobody"
	}
	names := strings.Join(p.Named, ", ")
	if len(p.Named) == MostNamed && p.Callers > MostNamed {
		names += ", …"
	}
	if p.Callers == 1 {
		return "1 caller (" + names + ")"
	}
	return fmt.Sprintf("%d callers (%s)", p.Callers, names)
}
