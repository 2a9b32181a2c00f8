package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// hold says that requests are held: since when, how many wait and where, what
// they wait for, and until when; nothing where none are.
func (e *explainer) hold() []string {
	if !e.s.Routes.Value.Held() {
		return nil
	}
	out := []string{fmt.Sprintf("requests are held since %s, %s", e.clock(e.s.Routes.Value.At), e.waiting())}
	return append(out, e.heldFor()...)
}

// waiting is how many requests wait, by the word of the gateways.
func (e *explainer) waiting() string {
	n, at := 0, []string{}
	for _, g := range e.w.Gateways {
		switch {
		case !g.Heard():
			at = append(at, g.Name+" is not heard")
		default:
			n += g.State.Waiting[e.s.Service]
			at = append(at, fmt.Sprintf("%s %d", g.Name, g.State.Waiting[e.s.Service]))
		}
	}
	if len(at) == 0 {
		return "and no gateway is known"
	}
	verb := "wait"
	if n == 1 {
		verb = "waits"
	}
	return fmt.Sprintf("and %d %s (%s)", n, verb, strings.Join(at, ", "))
}

// heldFor says what has to happen before they are answered.
func (e *explainer) heldFor() []string {
	to := e.heldTo()
	r := e.s.Revision(to).Value
	var out []string
	for _, p := range append(e.s.Beside(to, e.w), e.moved(r)...) {
		line := fmt.Sprintf("they wait for the end of slot %s of %s on host %s, which is %s", p.Slot, p.Of, p.Host, p.State)
		if h := e.w.Hosts[p.Host]; !h.Heard() {
			line += fmt.Sprintf("; the host is not heard for %s: if it does not come back: fairlead hosts retire %s", h.Silent.Round(time.Second), p.Host)
		} else if until := e.holdsUntil(); until != "" {
			line += "; it has until " + until + ", else the handover fails and goes back"
		}
		out = append(out, line)
	}
	if len(out) > 0 {
		return out
	}
	for _, slot := range r.Slots {
		live := slices.ContainsFunc(r.Processes(slot.ID, e.w), func(i service.Instance) bool { return i.State == service.InstanceLive })
		switch h := e.w.Hosts[slot.Host]; {
		case !h.Heard():
			out = append(out, fmt.Sprintf("they wait for slot %s, whose host %s is not heard for %s", slot.ID, slot.Host, h.Silent.Round(time.Second)))
		case !live:
			out = append(out, fmt.Sprintf("they wait for slot %s on host %s to be live", slot.ID, slot.Host))
		}
	}
	if len(out) == 0 {
		out = append(out, "they wait for "+to+" to be ready, and for the gateways to have its routes")
	}
	return out
}

// moved are the revision's own processes in slots that it has given up.
func (e *explainer) moved(r service.Revision) []service.Process {
	var out []service.Process
	for _, i := range e.w.Of[e.s.Service] {
		is := func(s service.Slot) bool { return s.ID == i.Slot && s.Host == i.Host }
		if r.Owns(i) && i.State != service.InstanceExited && !e.w.IsRetired(i.Host) && !slices.ContainsFunc(r.Slots, is) {
			out = append(out, service.Process{Instance: i, Of: r.Name})
		}
	}
	return out
}

// heldTo is the revision that is to answer what is held: that of the handover,
// or, where that is undone or none is in flight, the one that the catalog names.
func (e *explainer) heldTo() string {
	lead := service.Lead(e.s.Catalog.Value.Traffic)
	plan := e.s.Routes.Value.Plan
	if len(plan.Splits) == 0 {
		return lead
	}
	most := slices.MaxFunc(plan.Splits, func(a, b view.Split) int { return a.Percent - b.Percent })
	return most.Revision
}

// holdsUntil is when what is to end has had its time, as the handover noted;
// empty where none did, or that is over.
func (e *explainer) holdsUntil() string {
	r, busy := e.current()
	until, err := time.Parse(time.RFC3339, r.Effects[service.EffectHold])
	if !busy || err != nil || until.Before(e.Now) {
		return ""
	}
	return e.clock(until)
}
