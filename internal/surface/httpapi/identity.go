package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// Join trades a token for an identity of the role that it was made for.
func (a *API) Join(ctx context.Context, m *fairleadv1.JoinRequest) (*fairleadv1.JoinResponse, error) {
	tok, err := identity.ParseToken(m.GetToken())
	if err != nil {
		return nil, fault.Wrap(fault.Unauthenticated, newToken, err)
	}
	tokens := tokenStore{a}
	rec, _, err := tokens.Token(ctx, tok.ID)
	if err != nil {
		return nil, joinFault(err)
	}
	if err := a.notRevoked(ctx, rec.Role, cmp.Or(rec.Name, m.GetName())); err != nil {
		return nil, err
	}
	if rec.Name == "" && rec.UsedKey == "" { // one that was used is good for whom it made only
		if err := a.nameIsFree(ctx, rec.Role, m.GetName()); err != nil {
			return nil, err
		}
	}
	req := identity.JoinRequest{Token: m.GetToken(), Role: identity.Role(m.GetRole()), Name: m.GetName(), CSR: m.GetCsrPem()}
	id, err := identity.Redeem(ctx, tokens, req, a.Authority.TrustDomain(), a.Now())
	if err != nil {
		return nil, joinFault(err)
	}
	cert, err := a.Authority.Sign(m.GetCsrPem(), id)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	if id.Role == identity.Caller {
		if err := a.giveCaller(ctx, id.Name, true); err != nil {
			return nil, err
		}
	}
	a.Log.Info("joined by token", "identity", id.String(), "token", tok.ID)
	return &fairleadv1.JoinResponse{CertificatePem: cert, BundlePem: a.Authority.Bundle()}, nil
}

// nameIsFree refuses the name of a known member to the bearer of a token that
// is not bound to it: whoever holds one could otherwise become any of them.
func (a *API) nameIsFree(ctx context.Context, role identity.Role, name string) error {
	kind := map[identity.Role]string{identity.Host: service.KindHost, identity.Gateway: service.KindGateway, identity.Prober: service.KindProber, identity.Caller: service.KindCaller}[role]
	if kind == "" {
		return nil
	}
	doc, err := a.Store.Get(ctx, store.Key{Kind: kind, Name: name})
	var left struct{ Retired bool }
	if errors.Is(err, store.ErrNotFound) || err == nil && json.Unmarshal(doc.Body, &left) == nil && left.Retired {
		return nil
	}
	if err != nil {
		return Coded(err)
	}
	return fault.New(fault.Exists, fmt.Sprintf("to let it join again: fairlead token create --role %s --name %s", role, name),
		"a %s named %q is known already, and the token is not bound to that name", role, name)
}

const newToken = "make a new one: fairlead token create --role host|gateway|prober|relay|agent|caller"

// joinFault gives the errors of a token their code.
func joinFault(err error) error {
	for _, e := range []error{identity.ErrTokenInvalid, identity.ErrTokenExpired, identity.ErrTokenUsed} {
		if errors.Is(err, e) {
			return fault.Wrap(fault.Unauthenticated, newToken, err)
		}
	}
	if Coded(err) != err {
		return Coded(err)
	}
	return fault.Wrap(fault.Invalid, "", err)
}

// Renew signs anew for the identity that the connection shows, expired or not.
// That of a service is a host's to hold for as long as it is assigned to it.
func (a *API) Renew(ctx context.Context, m *fairleadv1.RenewRequest) (*fairleadv1.RenewResponse, error) {
	p := identity.PeerFromContext(ctx)
	if p.Anonymous() || p.Local {
		return nil, fault.New(fault.Unauthenticated, "join with a token", "nobody's identity cannot be renewed")
	}
	if p.ID.Role == identity.Service {
		if err := a.mayHold(ctx, p.HeldBy, p.ID.Name); err != nil {
			return nil, err
		}
	}
	cert, err := a.Authority.Sign(m.GetCsrPem(), p.ID, identity.HeldBy(p.HeldBy))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	// This control's list may be a second old.
	if err := a.notRevoked(ctx, p.ID.Role, p.ID.Name); err != nil {
		return nil, err
	}
	return &fairleadv1.RenewResponse{CertificatePem: cert, BundlePem: a.Authority.Bundle()}, nil
}

// IssueCaller gives an operator the identity of a caller outside our hosts.
func (a *API) IssueCaller(ctx context.Context, m *fairleadv1.IssueCallerRequest) (*fairleadv1.IssueCallerResponse, error) {
	if err := identity.CheckName(m.GetName()); err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	id := identity.ID{TrustDomain: a.Authority.TrustDomain(), Role: identity.Caller, Name: m.GetName()}
	cert, err := a.Authority.Sign(m.GetCsrPem(), id)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	if err := a.giveCaller(ctx, m.GetName(), m.GetAgain()); err != nil {
		return nil, err
	}
	a.Log.Info("a caller's identity was issued", "identity", id.String(), "by", by(ctx, ""))
	return &fairleadv1.IssueCallerResponse{CertificatePem: cert, BundlePem: a.Authority.Bundle()}, nil
}

