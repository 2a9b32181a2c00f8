package agent

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/resolver"
)

// Resolve shows the view that the agent picks by.
func (a *Agent) Resolve(ctx context.Context, req *connect.Request[fairleadv1.ResolveRequest]) (*connect.Response[fairleadv1.ResolveResponse], error) {
	name := req.Msg.GetService()
	r, err := a.resolve(ctx, workloadOf(ctx), name, req.Msg.GetWait().AsDuration())
	if err != nil {
		return nil, err
	}
	m := &fairleadv1.ResolveResponse{Service: name}
	if r.View != nil {
		m = wire.ResolvedProto(r.View)
	}
	m.Source, m.Connected, m.Age, m.Objection, m.Refused = r.Source, r.Connected, durationpb.New(r.Age), r.Objection, r.Refused
	for _, e := range m.GetEndpoints() {
		for _, x := range r.Ejected {
			e.Ejected = e.GetEjected() || x.ID == e.GetInstance()
		}
	}
	return connect.NewResponse(m), nil
}

// Pick gives one endpoint for one request.
func (a *Agent) Pick(ctx context.Context, req *connect.Request[fairleadv1.PickRequest]) (*connect.Response[fairleadv1.PickResponse], error) {
	m, workload := req.Msg, workloadOf(ctx)
	options, err := optionsOf(m)
	if err != nil {
		return nil, err
	}
	r, err := a.resolve(ctx, workload, m.GetService(), m.GetWait().AsDuration())
	if err != nil {
		return nil, err
	}
	p, err := a.cfg.Resolver.Pick(m.GetService(), options...)
	if err != nil {
		return nil, unpicked(err)
	}
	e := p.Endpoint()
	out := &fairleadv1.PickResponse{Endpoint: wire.ResolvedEndpointProto(&e), Pick: a.picks.add(workload, m.GetService(), p)}
	if r.View != nil {
		out.Version = wire.VersionText(r.View.Version)
	}
	return connect.NewResponse(out), nil
}

func optionsOf(m *fairleadv1.PickRequest) (options []resolver.Option, err error) {
	for _, id := range m.GetExclude() {
		options = append(options, resolver.Exclude(id))
	}
	if m.GetRevision() != "" {
		options = append(options, resolver.Revision(m.GetRevision()))
	}
	if m.GetTag() != "" {
		options = append(options, resolver.Tag(m.GetTag()))
	}
	switch m.GetVerified() {
	case "":
	case "prefer":
		options = append(options, resolver.PreferVerified())
	case "require":
		options = append(options, resolver.RequireVerified())
	default:
		return nil, fault.New(fault.Invalid, "say verified=prefer or verified=require, or leave it out", "verified is %q", m.GetVerified())
	}
	if m.GetRetry() {
		options = append(options, resolver.Retry())
	}
	return options, nil
}

// unpicked gives the reason its code.
func unpicked(err error) error {
	if errors.Is(err, resolver.ErrRetryBudget) {
		return fault.New(fault.Exhausted, "answer your caller that it failed", "%w", err)
	}
	return fault.New(fault.Unavailable, "", "%w", err)
}

// mostOutcomes of one report.
const mostOutcomes = 10_000

// Report says what became of picks. Those of others, and unknown ones, are
// discarded and counted.
func (a *Agent) Report(ctx context.Context, req *connect.Request[fairleadv1.ReportRequest]) (*connect.Response[fairleadv1.ReportResponse], error) {
	all, workload := req.Msg.GetOutcomes(), workloadOf(ctx)
	if len(all) > mostOutcomes {
		return nil, fault.New(fault.Invalid, "send them in parts", "%d outcomes are too many at once: at most %d", len(all), mostOutcomes)
	}
	outcomes := make([]resolver.Outcome, len(all))
	for i, o := range all { // first all of them: a report is taken whole or not at all
		known := false
		if outcomes[i], known = outcomeOf(o.GetOutcome()); !known {
			return nil, fault.New(fault.Invalid, "say good, failed, refused, stale or unknown", "outcome %d is %q", i+1, o.GetOutcome())
		}
	}
	resp := &fairleadv1.ReportResponse{}
	for i, o := range all {
		p, mine := a.picks.take(workload, o.GetPick())
		if !mine {
			resp.Discarded++
			continue
		}
		if r, err := a.cfg.Resolver.Resolve(p.service); err == nil && r.View != nil && a.may(workload, p.service, r.View.Callers) != nil {
			p.pick.Done(resolver.Unknown) // its policy was changed meanwhile
			resp.Discarded++
			continue
		}
		p.pick.DoneBytes(outcomes[i], o.GetBytes())
		resp.Taken++
	}
	a.metrics.outcomes.WithLabelValues("taken").Add(float64(resp.GetTaken()))
	a.metrics.outcomes.WithLabelValues("discarded").Add(float64(resp.GetDiscarded()))
	return connect.NewResponse(resp), nil
}

func outcomeOf(s string) (resolver.Outcome, bool) {
	for o := resolver.Unknown; o <= resolver.Stale; o++ {
		if o.String() == s {
			return o, true
		}
	}
	return resolver.Unknown, false
}

// GetAgent says how the agent stands.
func (a *Agent) GetAgent(ctx context.Context, _ *connect.Request[fairleadv1.GetAgentRequest]) (*connect.Response[fairleadv1.GetAgentResponse], error) {
	s := a.cfg.Resolver.Status()
	a.mu.Lock()
	refused := a.refused
	a.mu.Unlock()
	m := &fairleadv1.GetAgentResponse{
		Identity: a.cfg.Identity(), Connected: s.Connected, Plane: s.Plane, Age: durationpb.New(s.Age), Workload: workloadOf(ctx),
		PicksOpen: uint64(a.picks.len()), Reported: s.Reported, Dropped: s.Dropped, Refused: refused, Notes: s.Notes,
	}
	for _, v := range s.Services {
		m.Views = append(m.Views, &fairleadv1.HeldView{
			Service: v.Service, Version: wire.VersionText(v.ViewStatus.Version), Source: v.Source, Endpoints: uint32(v.Endpoints), Objection: v.Objection, Refused: v.Refused,
		})
	}
	return connect.NewResponse(m), nil
}
