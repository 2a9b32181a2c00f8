package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// retireAfter is the silence from which on it is worth asking whether a gateway
// comes back.
const retireAfter = time.Minute

// todo is what a person has to do, or may do.
func (e *explainer) todo() []string {
	var out []string
	for _, n := range e.needs {
		out = append(out, "needs an operator: "+n)
	}
	out = append(out, e.perhaps()...)
	for _, a := range e.Alarms {
		out = append(out, "alarm of the installation: "+a)
	}
	if len(out) == 0 {
		return []string{"nothing"}
	}
	return out
}

// perhaps are the choices that a person has.
func (e *explainer) perhaps() []string {
	var out []string
	name := e.s.Service
	for _, g := range e.orphans() {
		out = append(out, fmt.Sprintf("gateway %s serves %s by a route that this store does not have: deploy it to take it up, or end it: fairlead delete %s", g, name, name))
	}
	for _, rev := range e.s.Serving() {
		if text := rev.Value.GatheredText(e.w); text != "" && e.Leading {
			out = append(out, text)
		}
	}
	r, busy := e.current()
	switch {
	case e.s.Desired.Value.Paused:
		out = append(out, "it is paused: fairlead resume "+name+", or end what is in progress: fairlead abort "+name)
	case busy && r.State == saga.Compensating && r.Effects["undo"] != "":
		out = append(out, fmt.Sprintf("see to what it names (%s); it is tried again by itself at %s, and until it is undone nothing that a gateway may route to is stopped", r.Effects["undo"], e.clock(r.RetryAt)))
	case busy && r.State == saga.Waiting && r.Kind == service.WorkDeploy:
		out = append(out, fmt.Sprintf("nothing has to be done, what served before serves; correct the cause and deploy again, or end the attempts: fairlead abort %s", name))
	case busy && r.State == saga.Waiting:
		out = append(out, "it is tried again by itself; to end it: fairlead abort "+name)
	}
	if busy && r.FailedStep == "ready" {
		out = append(out, "see what it says: fairlead logs "+name)
	}
	for _, g := range e.w.Gateways {
		holds := slices.ContainsFunc(e.missing, func(m service.Missing) bool { return m.Gateway == g.Name && !m.Heard })
		if g.Behind() && (holds || g.Silent >= retireAfter) {
			out = append(out, fmt.Sprintf("if gateway %s does not come back: fairlead gateways retire %s", g.Name, g.Name))
		}
	}
	if at := e.s.Desired.Value.Pinned(); at != "" && !e.s.Desired.Value.Deleted {
		out = append(out, fmt.Sprintf("traffic is pinned (%s); to move it: fairlead traffic %s %s=100", at, name, service.LatestRevision))
	}
	return out
}
