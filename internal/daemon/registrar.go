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
	c    *controlRole
	here fairleadv1connect.RegistryServiceHandler
}

func (r registrar) Register(ctx context.Context, m *fairleadv1.RegisterRequest) (*fairleadv1.RegisterResponse, error) {
	return answer(ctx, r, m, r.here.Register, fairleadv1connect.RegistryServiceClient.Register)
}

func (r registrar) RenewLease(ctx context.Context, m *fairleadv1.RenewLeaseRequest) (*fairleadv1.RenewLeaseResponse, error) {
	return answer(ctx, r, m, r.here.RenewLease, fairleadv1connect.RegistryServiceClient.RenewLease)
}

func (r registrar) Deregister(ctx context.Context, m *fairleadv1.DeregisterRequest) (*fairleadv1.DeregisterResponse, error) {
	return answer(ctx, r, m, r.here.Deregister, fairleadv1connect.RegistryServiceClient.Deregister)
}

type method[Req, Resp any] = func(context.Context, *connect.Request[Req]) (*connect.Response[Resp], error)

// answer asks here, or the leader where this control stands by.
func answer[Req, Resp any](ctx context.Context, r registrar, m *Req, here method[Req, Resp],
	there func(fairleadv1connect.RegistryServiceClient, context.Context, *connect.Request[Req]) (*connect.Response[Resp], error),
) (*Resp, error) {
	req := connect.NewRequest(m)
	if !r.c.shared() || r.c.leader.Leading() {
		resp, err := here(ctx, req)
		if err != nil {
			return nil, fault.ToGRPC(err)
		}
		return resp.Msg, nil
	}
	leader := r.c.leader.Leader()
	if leader.Address == "" {
		return nil, fault.ToGRPC(fault.New(fault.Unavailable, "ask again in some seconds, or another control", "%w", errors.New(standing(leader))))
	}
	ctx, cancel := context.WithTimeout(ctx, askLeader)
	defer cancel()
	req.Header().Set(passed, processName())
	req.Header().Set(httpapi.OnBehalf, identity.PeerFromContext(ctx).ID.String())
	client := fairleadv1connect.NewRegistryServiceClient(&http.Client{Transport: r.c.way.transport}, "https://"+leader.Address)
	resp, err := there(client, ctx, req)
	if err != nil {
		return nil, fault.ToGRPC(fault.FromConnect(err))
	}
	return resp.Msg, nil
}
