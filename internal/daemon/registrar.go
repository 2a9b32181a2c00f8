package daemon

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
)

// registrar serves the registry to workloads, which speak gRPC among roles. A
// control that stands by asks the leader on their behalf.
type registrar struct {
	fairleadv1.UnimplementedRegistryServiceServer
	c *controlRole
}

type registry = fairleadv1connect.RegistryServiceClient

func (r registrar) Register(ctx context.Context, m *fairleadv1.RegisterRequest) (*fairleadv1.RegisterResponse, error) {
	return answer(ctx, r.c, m, r.c.api.Register, r.there, registry.Register)
}

func (r registrar) RenewLease(ctx context.Context, m *fairleadv1.RenewLeaseRequest) (*fairleadv1.RenewLeaseResponse, error) {
	return answer(ctx, r.c, m, r.c.api.RenewLease, r.there, registry.RenewLease)
}

func (r registrar) Deregister(ctx context.Context, m *fairleadv1.DeregisterRequest) (*fairleadv1.DeregisterResponse, error) {
	return answer(ctx, r.c, m, r.c.api.Deregister, r.there, registry.Deregister)
}

func (registrar) there(c *http.Client, url string) registry {
	return fairleadv1connect.NewRegistryServiceClient(c, url)
}

// resolving shows views to callers, likewise.
type resolving struct {
	fairleadv1.UnimplementedResolveServiceServer
	c *controlRole
}

func (r resolving) Resolve(ctx context.Context, m *fairleadv1.ResolveRequest) (*fairleadv1.ResolveResponse, error) {
	there := func(c *http.Client, url string) fairleadv1connect.ResolveServiceClient {
		return fairleadv1connect.NewResolveServiceClient(c, url)
	}
	return answer(ctx, r.c, m, r.c.api.Resolve, there, fairleadv1connect.ResolveServiceClient.Resolve)
}

type method[Req, Resp any] = func(context.Context, *connect.Request[Req]) (*connect.Response[Resp], error)

// answer asks here, or the leader where this control stands by.
func answer[Req, Resp, Client any](ctx context.Context, c *controlRole, m *Req, here method[Req, Resp], dial func(*http.Client, string) Client,
	there func(Client, context.Context, *connect.Request[Req]) (*connect.Response[Resp], error),
) (*Resp, error) {
	req := connect.NewRequest(m)
	if !c.shared() || c.leader.Leading() {
		resp, err := here(ctx, req)
		if err != nil {
			return nil, fault.ToGRPC(httpapi.Coded(err))
		}
		return resp.Msg, nil
	}
	leader := c.leader.Leader()
	if leader.Address == "" {
		return nil, fault.ToGRPC(fault.New(fault.Unavailable, "ask again in some seconds, or another control", "%w", errors.New(standing(leader))))
	}
	ctx, cancel := context.WithTimeout(ctx, askLeader)
	defer cancel()
	req.Header().Set(passed, processName())
	req.Header().Set(httpapi.OnBehalf, identity.PeerFromContext(ctx).ID.String())
	resp, err := there(dial(&http.Client{Transport: c.way.transport}, "https://"+leader.Address), ctx, req)
	if err != nil {
		return nil, fault.ToGRPC(fault.FromConnect(err))
	}
	return resp.Msg, nil
}