// IssueService gives a host the identity of a service that it was assigned
// instances of.
func (a *API) IssueService(ctx context.Context, m *fairleadv1.IssueServiceRequest) (*fairleadv1.IssueServiceResponse, error) {
	p := identity.PeerFromContext(ctx)
	if p.ID.Role != identity.Host {
		return nil, fault.New(fault.Forbidden, "", "only a host is given the identity of what it runs")
	}
	if err := service.CheckServiceName(m.GetService()); err != nil {
		return nil, err
	}
	if err := a.mayHold(ctx, p.ID.Name, m.GetService()); err != nil {
		return nil, err
	}
	id := identity.ID{TrustDomain: a.Authority.TrustDomain(), Role: identity.Service, Name: m.GetService()}
	cert, err := a.Authority.Sign(m.GetCsrPem(), id, identity.HeldBy(p.ID.Name))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	return &fairleadv1.IssueServiceResponse{CertificatePem: cert, BundlePem: a.Authority.Bundle()}, nil
}

// mayHold refuses a host the identity of a service none of whose revisions has
// a slot on it.
func (a *API) mayHold(ctx context.Context, host, name string) error {
	all, _, err := list[service.Revision](ctx, a.Store, service.KindRevision, func(n string) bool { return strings.HasPrefix(n, name+"-") })
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Service == name && slices.ContainsFunc(slices.Concat(r.Slots, r.Leaving), func(s service.Slot) bool { return s.Host == host }) {
			return nil
		}
	}
	return fault.New(fault.Forbidden, "", "host %s was assigned no instance of service %q", host, name)
}

// identityConnect serves the identity service to operators, to expired
// identities and to nobody.
type identityConnect struct {
	fairleadv1connect.UnimplementedIdentityServiceHandler
	api *API
}

func (i identityConnect) Join(ctx context.Context, req *connect.Request[fairleadv1.JoinRequest]) (*connect.Response[fairleadv1.JoinResponse], error) {
	resp, err := i.api.Join(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

func (i identityConnect) Renew(ctx context.Context, req *connect.Request[fairleadv1.RenewRequest]) (*connect.Response[fairleadv1.RenewResponse], error) {
	resp, err := i.api.Renew(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

func (i identityConnect) IssueCaller(ctx context.Context, req *connect.Request[fairleadv1.IssueCallerRequest]) (*connect.Response[fairleadv1.IssueCallerResponse], error) {
	resp, err := i.api.IssueCaller(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

func (i identityConnect) IssueService(ctx context.Context, req *connect.Request[fairleadv1.IssueServiceRequest]) (*connect.Response[fairleadv1.IssueServiceResponse], error) {
	resp, err := i.api.IssueService(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

func (i identityConnect) RevokeIdentity(ctx context.Context, req *connect.Request[fairleadv1.RevokeIdentityRequest]) (*connect.Response[fairleadv1.RevokeIdentityResponse], error) {
	resp, err := i.api.RevokeIdentity(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

func (i identityConnect) ListIdentities(ctx context.Context, _ *connect.Request[fairleadv1.ListIdentitiesRequest]) (*connect.Response[fairleadv1.ListIdentitiesResponse], error) {
	resp, err := i.api.ListIdentities(ctx)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

// IdentityServer serves the identity service to roles, by grpc-go.
func (a *API) IdentityServer() fairleadv1.IdentityServiceServer { return identityGRPC{api: a} }

type identityGRPC struct {
	fairleadv1.UnimplementedIdentityServiceServer
	api *API
}

func (i identityGRPC) Join(ctx context.Context, m *fairleadv1.JoinRequest) (*fairleadv1.JoinResponse, error) {
	resp, err := i.api.Join(ctx, m)
	return resp, fault.ToGRPC(Coded(err))
}

func (i identityGRPC) Renew(ctx context.Context, m *fairleadv1.RenewRequest) (*fairleadv1.RenewResponse, error) {
	resp, err := i.api.Renew(ctx, m)
	return resp, fault.ToGRPC(Coded(err))
}

func (i identityGRPC) IssueService(ctx context.Context, m *fairleadv1.IssueServiceRequest) (*fairleadv1.IssueServiceResponse, error) {
	resp, err := i.api.IssueService(ctx, m)
	return resp, fault.ToGRPC(Coded(err))
}

// tokenStore keeps token records in the store.
type tokenStore struct{ api *API }

func (t tokenStore) Token(ctx context.Context, id string) (identity.TokenRecord, uint64, error) {
	rec, version, found, err := get[identity.TokenRecord](ctx, t.api.Store, service.KindToken, id)
	if err == nil && !found {
		err = fmt.Errorf("%w: none of that id is known here", identity.ErrTokenInvalid)
	}
	return rec, version, err
}

func (t tokenStore) UseToken(ctx context.Context, rec identity.TokenRecord, version uint64) error {
	body, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	key := store.Key{Kind: service.KindToken, Name: rec.ID}
	err = t.api.apply(ctx, store.Apply{ID: t.api.NewID(), Writes: []store.Write{{Key: key, Expect: version, Body: body}}})
	if store.AsConflict(err) != nil {
		return fmt.Errorf("%w: %w", identity.ErrTokenRace, err)
	}
	return err
}

// dialable turns an address that listens everywhere into one that can be dialled here.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
