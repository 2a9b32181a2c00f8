package httpapi

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/may"
	"github.com/fairlead-platform/fairlead/internal/wire"
)

// Resolve shows the view that is published of a service, to those whom its
// policy allows.
func (a *API) Resolve(ctx context.Context, req *connect.Request[fairleadv1.ResolveRequest]) (*connect.Response[fairleadv1.ResolveResponse], error) {
	name := req.Msg.GetService()
	who, err := registrant(ctx, req.Header())
	if err != nil {
		return nil, err
	}
	if a.Views == nil {
		return nil, fault.New(fault.Unavailable, "ask the control that leads", "no views are published here")
	}
	v, age := a.Views.Newest(name)
	if v == nil {
		return nil, a.viewless(ctx, name)
	}
	if err := may.Check(may.Caller{Role: string(who.Role), Name: who.Name}, name, v.Callers); err != nil {
		a.Refused(err)
		return nil, fault.Wrap(fault.Forbidden, "", err)
	}
	m := wire.ResolvedProto(v)
	m.Source, m.Connected, m.Age = "published", true, durationpb.New(age)
	return connect.NewResponse(m), nil
}

// viewless says why there is no view of a service.
func (a *API) viewless(ctx context.Context, name string) error {
	if err := a.known(ctx, name); err != nil {
		return err
	}
	return fault.New(fault.Unavailable, "ask again in a few seconds; `fairlead status "+name+"` says how far it is", "no view of %s is published yet", name)
}
