package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// maxTokenTTL bounds how long a join token may lie about.
const maxTokenTTL = 30 * 24 * time.Hour

// CreateToken makes a token by which one of a role may join once.
func (a *API) CreateToken(ctx context.Context, req *connect.Request[fairleadv1.CreateTokenRequest]) (*connect.Response[fairleadv1.CreateTokenResponse], error) {
	m := req.Msg
	role := identity.Role(m.GetRole())
	if !slices.Contains([]identity.Role{identity.Host, identity.Gateway, identity.Prober, identity.Relay, identity.Agent, identity.Caller}, role) {
		return nil, fault.New(fault.Invalid, "say --role host, gateway, prober, relay, agent or caller", "role %q cannot join by a token", m.GetRole())
	}
	ttl := m.GetTtl().AsDuration()
	if ttl < 0 || ttl > maxTokenTTL {
		return nil, fault.New(fault.Invalid, "", "a token cannot be good for %s: give up to %s", ttl, maxTokenTTL)
	}
	token, rec, err := a.mint(ctx, role, m.GetName(), ttl)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.CreateTokenResponse{Token: token, ExpiresAt: timestamppb.New(rec.ExpiresAt)}), nil
}

// Mint makes a token for a role of this process, as CreateToken does for others.
func (a *API) Mint(ctx context.Context, role identity.Role, name string) (string, error) {
	token, _, err := a.mint(ctx, role, name, 0)
	return token, err
}

func (a *API) mint(ctx context.Context, role identity.Role, name string, ttl time.Duration) (string, identity.TokenRecord, error) {
	token, rec, err := identity.MintToken(role, name, a.Authority.Fingerprint(), a.Now(), ttl, a.Rand)
	if err != nil {
		return "", rec, fault.Wrap(fault.Invalid, "", err)
	}
	body, err := json.Marshal(rec)
	if err != nil {
		return "", rec, fmt.Errorf("cannot encode token record: %w", err)
	}
	w := store.Apply{ID: a.NewID(), Writes: []store.Write{{Key: store.Key{Kind: service.KindToken, Name: rec.ID}, Body: body}}}
	return token, rec, a.apply(ctx, w)
}

// CollectTokens erases the records of tokens that ended a day ago or more.
func (a *API) CollectTokens(ctx context.Context) error {
	docs, _, err := a.Store.List(ctx, service.KindToken)
	if err != nil {
		return err
	}
	w := store.Apply{ID: a.NewID()}
	for _, d := range docs {
		var rec identity.TokenRecord
		if json.Unmarshal(d.Body, &rec) == nil && a.Now().After(rec.ExpiresAt.Add(24*time.Hour)) && len(w.Writes) < collectAtOnce {
			w.Writes = append(w.Writes, store.Write{Key: d.Key, Expect: d.Version, Delete: true})
		}
	}
	if len(w.Writes) == 0 {
		return nil
	}
	return a.apply(ctx, w)
}

// ListGateways returns the known gateways and those that were heard, by name.
func (a *API) ListGateways(ctx context.Context, _ *connect.Request[fairleadv1.ListGatewaysRequest]) (*connect.Response[fairleadv1.ListGatewaysResponse], error) {
	known, _, err := list[service.Gateway](ctx, a.Store, service.KindGateway, nil)
	if err != nil {
		return nil, err
	}
	heard := map[string]service.GatewayState{} // :: gateway name → as last heard
	for _, s := range a.Gateways.States() {
		heard[s.Name] = s
	}
	subscribers := a.subscribers(identity.Gateway)
	out := &fairleadv1.ListGatewaysResponse{}
	for _, g := range known {
		s, ok := heard[g.Name]
		if !ok {
			s = service.GatewayState{Name: g.Name, Public: g.Public, Poll: g.Poll, Serves: g.Serves, Keeps: g.Keeps}
		}
		status, v := gatewayTo(s), subscribers[g.Name]
		status.Views, status.ViewsBehind, status.ViewsConnected, status.ViewsMissing = int32(v.Views), int32(v.Behind), v.Connected, v.Missing
		out.Gateways = append(out.Gateways, status)
	}
	return connect.NewResponse(out), nil
}

func gatewayTo(s service.GatewayState) *fairleadv1.GatewayStatus {
	out := &fairleadv1.GatewayStatus{
		Name: s.Name, Connected: s.Connected, Serves: s.Serves.String(), Keeps: s.Keeps.String(),
		Silent: durationpb.New(s.Silent), PublicAddress: s.Public, PollAddress: s.Poll, KeepError: s.KeepError,
	}
	for name, reason := range s.Refused {
		out.Refused = append(out.Refused, name+": "+reason)
	}
	slices.Sort(out.Refused)
	return out
}

// RetireGateway ends the membership of a gateway that will not come back.
func (a *API) RetireGateway(ctx context.Context, req *connect.Request[fairleadv1.RetireGatewayRequest]) (*connect.Response[fairleadv1.RetireGatewayResponse], error) {
	name := req.Msg.GetName()
	known, _, err := list[service.Gateway](ctx, a.Store, service.KindGateway, nil)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(known))
	for _, g := range known {
		names = append(names, g.Name)
	}
	if err := isKnown("gateway", name, names); err != nil {
		return nil, err
	}
	if err := a.Leader.RetireGateway(ctx, name); err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.RetireGatewayResponse{}), nil
}

// isKnown refuses a name that is none of the known ones.
func isKnown(role, name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	hint := "no " + role + " is known"
	if len(names) > 0 {
		hint = "known are " + strings.Join(names, ", ")
	}
	return fault.New(fault.NotFound, hint, "there is no %s %q", role, name)
}

// GetInfo says who leads and what is guaranteed.
func (a *API) GetInfo(context.Context, *connect.Request[fairleadv1.GetInfoRequest]) (*connect.Response[fairleadv1.GetInfoResponse], error) {
	g := a.Store.Guarantee()
	return connect.NewResponse(&fairleadv1.GetInfoResponse{
		Version: a.Version, Incarnation: a.Store.Incarnation(), Epoch: a.Leader.Epoch().String(), Leading: a.Leader.Leading(),
		Store: g.Engine, Guarantee: g.Description, Alarms: a.Leader.Alarms(""), GatewayUrl: a.gatewayURL(),
	}), nil
}

// gatewayURL is the address of a gateway by number, which works where
// NAME.localhost does not resolve; empty where none is known.
func (a *API) gatewayURL() string {
	for _, g := range a.Gateways.States() {
		if g.Public != "" {
			return "http://" + dialable(g.Public) + "/"
		}
	}
	return ""
}
