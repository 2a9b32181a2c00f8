package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func (e *explainer) desired() []string {
	if !e.s.Desired.Exists() {
		return e.withBroken(service.KindDesired, "there is no desired document")
	}
	d := e.s.Desired.Value
	by := cmp.Or(d.By, "somebody")
	if d.Deleted {
		return []string{fmt.Sprintf("generation %d is a tombstone, by %s at %s: tear it down", d.Generation, by, e.clock(d.At))}
	}
	out := []string{
		fmt.Sprintf("generation %d, by %s at %s: %s of `%s`", d.Generation, by, e.clock(d.At), plural(d.Instances, "instance"), strings.Join(d.Template.Command, " ")),
		"traffic: " + wanted(d),
	}
	if d.Paused {
		out = append(out, "paused: what is in progress holds before its next step")
	}
	if d.Aborted > 0 {
		out = append(out, fmt.Sprintf("aborted: attempts of generation %d and before are undone and not tried again", d.Aborted))
	}
	if d.Template.Handover != "" {
		out = append(out, "handover: "+d.Template.Handover)
	}
	return out
}

// withBroken is the line, or, where the record is there and cannot be read, that.
func (e *explainer) withBroken(kind, line string) []string {
	for _, b := range e.s.Broken {
		if b.Kind == kind {
			return []string{fmt.Sprintf("%s %s (version %d) cannot be read: %s", kind, b.Name, b.Version, b.Problem)}
		}
	}
	return []string{line}
}

func wanted(d service.Desired) string {
	if len(d.Traffic) == 0 {
		return "all to the latest revision"
	}
	var parts []string
	for _, t := range d.Traffic {
		text := fmt.Sprintf("%d%% to %s", t.Percent, cmp.Or(t.Revision, "the latest revision"))
		if t.Tag != "" {
			text += " (tag " + t.Tag + ")"
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, ", ")
	if d.Pinned() != "" {
		text += "; pinned: a new revision gets 0%"
	}
	return text
}

// sagas tells of what is in flight, else of the newest that ended.
func (e *explainer) sagas() []string {
	var out []string
	for _, r := range e.open {
		out = append(out, e.saga(r)...)
	}
	for _, b := range e.s.Broken {
		if b.Kind == service.KindSaga {
			out = append(out, fmt.Sprintf("saga %s (version %d) cannot be read: %s", b.Name, b.Version, b.Problem))
		}
	}
	if len(out) > 0 {
		return out
	}
	var newest saga.Record
	for _, r := range e.s.Sagas {
		if r.Value.Kind != service.WorkCollect && r.Value.Ended.After(newest.Ended) {
			newest = r.Value
		}
	}
	if newest.ID == "" {
		return []string{"none in flight"}
	}
	line := fmt.Sprintf("none in flight; the last was the %s for generation %d: %s at %s", name(newest), newest.Generation, newest.State, e.clock(newest.Ended))
	if newest.Error != "" {
		line += ": " + newest.Error
	}
	return []string{line}
}

func (e *explainer) saga(r saga.Record) []string {
	head := fmt.Sprintf("%s for generation %d, attempt %d: %s", name(r), r.Generation, r.Attempt, e.state(r))
	out := []string{head}
	for _, s := range r.Steps {
		if s.State == "" {
			continue
		}
		line := "step " + s.Name + " " + s.State
		if s.Text != "" {
			line += ": " + s.Text
		}
		out = append(out, line)
	}
	if p := r.Effects["published"]; p != "" {
		out = append(out, "this attempt published: "+p)
	}
	if len(r.LastLines) > 0 {
		out = append(out, "last lines: "+strings.Join(r.LastLines, " / "))
	}
	return out
}

func (e *explainer) state(r saga.Record) string {
	switch {
	case r.Held != "":
		return r.Held
	case r.State == saga.Waiting:
		return fmt.Sprintf("it failed at %s (%s) and is tried again at %s", r.FailedStep, r.Error, e.clock(r.RetryAt))
	case r.State == saga.Compensating && r.Effects["undo"] != "":
		return fmt.Sprintf("it failed at %s (%s); what it did cannot be undone yet (%s), and is tried again at %s", r.FailedStep, r.Error, r.Effects["undo"], e.clock(r.RetryAt))
	case r.State == saga.Compensating:
		return fmt.Sprintf("it failed at %s (%s), and what it did is being undone", r.FailedStep, r.Error)
	case r.State == saga.Parked:
		return "parked: " + r.Error
	}
	return "it is at " + at(r)
}

func (e *explainer) catalog() []string {
	if !e.s.Catalog.Exists() {
		return e.withBroken(service.KindCatalog, "there is no catalog record: nothing was ever recorded as true")
	}
	c := e.s.Catalog.Value
	c.Service = e.s.Service
	out := []string{fmt.Sprintf("generation %d is applied; %s; the latest revision is %s", c.ObservedGeneration, c.Serving(), cmp.Or(c.Latest, "none"))}
	for _, p := range c.Traffic {
		if p.Tag != "" {
			out = append(out, fmt.Sprintf("tag %s leads to %s", p.Tag, p.Revision))
		}
	}
	if c.Warm != "" {
		out = append(out, fmt.Sprintf("%s is kept warm until %s: going back to it is one write", c.Warm, c.WarmUntil.UTC().Format(time.DateTime)))
	}
	return out
}

func (e *explainer) routes() []string {
	if !e.s.Routes.Exists() {
		return e.withBroken(service.KindRoutes, "nothing is published")
	}
	r := e.s.Routes
	line := fmt.Sprintf("table %d: %s", r.Version, service.PlanText(r.Value.Plan))
	if r.Value.Reason != "" {
		line += "; because " + r.Value.Reason
	}
	out := []string{line}
	for _, p := range r.Value.Earlier {
		out = append(out, fmt.Sprintf("before, from table %d on: %s", p.Sequence, service.PlanText(p.Plan)))
	}
	return slices.Clip(out)
}
