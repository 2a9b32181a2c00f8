package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

const notLeading = "this control does not lead: what they say now is known to the one that does, and here only what was recorded"

func (e *explainer) gateways() []string {
	var out []string
	if !e.Leading {
		out = append(out, notLeading)
	}
	for _, g := range e.w.Gateways {
		out = append(out, e.gateway(g))
	}
	if len(e.w.Gateways) == 0 {
		out = append(out, "no gateway is known: nothing is routed")
	}
	for _, m := range e.missing {
		out = append(out, fmt.Sprintf("%s has %d of the %d credits of what is live, and its hosts do not hear it: nobody else can use them", m.Gateway, m.Credits, m.Of))
	}
	return out
}

func (e *explainer) gateway(g service.KnownGateway) string {
	serves, keeps := held(g)
	text := fmt.Sprintf("%s serves %s", g.Name, e.byTable(serves))
	switch {
	case g.State == nil && serves.Zero():
		text = g.Name + " has never said what it serves"
	case g.State == nil:
		text = fmt.Sprintf("%s was last known to serve %s", g.Name, e.byTable(serves))
	}
	if keeps != serves {
		text += "; on its disk is " + e.byTable(keeps)
	}
	if g.State != nil && g.State.Refused[e.s.Service] != "" {
		text += "; it refuses what was published: " + g.State.Refused[e.s.Service]
	}
	switch {
	case g.State != nil && g.State.Drifted:
		text += "; it does not serve what was published under that number: it is sent the whole table, and until it has it nothing that runs is stopped"
	case g.State != nil && g.State.Drifts > 0:
		text += fmt.Sprintf("; it was found %s, since the leader began, to serve other routes than were published under their number, and was sent the whole table", times(g.State.Drifts))
	}
	if g.State != nil && g.State.KeepError != "" {
		text += "; it cannot keep what it serves: " + g.State.KeepError
	}
	if g.Behind() {
		text += fmt.Sprintf("; %s: it is behind, and nobody waits for it", silence(g.Silent))
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func silence(d time.Duration) string {
	if d == time.Duration(math.MaxInt64) {
		return "it was not heard since the leader started"
	}
	return "it was not heard for " + d.Round(time.Second).String()
}

// held are the tables that the gateway may route by, as last told.
func held(g service.KnownGateway) (serves, keeps view.Version) {
	if g.State != nil {
		return g.State.Serves, g.State.Keeps
	}
	return g.Serves, g.Keeps
}

// byTable is the plan that a table of that version holds, in words.
func (e *explainer) byTable(v view.Version) string {
	switch {
	case v.Zero():
		return "no table yet"
	case v.Incarnation != e.w.Incarnation || v.Counter > e.w.Sequence:
		return fmt.Sprintf("table %s, which this store never published", v)
	}
	if e.s.Routes.Exists() && v.Counter >= e.s.Routes.Version {
		return fmt.Sprintf("%s (table %d)", service.PlanText(e.s.Routes.Value.Plan), v.Counter)
	}
	for _, p := range e.s.Routes.Value.Earlier {
		if v.Counter >= p.Sequence {
			return fmt.Sprintf("%s (table %d)", service.PlanText(p.Plan), v.Counter)
		}
	}
	return fmt.Sprintf("nothing of this service (table %d)", v.Counter)
}

// current says that the gateway serves what is published.
func (e *explainer) upToDate(g service.KnownGateway) bool {
	serves, _ := held(g)
	return serves.Incarnation == e.w.Incarnation && serves.Counter >= e.s.Routes.Version && serves.Counter <= e.w.Sequence &&
		(g.State == nil || g.State.Refused[e.s.Service] == "" && !g.State.Drifted)
}

// processes tells of each revision what runs in its slots.
func (e *explainer) processes() []string {
	var out []string
	if !e.Leading {
		out = append(out, notLeading)
	}
	for _, r := range e.s.Revisions {
		if len(r.Value.Slots)+len(r.Value.Leaving) == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %d of %s live", r.Value.Name, e.live(r.Value), plural(len(r.Value.Slots), "instance")))
		for _, slot := range r.Value.Slots {
			out = append(out, e.slot(r.Value, slot, "")...)
		}
		for _, slot := range r.Value.Leaving {
			out = append(out, e.slot(r.Value, slot, " (leaving)")...)
		}
	}
	for _, i := range e.strays() {
		out = append(out, fmt.Sprintf("%s on %s is %s, and no record asks for it", i.Slot, i.Host, i.State))
	}
	if len(out) == 0 {
		return []string{"nothing runs"}
	}
	return out
}

func (e *explainer) live(r service.Revision) int {
	n := 0
	for _, slot := range r.Slots {
		if slices.ContainsFunc(r.Processes(slot.ID, e.w), func(i service.Instance) bool { return i.State == service.InstanceLive }) {
			n++
		}
	}
	return n
}

func (e *explainer) slot(r service.Revision, slot service.Slot, mark string) []string {
	h := e.w.Hosts[slot.Host]
	running := r.Processes(slot.ID, e.w)
	if len(running) == 0 {
		why := "its host reports no process"
		if !h.Connected || !h.Reported {
			why = "nothing is known: its host is not connected"
		}
		return []string{fmt.Sprintf("%s on %s%s: %s", slot.ID, slot.Host, mark, why)}
	}
	var out []string
	for _, i := range running {
		line := fmt.Sprintf("%s on %s%s: %s", slot.ID, i.Host, mark, i.State)
		if i.Pid != 0 {
			line += fmt.Sprintf(", pid %d", i.Pid)
		}
		if i.Restarts > 0 {
			line += ", " + plural(i.Restarts, "restart")
		}
		for _, detail := range []string{i.Detail, i.ExitStatus} {
			if detail != "" && !strings.Contains(line, detail) {
				line += ", " + detail
			}
		}
		if !h.Heard() {
			line += fmt.Sprintf("; host %s said so %s ago and is not heard", i.Host, h.Silent.Round(time.Second))
		}
		out = append(out, line)
	}
	return out
}

// strays are processes whose slot no revision has.
func (e *explainer) strays() []service.Instance {
	var out []service.Instance
	for _, i := range e.w.Of[e.s.Service] {
		r := e.s.Revision(i.Revision).Value
		is := func(s service.Slot) bool { return s.ID == i.Slot && s.Host == i.Host }
		asked := r.Owns(i) && (slices.ContainsFunc(r.Slots, is) || slices.ContainsFunc(r.Leaving, is))
		if i.State != service.InstanceExited && !asked {
			out = append(out, i)
		}
	}
	return out
}
