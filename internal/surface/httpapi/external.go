package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// mostEndpoints of one external service.
const mostEndpoints = 1000

// SetExternal declares the endpoints of somebody else's service; none takes it
// back. Endpoints that were declared before keep their identities.
func (a *API) SetExternal(ctx context.Context, req *connect.Request[fairleadv1.SetExternalRequest]) (*connect.Response[fairleadv1.SetExternalResponse], error) {
	name := req.Msg.GetService()
	if err := service.CheckServiceName(name); err != nil {
		return nil, err
	}
	if _, _, deployed, err := get[service.Desired](ctx, a.Store, service.KindDesired, name); err != nil || deployed {
		if err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Invalid, "what a source watches is not declared by hand", "service %s is deployed here: source host is the authority on it", name)
	}
	if n := len(req.Msg.GetEndpoints()); n > mostEndpoints {
		return nil, fault.New(fault.Invalid, "", "%d endpoints are too many: at most %d", n, mostEndpoints)
	}
	key := store.Key{Kind: service.KindExternal, Name: name}
	was, version, found, err := get[discovery.External](ctx, a.Store, service.KindExternal, name)
	if err != nil {
		return nil, err
	}
	if !found && len(req.Msg.GetEndpoints()) > 0 {
		if err := a.unleased(ctx, name, "choose another name, or have them deregistered first"); err != nil {
			return nil, err
		}
	}
	next := discovery.External{Service: name}
	for _, e := range req.Msg.GetEndpoints() {
		if err := checkEndpoint(e.GetAddress()); err != nil {
			return nil, err
		}
		x := discovery.ExternalEndpoint{Address: e.GetAddress(), Zone: e.GetZone()}
		same := func(y discovery.ExternalEndpoint) bool { return x.Address == y.Address && x.Zone == y.Zone }
		if slices.ContainsFunc(next.Endpoints, same) {
			continue
		}
		if i := slices.IndexFunc(was.Endpoints, same); i >= 0 {
			x.ID = was.Endpoints[i].ID
		} else {
			x.ID = a.NewID()
		}
		next.Endpoints = append(next.Endpoints, x)
	}
	w := store.Write{Key: key, Expect: version, Delete: len(next.Endpoints) == 0}
	switch {
	case w.Delete && !found:
		return nil, fault.New(fault.NotFound, "name at least one endpoint to declare it", "external service %s is not declared", name)
	case !w.Delete:
		if w.Body, err = json.Marshal(next); err != nil {
			return nil, fmt.Errorf("cannot encode an external service: %w", err)
		}
	}
	desired := store.Check{Key: store.Key{Kind: service.KindDesired, Name: name}}
	if err := a.apply(ctx, store.Apply{ID: a.NewID(), Checks: []store.Check{desired}, Writes: []store.Write{w}}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.SetExternalResponse{External: externalTo(next)}), nil
}

// ListExternals returns what is declared, by name.
func (a *API) ListExternals(ctx context.Context, _ *connect.Request[fairleadv1.ListExternalsRequest]) (*connect.Response[fairleadv1.ListExternalsResponse], error) {
	all, _, err := list[discovery.External](ctx, a.Store, service.KindExternal, nil)
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.ListExternalsResponse{}
	for _, x := range all {
		out.Externals = append(out.Externals, externalTo(x))
	}
	return connect.NewResponse(out), nil
}

func externalTo(x discovery.External) *fairleadv1.External {
	out := &fairleadv1.External{Service: x.Service}
	for _, e := range x.Endpoints {
		out.Endpoints = append(out.Endpoints, &fairleadv1.ExternalEndpoint{Address: e.Address, Zone: e.Zone, Id: e.ID})
	}
	return out
}

func checkEndpoint(address string) error {
	if u, err := url.Parse(address); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return nil
	}
	if hostPort(address) {
		return nil
	}
	return fault.New(fault.Invalid, "say HOST:PORT, or a URL with http or https", "%q is no endpoint", address)
}

// hostPort reports whether an address is a host and the number of a port.
func hostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, perr := strconv.ParseUint(port, 10, 16)
	u, uerr := url.Parse("http://" + address)
	return err == nil && perr == nil && host != "" && n > 0 && uerr == nil && u.Host == address
}

// known refuses a service of which neither a document nor an instance is known.
func (a *API) known(ctx context.Context, name string) error {
	if all, _ := a.standings(name); len(all) > 0 {
		return nil
	}
	_, _, err := a.desired(ctx, name)
	return err
}
