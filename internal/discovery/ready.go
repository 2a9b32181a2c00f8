package discovery

import (
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/view"
)

// Readiness says whether an instance may be routed to by its service's contract.
type Readiness struct {
	Ready bool
	// Before says that it was once in rotation.
	Before bool
	// Unseen says that nobody sees how it does.
	Unseen bool
	Why    string // it is not ready, or not known to be
}

// Readiness of an instance. One that nobody sees any more, but that was in
// rotation, stays ready.
func (p *Plane) Readiness(service, instance string) Readiness {
	t := p.current()
	if t == nil {
		return Readiness{Why: "the discovery plane has only begun, and says nothing of any instance yet"}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	row, known := t.reg.Get(instance)
	if !known || row.Service != service {
		return Readiness{Why: "the discovery plane does not know it yet"}
	}
	s, is := t.eval.Standing(row.Handle)
	switch {
	case !is:
		return Readiness{Why: "the discovery plane has not looked at it yet"}
	case s.Verdict.In() && s.Rule != eligibility.Starting:
		return Readiness{Ready: true, Before: s.EverReady, Unseen: s.Verdict == view.Unknown}
	}
	return Readiness{Before: s.EverReady, Why: string(s.Verdict) + ": " + s.Account.Why}
}

// Changed is closed at the next change of a verdict, and when this control
// begins or ends to lead.
func (p *Plane) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// move wakes who waits for Changed; p.mu is held.
func (p *Plane) move() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Plane) moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.move()
}
