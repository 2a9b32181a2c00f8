package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

// issuer is the least control that can serve the identity service.
type issuer struct {
	fairleadv1.UnimplementedIdentityServiceServer
	authority *Authority
	tokens    *tokenMap
}

func (i *issuer) Renew(ctx context.Context, m *fairleadv1.RenewRequest) (*fairleadv1.RenewResponse, error) {
	cert, err := i.authority.Sign(m.GetCsrPem(), PeerFromContext(ctx).ID)
	return &fairleadv1.RenewResponse{CertificatePem: cert, BundlePem: i.authority.Bundle()}, fault.ToGRPC(err)
}

// others serves those whom grpc-go does not.
type others struct {
	fairleadv1connect.UnimplementedIdentityServiceHandler
	*issuer
}

func (i others) Join(ctx context.Context, r *connect.Request[fairleadv1.JoinRequest]) (*connect.Response[fairleadv1.JoinResponse], error) {
	req := JoinRequest{Token: r.Msg.GetToken(), Name: r.Msg.GetName(), CSR: r.Msg.GetCsrPem()}
	id, err := Redeem(ctx, i.tokens, req, DefaultTrustDomain, time.Now())
	if err != nil {
		return nil, fault.ToConnect(fault.Wrap(fault.Unauthenticated, "make a new token", err))
	}
	cert, err := i.authority.Sign(r.Msg.GetCsrPem(), id)
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	return connect.NewResponse(&fairleadv1.JoinResponse{CertificatePem: cert, BundlePem: i.authority.Bundle()}), nil
}

func (i others) Renew(ctx context.Context, r *connect.Request[fairleadv1.RenewRequest]) (*connect.Response[fairleadv1.RenewResponse], error) {
	res, err := i.issuer.Renew(ctx, r.Msg)
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	return connect.NewResponse(res), nil
}

func startIssuer(t *testing.T, now func() time.Time) (*issuer, string) {
	t.Helper()
	i := &issuer{authority: newAuthority(t, time.Now), tokens: newTokenMap()}
	control := newRole(t, i.authority, Control, "a", time.Now)
	control.now = now
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	first, second := Split(ln, control.ServerTLS(ServerOptions{}))
	guard := Guard{Socket: SocketControl, Now: now}
	rpc := grpc.NewServer(grpc.Creds(ServerCredentials(nil)), grpc.UnaryInterceptor(guard.Unary))
	fairleadv1.RegisterIdentityServiceServer(rpc, i)
	_, handler := fairleadv1connect.NewIdentityServiceHandler(others{issuer: i})
	web := &http.Server{Handler: guard.HTTP(handler)}
	ended := make(chan error, 2)
	go func() { ended <- rpc.Serve(first) }()
	go func() { ended <- web.Serve(second) }()
	t.Cleanup(func() {
		rpc.Stop()
		if err := errors.Join(web.Close(), <-ended, <-ended); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return i, ln.Addr().String()
}

func (i *issuer) token(t *testing.T, role Role, name string) string {
	t.Helper()
	token, rec, err := MintToken(role, name, i.authority.Fingerprint(), time.Now(), 0, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.tokens.mu.Lock()
	defer i.tokens.mu.Unlock()
	i.tokens.records[rec.ID], i.tokens.version[rec.ID] = rec, 1
	return token
}

func TestARoleJoinsByTokenOnceAndRenewsItselfFreshOrExpired(t *testing.T) {
	server := newClock()
	i, addr := startIssuer(t, server.now)
	k := must[*Keystore](t)(OpenKeystore(t.TempDir(), ForRole(Host)))
	token := i.token(t, Host, "")
	for range 2 {
		if err := Join(t.Context(), k, Joining{Address: addr, Token: token, Name: "h"}); err != nil {
			t.Fatal(err)
		}
	}
	err := Join(t.Context(), newKeystore(t, time.Now), Joining{Address: addr, Token: token, Name: "h"})
	if !errors.Is(err, fault.Unauthenticated) || fault.HintOf(err) == "" || !strings.Contains(err.Error(), "used already, by spiffe://fairlead/host/h") {
		t.Errorf("joined twice by one token: %v", err)
	}
	for _, age := range []time.Duration{0, 40 * 24 * time.Hour} {
		server.add(age)
		conn := dialGRPC(t, addr, ClientCredentials(k, Control))
		before := k.current.leaf
		if err := (Renewer{}).withDefaults().once(t.Context(), k, RenewOver(conn)); err != nil || k.current.leaf.Equal(before) {
			t.Errorf("renewal at age %v: %v", age, err)
		}
	}
}

func TestAJoinThatCannotBeSaysWhy(t *testing.T) {
	i, addr := startIssuer(t, time.Now)
	elsewhere, _, err := MintToken(Host, "", newAuthority(t, time.Now).Fingerprint(), time.Now(), 0, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ahead := newClock()
	ahead.add(31 * 24 * time.Hour)
	for name, c := range map[string]struct {
		k    *Keystore
		j    Joining
		want string
	}{
		"half a token":         {newKeystore(t, time.Now), Joining{addr, "fl1.x", "h"}, "not of the form"},
		"another installation": {newKeystore(t, time.Now), Joining{addr, elsewhere, "h"}, "the token is of another installation"},
		"nobody there":         {newKeystore(t, time.Now), Joining{"127.0.0.1:1", i.token(t, Host, ""), "h"}, "connection refused"},
		"another role":         {must[*Keystore](t)(OpenKeystore(t.TempDir(), ForRole(Host))), Joining{addr, i.token(t, Gateway, ""), "h"}, "the token was for another role"},
		"a wrong clock":        {newKeystore(t, ahead.now), Joining{addr, i.token(t, Host, ""), "h"}, "this machine's clock is 31 days ahead"},
		"a name that is none":  {newKeystore(t, time.Now), Joining{addr, i.token(t, Host, ""), "../h"}, "is not 1 to 128 letters"},
	} {
		if err := Join(t.Context(), c.k, c.j); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if c.k.Have() {
			t.Errorf("%s: it has an identity now", name)
		}
	}
}
