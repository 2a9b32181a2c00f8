package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// revisions say of each why it is kept, and until when.
func (e *explainer) revisions() []string {
	var out []string
	for _, doc := range e.s.Revisions {
		r := doc.Value
		line := fmt.Sprintf("%s (%s): %s", r.Name, r.State, e.kept(r))
		tried := slices.ContainsFunc(e.open, func(o saga.Record) bool { return o.Subject == r.Name }) // which says the reason
		if r.Reason != "" && r.State == service.RevisionFailed && !tried {
			line = fmt.Sprintf("%s (%s, %s): %s", r.Name, r.State, r.Reason, e.kept(r))
		}
		out = append(out, line)
	}
	if len(out) == 0 {
		return []string{"none"}
	}
	return out
}

func (e *explainer) kept(r service.Revision) string {
	var reasons []string
	if why := e.s.KeptBy(r); why != "" {
		reasons = append(reasons, why+e.until(r))
	}
	if why, reached := e.reach.Revision(r.Name); reached {
		switch by := e.reachedBy(r.Name); {
		case by != "":
			why += by
		case len(reasons) == 0:
			why += ", until another table is published and every known gateway has acknowledged it"
		}
		reasons = append(reasons, why)
	}
	if p := e.reach.Callers(r.Name); !p.Nobody() && !service.Names(e.s.Routes.Value.Plan, r.Name) {
		why := p.Text() + " may still pick its instances by an earlier view, until that is acknowledged"
		if p.For > 0 {
			why += fmt.Sprintf(", for %s at most", p.For.Round(time.Second))
		}
		reasons = append(reasons, why)
	}
	if len(reasons) > 0 {
		return "kept: " + strings.Join(reasons, "; ")
	}
	switch {
	case len(r.Slots)+len(r.Leaving) > 0:
		return fmt.Sprintf("nothing keeps it: it is stopped and retired once nothing has referred to it for %s", service.CollectAfter)
	case r.State == service.RevisionRetired:
		return fmt.Sprintf("nothing of it runs; its record is history, of which the newest %d are kept", service.KeptRevisions)
	}
	return fmt.Sprintf("nothing of it runs; it is retired once nothing has referred to it for %s", service.CollectAfter)
}

// until says when the reason that KeptBy gives ends.
func (e *explainer) until(r service.Revision) string {
	c := e.s.Catalog.Value
	grace := service.CollectAfter.String()
	switch {
	case c.Serves(r.Name):
		return " (it has traffic), until traffic is moved away and " + grace + " have passed"
	case c.Latest == r.Name:
		return " (it is the latest revision), until another one is and " + grace + " have passed"
	case c.Referenced(r.Name):
		return " (by a tag), until the tag is moved and " + grace + " have passed"
	case c.Warm == r.Name:
		return ""
	}
	for _, o := range e.open {
		if o.Subject == r.Name && o.State == saga.Waiting {
			return ", until an attempt succeeds, something else is asked for, or: fairlead abort " + e.s.Service
		}
		if o.Subject == r.Name || o.Kind == service.WorkTraffic {
			return ", until it has"
		}
	}
	return ", until something else is asked for"
}

// reachedBy says until when a gateway keeps the revision; empty where it is the
// plan in force that does.
func (e *explainer) reachedBy(revision string) string {
	if service.Names(e.s.Routes.Value.Plan, revision) && !e.reach.All {
		return ""
	}
	var until []string
	for _, g := range e.w.Gateways {
		if !e.reach.All && e.upToDate(g) && keeps(g) >= e.s.Routes.Version {
			continue
		}
		line := fmt.Sprintf("%s acknowledges table %d or later, served and on its disk", g.Name, e.s.Routes.Version)
		if g.Silent >= retireAfter {
			line += fmt.Sprintf(", or is retired (fairlead gateways retire %s)", g.Name)
		}
		until = append(until, line)
	}
	if len(until) == 0 {
		return ""
	}
	return ", until " + strings.Join(until, "; and until ")
}

// keeps is the counter of the table on the gateway's disk.
func keeps(g service.KnownGateway) uint64 {
	_, v := held(g)
	return v.Counter
}
