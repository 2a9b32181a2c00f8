package httpapi

import (
	"fmt"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// steps are those whose state or text has not been told yet, in their order.
func (f *follower) steps(r saga.Record) []*fairleadv1.StepProgress {
	var out []*fairleadv1.StepProgress
	for _, s := range r.Steps {
		key := fmt.Sprintf("%s/%d/%s", r.ID, r.Attempt, s.Name)
		told := f.told[key]
		if s.State == "" || told.State == s.State && told.Text == s.Text {
			continue
		}
		f.told[key] = s
		if s.State == "failed" && r.Kind == service.WorkDelete {
			s.State, s.Text = "waiting", s.Text+"; it goes on by itself"
		}
		out = append(out, &fairleadv1.StepProgress{
			Step: s.Name, State: s.State, Text: s.Text, Took: duration(s.Took), Attempt: r.Attempt, Revision: r.Subject,
		})
	}
	if r.Held != "" && r.Open() {
		held := saga.Step{Name: r.At(), State: "held", Text: r.Held}
		if key := r.ID + "/held"; f.told[key].Text != held.Text {
			f.told[key] = held
			out = append(out, &fairleadv1.StepProgress{Step: held.Name, State: held.State, Text: held.Text, Attempt: r.Attempt, Revision: r.Subject})
		}
	}
	return out
}

// end says how the generation ended, or nil while it goes on.
func (f *follower) end(r saga.Record, known bool) *fairleadv1.DeploymentEnd {
	d, c := f.desired.value, f.catalog.value
	if known && r.Generation == f.generation {
		if e := f.sagaEnd(r); e != nil {
			return e
		}
	}
	if acted, ok := f.settled(); ok {
		return f.ended("done", acted, acted.Held)
	}
	switch {
	case !f.desired.exists:
		return f.gone("deleted", r, f.service+" is gone")
	case !d.Deleted && f.applied(r, known):
		r.Subject = c.Latest
		return f.ended("done", r, "")
	case d.Generation > f.generation && !(known && goesOn(r)):
		return f.superseded(r)
	}
	return nil
}

// goesOn says that a saga will itself say how it ends: a later generation ends
// it only where it asks for something else, and a pause or a scale does not.
func goesOn(r saga.Record) bool { return r.State == saga.Running || r.State == saga.Compensating }

// settled says that a change that acts on what is in progress has had its
// effect: something is held, or all of it has ended.
func (f *follower) settled() (saga.Record, bool) {
	if !f.desired.exists || f.desired.value.Generation > f.generation {
		return saga.Record{}, false
	}
	newest := saga.Record{}
	for _, h := range f.sagas {
		if f.kind == kindPause && h.value.Open() && h.value.Held != "" {
			return h.value, true
		}
		if h.value.Generation < f.generation && h.value.Open() {
			return saga.Record{}, false
		}
		if newest.ID == "" || h.value.Started.After(newest.Started) {
			newest = h.value
		}
	}
	return newest, f.kind == kindAbort
}

// applied says whether all that the generation asked for is true. A later one
// that is applied says so of this one only where this one's own work was done:
// it may have been superseded before it began.
func (f *follower) applied(r saga.Record, known bool) bool {
	at := f.catalog.value.ObservedGeneration
	if known && r.Open() {
		return false
	}
	return at == f.generation || at > f.generation && known && r.State == saga.Done
}

func (f *follower) sagaEnd(r saga.Record) *fairleadv1.DeploymentEnd {
	switch r.State {
	case saga.Done:
		if f.kind == "" || r.Kind != f.kind {
			return nil // a generation may ask for more than one saga does
		}
		return f.ended("done", r, "")
	case saga.Superseded:
		return f.superseded(r)
	case saga.Failed:
		return f.failed(r, "it is not tried again; deploy again when the cause is gone")
	case saga.Waiting:
		if r.Kind == service.WorkDelete {
			return nil // it is only taken forward, until nothing is left
		}
		if f.desired.exists && f.desired.value.Generation > f.generation {
			return nil // said to be superseded instead
		}
		return f.failed(r, "")
	case saga.Parked:
		return f.failed(r, "it needs an operator: look at `fairlead status "+f.service+"` and `fairlead events "+f.service+"`")
	}
	return nil
}

func (f *follower) failed(r saga.Record, hint string) *fairleadv1.DeploymentEnd {
	e := f.ended("failed", r, r.Error)
	e.Step, e.LastLines, e.Hint = stepOf(r), r.LastLines, hint
	if r.State == saga.Waiting {
		e.RetryAt = timestamp(f.api.dueAt(r).RetryAt)
	}
	return e
}

func (f *follower) superseded(r saga.Record) *fairleadv1.DeploymentEnd {
	d := f.desired.value
	author, what := d.By, "generation "+fmt.Sprint(d.Generation)
	if author == "" {
		author = "somebody"
	}
	if !f.desired.exists { // nobody is left to say by whom
		return f.gone("superseded", r, "superseded by the deletion of "+f.service+", which is gone")
	}
	if d.Deleted {
		return f.gone("superseded", r, fmt.Sprintf("superseded by the deletion of %s (%s), asked for by %s", f.service, what, author))
	}
	return f.ended("superseded", r, fmt.Sprintf("superseded by %s, asked for by %s", what, author))
}

// gone is an end after which nothing of the service serves for long.
func (f *follower) gone(outcome string, r saga.Record, reason string) *fairleadv1.DeploymentEnd {
	e := f.ended(outcome, r, reason)
	e.Serving, e.Url = "", ""
	return e
}

func (f *follower) ended(outcome string, r saga.Record, reason string) *fairleadv1.DeploymentEnd {
	c := f.catalog.value
	c.Service = f.service
	e := &fairleadv1.DeploymentEnd{
		Outcome: outcome, Revision: r.Subject, Reason: reason, Serving: c.Serving(),
		Url: f.api.url(service.LocalHost(f.service)),
	}
	if outcome == "done" {
		e.Hint = f.unserved(r)
	}
	return e
}

// unserved says that what was deployed got no traffic, and how to move it.
func (f *follower) unserved(r saga.Record) string {
	at := f.desired.value.Pinned()
	if r.Kind != service.WorkDeploy || f.onEarlier() && f.kind != kindResume || at == "" || f.catalog.value.Serves(f.catalog.value.Latest) {
		return ""
	}
	return fmt.Sprintf("%s got 0%% of the traffic, which is pinned (%s); to move it: fairlead traffic %s %s=100",
		f.catalog.value.Latest, at, f.service, service.LatestRevision)
}
