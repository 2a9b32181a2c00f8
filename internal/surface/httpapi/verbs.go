package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// SetTraffic divides the traffic anew, or moves tags.
func (a *API) SetTraffic(ctx context.Context, req *connect.Request[fairleadv1.SetTrafficRequest]) (*connect.Response[fairleadv1.SetTrafficResponse], error) {
	m := req.Msg
	v := verb{name: "traffic", service: m.GetService(), expected: m.GetExpectedGeneration(), by: m.GetBy(), detail: wantedText}
	generation, err := a.verb(ctx, v, func(s standing) (service.Desired, error) {
		return service.SetTraffic(s.desired, targetsOf(m.GetTraffic()), m.GetTags(), s.revisions)
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.SetTrafficResponse{Generation: generation}), nil
}

// RollbackService chooses what served before and, unless it only looks, pins
// all traffic to it and brings its configuration back.
func (a *API) RollbackService(ctx context.Context, req *connect.Request[fairleadv1.RollbackServiceRequest]) (*connect.Response[fairleadv1.RollbackServiceResponse], error) {
	m := req.Msg
	var choice service.RollbackChoice
	choose := func(s standing) (err error) {
		choice, err = service.ChooseRollback(s.desired, s.catalog, s.revisions, m.GetTo())
		if err == nil && m.GetExpectedRevision() != "" && choice.Revision != m.GetExpectedRevision() {
			err = fault.New(fault.Conflict, "run it again", "a rollback of %s goes to %s by now, not to %s: nothing was changed", m.GetService(), choice.Revision, m.GetExpectedRevision())
		}
		return err
	}
	v := verb{name: "rollback", service: m.GetService(), expected: m.GetExpectedGeneration(), by: m.GetBy()}
	v.detail = func(service.Desired) string { return "to " + choice.Revision + " (" + choice.Reason + ")" }
	var generation int32
	var err error
	if m.GetDryRun() {
		generation, err = a.look(ctx, v, choose)
	} else {
		generation, err = a.verb(ctx, v, func(s standing) (service.Desired, error) {
			if err := choose(s); err != nil {
				return service.Desired{}, err
			}
			next := service.Rollback(s.desired, choice, s.revisions)
			return next, next.Check()
		})
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.RollbackServiceResponse{Generation: generation, Revision: choice.Revision, Reason: choice.Reason, Warm: choice.Warm}), nil
}

// AbortService ends what is in progress.
func (a *API) AbortService(ctx context.Context, req *connect.Request[fairleadv1.AbortServiceRequest]) (*connect.Response[fairleadv1.AbortServiceResponse], error) {
	v := verb{name: "abort", service: req.Msg.GetService(), expected: req.Msg.GetExpectedGeneration(), by: req.Msg.GetBy()}
	generation, err := a.verb(ctx, v, func(s standing) (service.Desired, error) {
		return service.Abort(s.desired, s.catalog, s.revisions, s.sagas)
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.AbortServiceResponse{Generation: generation}), nil
}

// PauseService has what is in progress hold before its next step.
func (a *API) PauseService(ctx context.Context, req *connect.Request[fairleadv1.PauseServiceRequest]) (*connect.Response[fairleadv1.PauseServiceResponse], error) {
	v := verb{name: "pause", service: req.Msg.GetService(), expected: req.Msg.GetExpectedGeneration(), by: req.Msg.GetBy()}
	generation, err := a.verb(ctx, v, func(s standing) (service.Desired, error) { return service.Pause(s.desired) })
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.PauseServiceResponse{Generation: generation}), nil
}

// ResumeService ends a pause.
func (a *API) ResumeService(ctx context.Context, req *connect.Request[fairleadv1.ResumeServiceRequest]) (*connect.Response[fairleadv1.ResumeServiceResponse], error) {
	v := verb{name: "resume", service: req.Msg.GetService(), expected: req.Msg.GetExpectedGeneration(), by: req.Msg.GetBy()}
	generation, err := a.verb(ctx, v, func(s standing) (service.Desired, error) { return service.Resume(s.desired) })
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.ResumeServiceResponse{Generation: generation}), nil
}

// verb is one edit of a service that stands.
type verb struct {
	name, service string
	expected      int32 // generation that the caller read; zero means whichever stands
	by            string
	// detail is what history says of it beside its name; nil says nothing.
	detail func(next service.Desired) string
}

// standing is what a verb is decided by.
type standing struct {
	desired   service.Desired
	catalog   service.Catalog
	catalogAt uint64 // version of the catalog; zero where there is none
	revisions []service.Revision
	sagas     []saga.Record
}

// verb writes what edit makes of what stands, bound to the desired document and
// to the catalog that it was made from: what is recorded as true meanwhile has
// it decided anew.
func (a *API) verb(ctx context.Context, v verb, edit func(standing) (service.Desired, error)) (int32, error) {
	author := service.Author{By: by(ctx, v.by), At: a.Now()}
	return a.changeBound(ctx, v.service, v.name, func(c *change) error {
		s, err := a.stands(ctx, v, *c.old)
		if err != nil {
			return err
		}
		if c.next, err = edit(s); err != nil {
			return err
		}
		c.next.By, c.next.At = author.By, author.At
		if v.detail != nil {
			c.verb = v.name + " " + v.detail(c.next)
		}
		c.checks = append(c.checks, store.Check{Key: store.Key{Kind: service.KindCatalog, Name: v.service}, Version: s.catalogAt})
		return nil
	})
}

// look decides and writes nothing. It returns the generation that it looked at.
func (a *API) look(ctx context.Context, v verb, decide func(standing) error) (int32, error) {
	c, err := a.standing(ctx, v.service)
	if err != nil {
		return 0, err
	}
	s, err := a.stands(ctx, v, *c.old)
	if err != nil {
		return 0, err
	}
	return s.desired.Generation, decide(s)
}

func (a *API) stands(ctx context.Context, v verb, d service.Desired) (standing, error) {
	s := standing{desired: d}
	if v.expected != 0 && v.expected != d.Generation {
		return s, generationStands(d, fmt.Sprintf("look at `fairlead status %s` and run it again", v.service))
	}
	var err error
	if s.catalog, s.catalogAt, _, err = get[service.Catalog](ctx, a.Store, service.KindCatalog, v.service); err != nil {
		return s, err
	}
	if s.revisions, err = a.revisions(ctx, v.service); err != nil {
		return s, err
	}
	s.sagas, err = a.sagas(ctx, v.service)
	return s, err
}

// targetsOf are the shares asked for; LATEST is the latest revision.
func targetsOf(all []*fairleadv1.TrafficTarget) []service.Target {
	out := make([]service.Target, 0, len(all))
	for _, t := range all {
		out = append(out, service.Target{Revision: t.GetRevision(), Percent: int(t.GetPercent()), Tag: t.GetTag()})
	}
	return out
}

// wantedText says in words where traffic is asked to go.
func wantedText(d service.Desired) string {
	if len(d.Traffic) == 0 {
		return "to the latest revision"
	}
	parts := make([]string, 0, len(d.Traffic))
	for _, t := range d.Traffic {
		text := fmt.Sprintf("%d%% to %s", t.Percent, cmp.Or(t.Revision, "the latest revision"))
		if t.Tag != "" {
			text += " (tag " + t.Tag + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
