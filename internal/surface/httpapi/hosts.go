package httpapi

import (
	"cmp"
	"context"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// members are the known hosts, by name.
func (a *API) members(ctx context.Context) ([]service.Host, error) {
	known, _, err := list[service.Host](ctx, a.Store, service.KindHost, nil)
	return slices.DeleteFunc(known, func(h service.Host) bool { return h.Retired }), err
}

// knownHost refuses a name that no host has.
func (a *API) knownHost(ctx context.Context, name string) error {
	known, err := a.members(ctx)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(known))
	for _, h := range known {
		names = append(names, h.Name)
	}
	return isKnown("host", name, names)
}

// RetireHost ends the membership of a host that will not come back.
func (a *API) RetireHost(ctx context.Context, req *connect.Request[fairleadv1.RetireHostRequest]) (*connect.Response[fairleadv1.RetireHostResponse], error) {
	name := req.Msg.GetName()
	if err := a.knownHost(ctx, name); err != nil {
		return nil, err
	}
	if err := a.Leader.RetireHost(ctx, name); err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.RetireHostResponse{}), nil
}

// DrainHost has what a host runs served elsewhere, and says what becomes of it.
func (a *API) DrainHost(ctx context.Context, req *connect.Request[fairleadv1.DrainHostRequest]) (*connect.Response[fairleadv1.DrainHostResponse], error) {
	name := req.Msg.GetName()
	if err := a.knownHost(ctx, name); err != nil {
		return nil, err
	}
	if err := a.Leader.DrainHost(ctx, name, true); err != nil {
		return nil, err
	}
	known, err := a.members(ctx)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.DrainHostResponse{Detail: a.hostsWorld(known).DrainText(name)}), nil
}

// UndrainHost lets instances be placed on a host again; nothing is moved back.
func (a *API) UndrainHost(ctx context.Context, req *connect.Request[fairleadv1.UndrainHostRequest]) (*connect.Response[fairleadv1.UndrainHostResponse], error) {
	name := req.Msg.GetName()
	if err := a.knownHost(ctx, name); err != nil {
		return nil, err
	}
	if err := a.Leader.DrainHost(ctx, name, false); err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.UndrainHostResponse{}), nil
}

// hostsWorld is what is seen of hosts, and what people want of them.
func (a *API) hostsWorld(known []service.Host) *service.World {
	w := &service.World{
		Hosts: map[string]service.HostState{}, Instances: map[string][]service.Instance{}, Of: map[string][]service.Instance{},
		Draining: map[string]bool{},
	}
	retired := map[string]bool{} // :: host name → a person ended its membership
	for _, h := range known {
		retired[h.Name] = h.Retired
		w.Draining[h.Name] = h.Draining && !h.Retired
	}
	w.Retired = func(host string) bool { return retired[host] }
	for _, h := range a.Hosts.States() {
		w.Hosts[h.Name] = h
		for _, i := range h.Instances {
			i.Host, i.Zone = cmp.Or(i.Host, h.Name), cmp.Or(i.Zone, h.Zone)
			w.Instances[i.Slot] = append(w.Instances[i.Slot], i)
			w.Of[i.Service] = append(w.Of[i.Service], i)
		}
	}
	return w
}

// ListHosts returns the known hosts by name.
func (a *API) ListHosts(ctx context.Context, _ *connect.Request[fairleadv1.ListHostsRequest]) (*connect.Response[fairleadv1.ListHostsResponse], error) {
	known, err := a.members(ctx)
	if err != nil {
		return nil, err
	}
	w := a.hostsWorld(known)
	out := &fairleadv1.ListHostsResponse{}
	for _, h := range known {
		out.Hosts = append(out.Hosts, hostTo(h, w))
	}
	catalogs, _, err := list[service.Catalog](ctx, a.Store, service.KindCatalog, nil)
	if err != nil {
		return nil, err
	}
	revisions, _, err := list[service.Revision](ctx, a.Store, service.KindRevision, nil)
	if err != nil {
		return nil, err
	}
	of := make(map[string]service.Catalog, len(catalogs)) // :: service name → catalog
	for _, c := range catalogs {
		of[c.Service] = c
	}
	out.Notes = gathered(revisions, of, w)
	return connect.NewResponse(out), nil
}

// gathered says which serving revisions are not spread as they could be.
func gathered(revisions []service.Revision, catalogs map[string]service.Catalog, w *service.World) []string {
	var out []string
	for _, r := range revisions {
		if text := r.GatheredText(w); text != "" && catalogs[r.Service].Referenced(r.Name) {
			out = append(out, text)
		}
	}
	return out
}

func hostTo(h service.Host, w *service.World) *fairleadv1.HostStatus {
	s := w.Hosts[h.Name]
	out := &fairleadv1.HostStatus{
		Name: h.Name, Zone: h.Zone, Connected: s.Connected, Silent: durationpb.New(s.Silent),
		Detail: w.DrainText(h.Name), FreeBytes: s.Free, Refuses: s.Refuses,
	}
	for _, i := range s.Instances {
		if i.State != service.InstanceExited {
			out.Instances++
		}
	}
	switch {
	case s.Left:
		out.State, out.Detail = "left", ""
	case s.Leaving:
		out.State = "leaving"
	case h.Draining:
		out.State = "draining"
	}
	return out
}
