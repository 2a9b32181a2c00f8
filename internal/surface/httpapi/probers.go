package httpapi

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// ListProbers says who looks at instances.
func (a *API) ListProbers(context.Context, *connect.Request[fairleadv1.ListProbersRequest]) (*connect.Response[fairleadv1.ListProbersResponse], error) {
	out := &fairleadv1.ListProbersResponse{}
	if a.Discovery == nil {
		return connect.NewResponse(out), nil
	}
	all, unlooked, observing := a.Discovery.Probers()
	out.Observing, out.Unwatched = observing, int32(unlooked)
	for _, p := range all {
		m := &fairleadv1.ProberStatus{
			Name: p.Name, Zone: p.Zone, Connected: p.Connected, Silent: durationpb.New(p.Silent), Targets: int32(p.Targets), Borrowed: int32(p.Borrowed),
			Assignment: p.Assignment, Gone: p.Gone, Suspect: !p.Suspect.IsZero(), SuspectSince: timestamp(p.Suspect), Why: p.Why,
		}
		if !p.Looked.IsZero() {
			m.Looked = durationpb.New(max(time.Since(p.Looked), 0))
		}
		out.Probers = append(out.Probers, m)
	}
	return connect.NewResponse(out), nil
}
