package explain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// differences name each pair that does not say the same, which one wins, and why.
func (e *explainer) differences() []string {
	out := e.differing()
	if len(out) == 0 {
		out = []string{"none: desired, catalog, routes, gateways and processes agree"}
	}
	return append(out, e.next())
}

// next is what the controller does next.
func (e *explainer) next() string {
	r, busy := e.current()
	switch {
	case e.work.Kind != service.WorkNone && e.work.Kind != service.WorkNeeds:
		return fmt.Sprintf("next: %s, because %s", e.work.Kind, e.work.Reason)
	case busy && r.State == saga.Waiting:
		return fmt.Sprintf("next: %s is tried again at %s", name(r), e.clock(r.RetryAt))
	case busy && r.Held != "":
		return "next: nothing until a person lets it go on"
	case len(e.needs) > 0:
		return "next: nothing until an operator has settled what is named below"
	}
	return "next: nothing is to be done"
}

func (e *explainer) differing() []string {
	var out []string
	for _, compare := range []func() string{e.desiredAndCatalog, e.routesAndCatalog} {
		if text := compare(); text != "" {
			out = append(out, text)
		}
	}
	for _, g := range e.w.Gateways {
		if text := e.gatewayAndRoutes(g); text != "" {
			out = append(out, text)
		}
	}
	for _, r := range e.s.Revisions {
		if text := e.processesAndRecord(r.Value); text != "" {
			out = append(out, text)
		}
	}
	return slices.Concat(out, e.unheard(), e.Refused)
}

// unheard says of each host whose word is old what of the service it ran.
func (e *explainer) unheard() (out []string) {
	ran := map[string]int{} // :: host → processes
	for _, i := range e.w.Of[e.s.Service] {
		if h := e.w.Hosts[i.Host]; e.Leading && !h.Heard() && i.State != service.InstanceExited {
			ran[i.Host]++
		}
	}
	for _, host := range slices.Sorted(maps.Keys(ran)) {
		out = append(out, fmt.Sprintf("host %s runs %s of it, and %s: what is said of them is its last word, and callers go by what they see themselves",
			host, plural(ran[host], "instance"), silence(e.w.Hosts[host].Silent)))
	}
	return out
}

func (e *explainer) desiredAndCatalog() string {
	d, c := e.s.Desired.Value, e.s.Catalog.Value
	if !e.s.Desired.Exists() || c.ObservedGeneration >= d.Generation {
		return ""
	}
	text := fmt.Sprintf("desired asks for generation %d, the catalog has applied %d: ", d.Generation, c.ObservedGeneration)
	r, busy := e.current()
	switch {
	case !busy:
		return text + "desired wins, by the next pass"
	case r.Held != "" || d.Paused:
		return text + "desired wins once a person lets it go on; the catalog stands until then"
	case r.State == saga.Compensating:
		return text + "the catalog stands, since the attempt failed and is being undone; desired wins once an attempt succeeds"
	case r.State == saga.Waiting:
		return text + "the catalog stands, since an attempt that failed changes nothing; desired wins once an attempt succeeds"
	}
	return text + fmt.Sprintf("desired wins, by the %s that is in flight; the catalog stands until its last step records what is published", r.Kind)
}

// routesAndCatalog is the comparison that every pass makes.
func (e *explainer) routesAndCatalog() string {
	if !e.s.Catalog.Exists() || !e.s.Routes.Exists() {
		return ""
	}
	published, want := e.s.Routes.Value.Plan, e.s.CatalogRoutes()
	if service.SamePlan(published, want) || len(published.Splits)+len(want.Splits) == 0 {
		return ""
	}
	text := fmt.Sprintf("routes say %s, the catalog says %s: ", service.PlanText(published), service.PlanText(want))
	r, busy := e.current()
	switch {
	case busy && r.State == saga.Compensating:
		return text + "the catalog wins: the attempt failed, and what it published is put back before what it started is stopped"
	case busy && r.State != saga.Waiting:
		return text + fmt.Sprintf("neither yet: a service with a %s in flight is that one's alone; it records what it published as its last step, or puts the earlier plan back", r.Kind)
	case e.work.Kind == service.WorkRoutes:
		return text + "the catalog wins, since its revision answers or nothing does; it is published again by the next pass"
	}
	if len(e.needs) == 0 {
		return text + "neither yet: not all hosts have reported, so it is not known which of the two answers"
	}
	return text + "the routes win for now, since what is published answers and the catalog's revision does not"
}

