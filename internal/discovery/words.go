package discovery

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// self is what a workload says of itself, through its host: that it listens and
// its ready path answers, or that it drains, and what it said by the instance
// API. A host speaks for its own instances only.
func (t *term) self(host string, i service.Instance) {
	x, known := t.reg.Get(i.ID)
	if !known || x.Gone || i.State == service.InstanceExited {
		return
	}
	by := x.Handle
	if x.Host != host {
		by = 0 // it is nobody's: discarded, and counted
	}
	c := t.inForce(x.Service)
	if by != 0 && x.EverReady && (i.State == service.InstanceStarting || i.State == service.InstanceDraining || i.Word.Unready || i.Word.Draining) {
		t.detection.sample(by, time.Now())
	}
	t.ingest.Self(by, x.Handle, selfOf(i.State, i.Word, c.Dependencies))
	if by == x.Handle {
		if delete(t.details, x.ID); i.State == service.InstanceStarting && i.Detail != "" {
			t.details[x.ID] = i.Detail
		}
	}
	switch {
	case by == 0:
	case i.Word.Equal(service.Word{}):
		delete(t.words, x.ID)
	default:
		t.words[x.ID] = i.Word
	}
}

// selfOf is the evidence in it: what it names that the contract does not is
// shown, and counts for nothing.
func selfOf(state service.InstanceState, w service.Word, declared []eligibility.Dependency) eligibility.Self {
	s := eligibility.Self{
		Ready:    state != service.InstanceStarting && !w.Unready,
		Draining: state == service.InstanceDraining || w.Draining,
	}
	if len(w.Dependencies) == 0 {
		return s
	}
	s.Dependencies = make([]eligibility.Permille, len(declared))
	for k, d := range declared {
		for _, x := range w.Dependencies {
			if x.Name == d.Name {
				s.Dependencies[k] = eligibility.Permille(min(max(x.Degraded, 0), 1000))
			}
		}
	}
	return s
}

// said is what a service's instances say of their dependencies, for people:
// :: instance → lines.
func (t *term) said(name string) map[string][]string {
	out := map[string][]string{}
	declared := map[string]eligibility.Dependency{} // :: name → as the contract has it
	for _, d := range t.inForce(name).Dependencies {
		declared[d.Name] = d
	}
	for _, x := range t.reg.Of(name) {
		if d := t.details[x.ID]; d != "" {
			out[x.ID] = append(out[x.ID], "self: its host says: "+d)
		}
		for _, d := range t.words[x.ID].Dependencies {
			line := fmt.Sprintf("self: %s degraded by %d.%d%%", d.Name, d.Degraded/10, d.Degraded%10)
			if d.Detail != "" {
				line += fmt.Sprintf(" (%s)", d.Detail)
			}
			if c, is := declared[d.Name]; is {
				line += fmt.Sprintf("; authority %s", cmp.Or(c.Authority, eligibility.Weight))
			} else {
				line += "; not declared in the contract, so it counts for nothing"
			}
			out[x.ID] = append(out[x.ID], line)
		}
	}
	return out
}
