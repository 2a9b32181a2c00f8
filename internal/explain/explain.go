// Package explain says of one service what each record and each part of the
// world says, where they differ, which one wins and why; for each revision why
// it is kept and until when; and what a person can do. It is pure: facts in,
// lines out. It decides nothing: what the controller does next it asks of
// [service.Plan], what is kept of [service.Snapshot.KeptBy] and
// [service.Snapshot.MayRoute]. Read [Facts] and [Explain] first.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Facts are everything that an explanation is made of.
type Facts struct {
	// Snapshot of the service's records. Required.
	Snapshot *service.Snapshot
	// World as seen beside the store. Required; its functions may be nil.
	World *service.World
	// Leading says that hosts and gateways report to the one who explains.
	Leading bool
	// NeedsOperator names what the leader says only a person can settle.
	NeedsOperator []string
	// Alarms of the installation.
	Alarms []string
	// Stops that wait for callers, in words.
	Stops []string
	// Refused are callers that its policy refuses, and that may still pick by what
	// they hold, in words.
	Refused []string
	// Now, as instants are shown against it.
	Now time.Time
}

// Report is an explanation.
type Report struct {
	Service string
	// Summary in one sentence.
	Summary  string
	Sections []Section
}

// Section is what one record or part of the world says.
type Section struct {
	Title string
	Lines []string
}

// Explain assembles the report.
func Explain(f Facts) Report {
	e := newExplainer(f)
	r := Report{Service: e.s.Service, Summary: e.summary()}
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"desired", e.desired()},
		{"saga", append(e.sagas(), e.Stops...)},
		{"catalog", e.catalog()},
		{"routes", append(e.routes(), e.hold()...)},
		{"gateways", e.gateways()},
		{"processes", e.processes()},
		{"differences", e.differences()},
		{"revisions", e.revisions()},
		{"to do", e.todo()},
	} {
		r.Sections = append(r.Sections, Section{Title: part.title, Lines: part.lines})
	}
	return r
}

// explainer holds what several sections look at.
type explainer struct {
	Facts
	s     *service.Snapshot
	w     *service.World
	work  service.Work // what the controller does next, as far as can be told from here
	reach service.Reach
	open  []saga.Record // in flight, collections too
	needs []string      // what only a person can settle

	missing []service.Missing // credits that nobody can use
}

func newExplainer(f Facts) *explainer {
	w := *f.World
	// The leader's own clocks are not known here: a wait is taken to end when it
	// was said to, and what ends by a clock of the leader's is taken to stand.
	w.Due = func(r saga.Record) bool { return !f.Now.Before(r.RetryAt) }
	w.Parked = func(r saga.Record) string {
		if r.State == saga.Parked {
			return fmt.Sprintf("saga %s is parked: %s", r.ID, r.Error)
		}
		return ""
	}
	w.Unreferenced = func(string) time.Duration { return 0 }
	w.Cooled = func(string) bool { return false }
	w.Stray = func(string) time.Duration { return 0 }
	w.Ends = func(string, int) int { return 0 } // the history tells them
	e := &explainer{Facts: f, s: f.Snapshot, w: &w}
	for _, r := range e.s.Sagas {
		if r.Value.Open() {
			e.open = append(e.open, r.Value)
		}
	}
	revisions := make([]service.Revision, len(e.s.Revisions))
	for i, r := range e.s.Revisions {
		revisions[i] = r.Value
	}
	e.missing = service.MissingCredits(w.Of[e.s.Service], revisions, e.w)
	e.work, e.reach = service.Plan(e.s, e.w), e.s.MayRoute(e.w)
	e.needs = slices.Clone(f.NeedsOperator)
	if why := e.work.NeedsOperator; why != "" && !slices.Contains(e.needs, why) && len(e.needs) == 0 {
		e.needs = append(e.needs, why)
	}
	return e
}

// current is the open saga that the service belongs to now, a collection aside.
func (e *explainer) current() (saga.Record, bool) {
	i := slices.IndexFunc(e.open, func(r saga.Record) bool { return r.Kind != service.WorkCollect })
	if i < 0 {
		return saga.Record{}, false
	}
	return e.open[i], true
}

// summary is the gravest of what there is to say.
func (e *explainer) summary() string {
	d, c := e.s.Desired.Value, e.s.Catalog.Value
	c.Service = e.s.Service
	serving := c.Serving()
	r, busy := e.current()
	switch {
	case len(e.needs) > 0:
		return "it needs an operator: " + e.needs[0]
	case !e.s.Desired.Exists() && len(e.orphans()) > 0:
		return fmt.Sprintf("this store does not know it, and gateway %s serves it", e.orphans()[0])
	case d.Deleted:
		return "it is being deleted"
	case e.s.Routes.Value.Held():
		return e.hold()[0] + "; " + e.heldFor()[0]
	case busy && r.State == saga.Waiting:
		return fmt.Sprintf("%s failed at %s and is tried again at %s; %s", name(r), r.FailedStep, e.clock(r.RetryAt), serving)
	case busy && r.Held != "":
		return fmt.Sprintf("%s is held; %s", name(r), serving)
	case busy && r.State == saga.Compensating:
		return fmt.Sprintf("%s failed at %s and is being undone; %s by the catalog", name(r), r.FailedStep, serving)
	case busy:
		return fmt.Sprintf("%s is at %s; %s", name(r), at(r), serving)
	case len(e.behind()) > 0:
		return serving + "; behind: " + strings.Join(e.behind(), ", ")
	case len(e.differing()) > 0:
		return serving + ", and not all agree: see the differences"
	}
	return serving + ", and all agree"
}

// behind are the gateways that nobody waits for.
func (e *explainer) behind() []string {
	var out []string
	for _, g := range e.w.Gateways {
		if g.Behind() {
			out = append(out, "gateway "+g.Name)
		}
	}
	return out
}

func name(r saga.Record) string {
	if r.Subject == "" {
		return r.Kind
	}
	return r.Kind + " of " + r.Subject
}

func at(r saga.Record) string {
	if r.At() == "" {
		return "its end"
	}
	return r.At()
}

// clock shows an instant in UTC; the same day's without its date.
func (e *explainer) clock(t time.Time) string {
	if t.IsZero() {
		return "a time that is not known"
	}
	t = t.UTC()
	if y, m, d := e.Now.UTC().Date(); t.Year() == y && t.Month() == m && t.Day() == d {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// orphans are the gateways that serve the service by a route that this store
// does not have, in order.
func (e *explainer) orphans() []string {
	var out []string
	for _, g := range e.w.Gateways {
		if g.Orphans(e.s.Service) {
			out = append(out, g.Name)
		}
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
