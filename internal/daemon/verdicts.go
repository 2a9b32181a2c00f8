package daemon

import (
	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/discovery"
)

// verdicts lets control see what the discovery plane believes.
type verdicts struct{ *discovery.Plane }

// Of implements control.Verdicts.
func (v verdicts) Of(service, instance string) control.Verdict {
	r := v.Readiness(service, instance)
	return control.Verdict{Ready: r.Ready, Before: r.Before, Unseen: r.Unseen, Why: r.Why}
}
