package httpapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// ListSubscribers says who routes by a service's view.
func (a *API) ListSubscribers(ctx context.Context, req *connect.Request[fairleadv1.ListSubscribersRequest]) (*connect.Response[fairleadv1.ListSubscribersResponse], error) {
	name := req.Msg.GetService()
	out := &fairleadv1.ListSubscribersResponse{Service: name}
	if a.Views == nil {
		return connect.NewResponse(out), a.known(ctx, name)
	}
	h := a.Views.Holding(ctx, name, int(req.Msg.GetMost()))
	if h.Published.Zero() && len(h.Rows) == 0 {
		if err := a.known(ctx, name); err != nil {
			return nil, err
		}
	}
	out.Published, out.Callers, out.More, out.Unheard = h.Published.String(), int32(h.Callers), int32(h.More), h.Unheard
	out.Refused = int32(h.Refused)
	for _, v := range h.Versions {
		out.Versions = append(out.Versions, &fairleadv1.HeldVersion{Version: v.Version.String(), Holders: int32(v.Holders), Behind: span(v.Behind)})
	}
	tables := a.tables()
	for _, r := range h.Rows {
		row := subscriberTo(r)
		if r.Role == string(identity.Gateway) {
			row.Routes = tables[r.Name]
		}
		out.Subscribers = append(out.Subscribers, row)
	}
	return connect.NewResponse(out), nil
}

// tables that gateways serve: :: gateway → version.
func (a *API) tables() map[string]string {
	out := map[string]string{}
	for _, g := range a.Gateways.States() {
		out[g.Name] = g.Serves.String()
	}
	return out
}

func subscriberTo(r service.ViewHolder) *fairleadv1.SubscriberRow {
	stands, until := r.Stands()
	return &fairleadv1.SubscriberRow{
		Stands: stands, Until: until,
		Role: r.Role, Name: r.Name, Via: r.Via, Library: r.Library, Version: r.Version.String(), Current: r.Current, Connected: r.Connected,
		Behind: span(r.Behind), Silent: durationpb.New(r.Silent), Objection: r.Objection, Missing: r.Missing,
		Refused: span(r.Refused),
	}
}

// span is absent where it is zero.
func span(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// refused are how many callers a service's policy refuses that hold a view of it.
func (a *API) refused(name string) int32 {
	if a.Views == nil {
		return 0
	}
	return int32(a.Views.Refused(name))
}

// refusedNamed says of those how they stand, in words.
func (a *API) refusedNamed(ctx context.Context, name string) (out []string) {
	n := a.refused(name)
	if n == 0 {
		return nil
	}
	for _, r := range a.Views.Holding(ctx, name, 0).Rows {
		if r.Refused > 0 && r.Connected && len(out) < lateNamed {
			words, _ := r.Stands()
			out = append(out, fmt.Sprintf("%s/%s is %s: the policy wins for what is new, what it holds until its process ends or the policy allows it", r.Role, r.Name, words))
		}
	}
	if more := int(n) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d callers more are refused by policy and may still pick by what they hold: fairlead subscribers %s", more, name))
	}
	return out
}

// lateNamed callers are named by GetPropagation.
const lateNamed = 10

// GetPropagation says how soon a service's versions were acknowledged.
func (a *API) GetPropagation(ctx context.Context, req *connect.Request[fairleadv1.GetPropagationRequest]) (*connect.Response[fairleadv1.GetPropagationResponse], error) {
	name := req.Msg.GetService()
	out := &fairleadv1.GetPropagationResponse{Service: name}
	if a.Views == nil {
		return connect.NewResponse(out), a.known(ctx, name)
	}
	r, published := a.Views.Propagation(name)
	if !published {
		return connect.NewResponse(out), a.known(ctx, name)
	}
	out.Published, out.Callers = r.Published.String(), int32(r.Callers)
	for i := range r.Latency {
		out.Latencies = append(out.Latencies, latencyTo(budget.Kind(i), &r.Latency[i]))
	}
	for _, p := range r.Promises {
		out.Promises = append(out.Promises, &fairleadv1.PropagationPromise{
			Kind: p.Kind.String(), Within: durationpb.New(p.Within), Share: p.Share, Due: int64(p.Due), InTime: int64(p.InTime), Missed: p.Missed(),
		})
	}
	h := a.Views.Holding(ctx, name, lateNamed)
	for _, row := range slices.DeleteFunc(h.Rows, func(r service.ViewHolder) bool { return r.Current || r.Refused > 0 }) {
		out.Behind = append(out.Behind, subscriberTo(row))
	}
	window, why := a.Views.Sheds()
	out.Shed, out.ShedWhy = span(window), why
	return connect.NewResponse(out), nil
}

func latencyTo(k budget.Kind, h *budget.Histogram) *fairleadv1.PropagationLatency {
	at := func(share float64) *durationpb.Duration {
		within, _ := h.Quantile(share)
		return span(within)
	}
	return &fairleadv1.PropagationLatency{Kind: k.String(), Acknowledged: int64(h.Count()), Half: at(0.5), P99: at(0.99), P999: at(0.999)}
}