func (e *explainer) gatewayAndRoutes(g service.KnownGateway) string {
	nothing := !e.s.Routes.Exists() && !g.Orphans(e.s.Service)
	if nothing || e.upToDate(g) && !g.Behind() {
		return ""
	}
	serves, _ := held(g)
	text := fmt.Sprintf("gateway %s serves %s, published is %s: ", g.Name, e.byTable(serves), service.PlanText(e.s.Routes.Value.Plan))
	switch {
	case g.Orphans(e.s.Service):
		return text + "the gateway wins until a person deletes the service or deploys it again: a store that is new empties nothing"
	case g.State != nil && g.State.Drifted:
		return fmt.Sprintf("gateway %s serves other routes than were published under the number of its table: what is published wins, it is sent the whole table", g.Name)
	case g.State != nil && g.State.Refused[e.s.Service] != "":
		return text + "what it held before wins at that gateway, and stays served: " + g.State.Refused[e.s.Service]
	case e.upToDate(g):
		return fmt.Sprintf("gateway %s is behind (%s): it had acknowledged what is published", g.Name, silence(g.Silent))
	case g.Behind():
		return text + fmt.Sprintf("what is published wins everywhere else; %s, so nothing waits for it, and all that it may still route to stays served", silence(g.Silent))
	}
	return text + "what is published wins, as soon as it acknowledges"
}

// onDraining says what becomes of what the revision runs on hosts that drain.
func (e *explainer) onDraining(r service.Revision) string {
	i := slices.IndexFunc(r.Slots, func(s service.Slot) bool { return e.w.Drains(s.Host) != "" && !e.w.Hosts[s.Host].Left })
	if i < 0 {
		return ""
	}
	host := r.Slots[i].Host
	text := fmt.Sprintf("%s has slot %s on host %s: %s: ", r.Name, r.Slots[i].ID, host, e.w.Drains(host))
	if err := e.w.Room(); err != nil {
		return text + fmt.Sprintf("it stays there, because nothing else can take it: %v", err)
	}
	return text + "it leaves once another one is live elsewhere"
}

func (e *explainer) processesAndRecord(r service.Revision) string {
	if text := e.onDraining(r); text != "" && e.Leading {
		return text
	}
	if !e.Leading || len(r.Slots) == 0 || e.live(r) == len(r.Slots) {
		return ""
	}
	serves := e.s.Catalog.Value.Serves(r.Name)
	if gone := r.OnGone(e.w); len(gone) > 0 && serves {
		return fmt.Sprintf("%s is to run on host %s, which is gone: the record wins, and its slots are placed elsewhere", r.Name, gone[0].Host)
	}
	if lost := r.Lost(e.w); len(lost) > 0 && serves {
		return fmt.Sprintf("%s has slot %s on host %s, which has no process of it: the record wins, and it is assigned again", r.Name, lost[0].ID, lost[0].Host)
	}
	text := fmt.Sprintf("%s is to have %s, %d live", r.Name, plural(len(r.Slots), "instance"), e.live(r))
	if serves {
		return text + ": its hosts start them again; requests wait for those that are live"
	}
	if slices.ContainsFunc(e.open, func(o saga.Record) bool { return o.Subject == r.Name }) {
		return text + ": it gets no traffic until all are"
	}
	return ""
}
