package httpapi

import (
	"context"
	"math"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// ListRouters says who may route a service's requests.
func (a *API) ListRouters(ctx context.Context, req *connect.Request[fairleadv1.ListRoutersRequest]) (*connect.Response[fairleadv1.ListRoutersResponse], error) {
	name := req.Msg.GetService()
	s, w, err := a.snapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	var h service.Holding
	if a.Views != nil {
		h = a.Views.Holding(ctx, name, int(req.Msg.GetMost()))
	}
	if s.Empty() && h.Published.Zero() && len(h.Rows) == 0 && a.orphanOf(name) == "" {
		return nil, a.noService(ctx, name)
	}
	out := &fairleadv1.ListRoutersResponse{
		Service: name, View: h.Published.String(), Callers: int32(h.Callers), More: int32(h.More), Unheard: h.Unheard, Stops: a.stops(name),
	}
	if s.Routes.Exists() {
		out.Plan = service.PlanText(s.Routes.Value.Plan)
		out.Routes = view.Version{Incarnation: w.Incarnation, Epoch: a.Leader.Epoch().Number, Counter: s.Routes.Version}.String()
	}
	for _, r := range s.Routers(w, h) {
		out.Routers = append(out.Routers, routerTo(r))
	}
	return connect.NewResponse(out), nil
}

func routerTo(r routing.Router) *fairleadv1.Router {
	out := &fairleadv1.Router{
		Role: r.Role, Name: r.Name, Via: r.Via, Serves: r.Serves.String(), Keeps: r.Keeps.String(), View: r.View.String(), Connected: r.Connected,
		Stands: r.Stands, MayRoute: r.MayRoute, Until: r.Until,
	}
	if r.Connected || r.Silent > 0 && r.Silent < math.MaxInt64 {
		out.Silent = durationpb.New(r.Silent)
	}
	return out
}

// stops of a service that wait for callers, in words.
func (a *API) stops(name string) (out []string) {
	for _, w := range a.Leader.Stops(name) {
		out = append(out, w.Text())
	}
	return out
}
