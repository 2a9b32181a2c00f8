package httpapi

import (
	"context"
	"slices"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/explain"
)

// ExplainService says what each record and each part of the world says, where
// they differ, which one wins and why. It explains what cannot be read too, and
// what only a gateway remembers.
func (a *API) ExplainService(ctx context.Context, req *connect.Request[fairleadv1.ExplainServiceRequest]) (*connect.Response[fairleadv1.ExplainServiceResponse], error) {
	name := req.Msg.GetService()
	s, w, err := a.snapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	if s.Empty() && a.orphanOf(name) == "" {
		return nil, a.noService(ctx, name)
	}
	for i := range s.Sagas {
		s.Sagas[i].Value = a.dueAt(s.Sagas[i].Value)
	}
	needs := a.Leader.Alarms(name)
	if named := s.Catalog.Value.NeedsOperator; named != "" && !slices.Contains(needs, named) {
		needs = append(needs, named)
	}
	r := explain.Explain(explain.Facts{
		Snapshot: s, World: w, Leading: a.Leader.Leading(), NeedsOperator: needs, Alarms: a.Leader.Alarms(""), Stops: a.stops(name), Refused: a.refusedNamed(ctx, name), Now: a.Now(),
	})
	out := &fairleadv1.ExplainServiceResponse{Service: r.Service, Summary: r.Summary}
	for _, section := range r.Sections {
		out.Sections = append(out.Sections, &fairleadv1.ExplainSection{Title: section.Title, Lines: section.Lines})
	}
	return connect.NewResponse(out), nil
}
