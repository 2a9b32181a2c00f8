package httpapi

import (
	"context"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/view"
)

// DecideGuard takes a person's decision about trips that wait for one.
func (a *API) DecideGuard(ctx context.Context, req *connect.Request[fairleadv1.DecideGuardRequest]) (*connect.Response[fairleadv1.DecideGuardResponse], error) {
	m := req.Msg
	if err := a.known(ctx, m.GetService()); err != nil {
		return nil, err
	}
	if a.Discovery == nil {
		return nil, fault.New(fault.Unavailable, "", "nothing is observed here")
	}
	d := discovery.GuardDecision{Group: m.GetGroup(), Zone: m.GetZone(), Decision: view.Declined, By: by(ctx, m.GetBy())}
	if m.GetAccept() {
		d.Decision = view.Accepted
	}
	all, err := a.Discovery.Decide(ctx, m.GetService(), d)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.DecideGuardResponse{Decided: guardsTo(all)}), nil
}

func (a *API) guards(name string) []*fairleadv1.GuardState {
	if a.Discovery == nil {
		return nil
	}
	return guardsTo(a.Discovery.Guards(name))
}

func guardsTo(all []discovery.GuardState) (out []*fairleadv1.GuardState) {
	for _, g := range all {
		out = append(out, &fairleadv1.GuardState{
			Group: g.Group, Zone: g.Zone, Mode: string(g.Mode), Counted: int32(g.Counted), In: int32(g.In), Served: int32(g.Served),
			Decision: string(g.Decision), By: g.By, Since: timestamp(g.Since),
		})
	}
	return out
}
