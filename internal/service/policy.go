package service

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fairlead-platform/fairlead/view"
)

// ZonePolicy is which zone a caller picks from.
type ZonePolicy string

const (
	PreferZone ZonePolicy = "prefer" // the caller's own, while it has room and is not marked; the default
	AnyZone    ZonePolicy = "any"
)

// Policy is what an owner decides about a service, beside what shall run and
// how its health is read. [DefaultPolicy] is that of a service without one.
type Policy struct {
	Owner string     `json:"owner,omitempty"` // who is told, for people
	Zones ZonePolicy `json:"zonePolicy"`
	Guard Guard      `json:"guard"`
	// Ramp in place of the health contract's; nil leaves it to that.
	Ramp *Ramp `json:"ramp,omitempty"`
	// AllowedCallers are "role/name", "role/*" or "agent/name/workload"; none is
	// everyone.
	AllowedCallers []string `json:"allowedCallers,omitempty"`
}

// Guard is the fraction guard as people write it.
type Guard struct {
	Fraction float64        `json:"fraction"` // of the counted instances of a set in a zone
	Mode     view.GuardMode `json:"mode"`
}

// Ramp is the way of an instance to its whole weight.
type Ramp struct {
	Seconds int `json:"seconds"` // 0 is none, else at least 60
	// Steps are shares of the weight, rising to 1; nil are the platform's.
	Steps []float64 `json:"steps,omitempty"`
}

// DefaultPolicy of a service that declares none: open to everyone.
func DefaultPolicy() Policy {
	return Policy{Zones: PreferZone, Guard: Guard{Fraction: 0.5, Mode: view.ServeAll}}
}

// Policy is the guard as the assembler takes it.
func (g Guard) Policy() view.GuardPolicy {
	return view.GuardPolicy{Fraction: int(math.Round(g.Fraction * 1000)), Mode: g.Mode}
}

// Bounds of what an owner may decide without force, and with it.
const (
	leastFraction = 0.1
	// Outside of these a guard hardly guards, or holds on to everything.
	lowFraction, highFraction = 0.2, 0.9
	leastRamp, mostRamp       = 60, 3600 // seconds
	mostSteps                 = 20
	mostFirst                 = 0.5 // share of the first step, which is also a trial's
	mostAllowed               = 500
	mostOwner                 = 200 // bytes
)

// CallerRoles are those that may be allowed to call.
func CallerRoles() []string { return []string{"service", "caller", "gateway", "agent", "relay"} }

// Check says what is wrong with the policy, all of it, and what to do.
func (p Policy) Check() error {
	var all []error
	wrong := func(bad bool, format string, a ...any) {
		if bad {
			all = append(all, fmt.Errorf(format, a...))
		}
	}
	wrong(len(p.Owner) > mostOwner, "owner has %d bytes: use at most %d", len(p.Owner), mostOwner)
	wrong(p.Zones != PreferZone && p.Zones != AnyZone, "zonePolicy %q: use prefer or any", p.Zones)
	wrong(!slices.Contains([]view.GuardMode{view.ServeAll, view.HoldForPerson, view.Honour}, p.Guard.Mode), "guard.mode %q: use serve-all, hold or honour", p.Guard.Mode)
	f := p.Guard.Fraction
	wrong(!(f >= leastFraction && f <= 1), "guard.fraction %v: use %v to 1; a guard that shall not hold health back is mode honour, which says what it does", f, leastFraction)
	all = append(all, p.Ramp.check()...)
	wrong(len(p.AllowedCallers) > mostAllowed, "allowedCallers has %d entries: use at most %d, and role/* for all of a role", len(p.AllowedCallers), mostAllowed)
	for i, c := range p.AllowedCallers {
		role, name, ok := strings.Cut(c, "/")
		if n, workload, has := strings.Cut(name, "/"); has && role == "agent" && callerName(workload) {
			name = n // one workload of the agent's machine
		}
		wrong(!ok || !slices.Contains(CallerRoles(), role) || !callerName(name), "allowedCallers: %q: say ROLE/NAME, ROLE/* or agent/NAME/WORKLOAD, where ROLE is %s", c, strings.Join(CallerRoles(), ", "))
		wrong(slices.Contains(p.AllowedCallers[:i], c), "allowedCallers: %q is there twice", c)
	}
	return errors.Join(all...)
}

func callerName(name string) bool {
	return name == "*" || name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	})
}

func (r *Ramp) check() (all []error) {
	if r == nil {
		return nil
	}
	wrong := func(bad bool, format string, a ...any) {
		if bad {
			all = append(all, fmt.Errorf(format, a...))
		}
	}
	wrong(r.Seconds != 0 && (r.Seconds < leastRamp || r.Seconds > mostRamp), "ramp.seconds is %d: use 0 for none, or %d to %d", r.Seconds, leastRamp, mostRamp)
	n := len(r.Steps)
	if n == 0 {
		return all
	}
	wrong(n < 2 || n > mostSteps, "ramp.steps has %d steps: use 2 to %d", n, mostSteps)
	wrong(!(r.Steps[0] >= 0.01 && r.Steps[0] <= mostFirst), "ramp.steps begins with %v: use 0.01 to %v, since an instance that failed its callers is tried with it", r.Steps[0], mostFirst)
	wrong(r.Steps[n-1] != 1, "ramp.steps ends with %v: the last is 1, the whole weight", r.Steps[n-1])
	for i := 1; i < n; i++ {
		wrong(!(r.Steps[i] > r.Steps[i-1]), "ramp.steps: %v after %v: each is more than the one before", r.Steps[i], r.Steps[i-1])
	}
	return all
}

// Dangers say what a policy that [Policy.Check] accepts gives up, so that a
// person who means it has to say so.
func (p Policy) Dangers() (all []string) {
	switch f := p.Guard.Fraction; {
	case p.Guard.Mode == view.Honour:
		all = append(all, "guard.mode honour: health is followed to an empty set, so that one wrong check takes every instance out and nothing stops it; mode hold has a person decide")
	case f < lowFraction:
		all = append(all, fmt.Sprintf("guard.fraction %v: below %v hardly anything is left to serve by before the guard steps in", f, lowFraction))
	case f > highFraction:
		all = append(all, fmt.Sprintf("guard.fraction %v: above %v a single instance that hangs is enough to have health disregarded, and it is served on", f, highFraction))
	}
	return all
}
