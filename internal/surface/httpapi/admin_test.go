package httpapi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func (w *world) keystore() *identity.Keystore {
	w.t.Helper()
	k, err := identity.OpenKeystore(w.t.TempDir())
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

func (w *world) join(k *identity.Keystore, token, name string) error {
	w.t.Helper()
	csr, err := k.NewCSR()
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.api.Join(w.ctx, &fairleadv1.JoinRequest{Token: token, Name: name, CsrPem: csr})
	if err != nil {
		return err
	}
	return k.Install(resp.CertificatePem, resp.BundlePem)
}

func TestATokenLetsOneRoleJoinOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		tok, err := w.admin.CreateToken(w.ctx, connect.NewRequest(&fairleadv1.CreateTokenRequest{Role: "gateway"}))
		if err != nil {
			t.Fatal(err)
		}
		first := w.keystore()
		for range 2 { // its answer may have been lost
			if err := w.join(first, tok.Msg.Token, "gw-1"); err != nil {
				t.Fatal(err)
			}
		}
		if id, err := first.ID(); err != nil || id.Role != identity.Gateway || id.Name != "gw-1" {
			t.Errorf("joined as %v, %v", id, err)
		}
		if err := w.join(w.keystore(), tok.Msg.Token, "gw-1"); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("a second one got %v", err)
		}
		if err := w.join(w.keystore(), "fl1.nonsense", "gw-1"); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("nonsense got %v", err)
		}
	})
}

func TestAnIdentityRenewsItselfAndNobodyElse(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		k := w.keystore()
		token, err := w.api.Mint(w.ctx, identity.Host, "h1")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.join(k, token, ""); err != nil {
			t.Fatal(err)
		}
		csr, err := k.NewCSR()
		if err != nil {
			t.Fatal(err)
		}
		id, err := k.ID()
		if err != nil {
			t.Fatal(err)
		}
		ctx := identity.ContextWithPeer(w.ctx, identity.Peer{ID: id, Expired: true})
		resp, err := w.api.IdentityServer().Renew(ctx, &fairleadv1.RenewRequest{CsrPem: csr})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Install(resp.CertificatePem, resp.BundlePem); err != nil {
			t.Error(err)
		}
		for name, ctx := range map[string]context.Context{"nobody": w.ctx, "a local operator": identity.ContextWithPeer(w.ctx, identity.LocalOperator("ann"))} {
			if _, err := w.api.Renew(ctx, &fairleadv1.RenewRequest{CsrPem: csr}); !errors.Is(err, fault.Unauthenticated) {
				t.Errorf("%s got %v", name, err)
			}
		}
	})
}

func TestTokensAreForHostsAndGatewaysAndEnd(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		for _, m := range []*fairleadv1.CreateTokenRequest{
			{Role: "king"},
			{Role: "operator"},
			{},
			{Role: "host", Name: "../x"},
			{Role: "host", Ttl: durationpb.New(-time.Hour)},
			{Role: "host", Ttl: durationpb.New(1000 * time.Hour)},
		} {
			if _, err := w.admin.CreateToken(w.ctx, connect.NewRequest(m)); !errors.Is(fault.FromConnect(err), fault.Invalid) {
				t.Errorf("%v: got %v", m, err)
			}
		}
		tok, err := w.api.Mint(w.ctx, identity.Host, "h1")
		if err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(25*time.Hour + identity.DefaultTokenTTL)
		w.api.Now = func() time.Time { return later }
		if err := w.join(w.keystore(), tok, ""); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("an old token got %v", err)
		}
		if err := w.api.CollectTokens(w.ctx); err != nil {
			t.Fatal(err)
		}
		if docs, _, err := w.st.List(w.ctx, service.KindToken); err != nil || len(docs) != 0 {
			t.Errorf("left are %v, %v", docs, err)
		}
	})
}

func TestGatewaysAndHostsAreListedHeardOrNot(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.put(service.KindGateway, "gw-a", service.Gateway{Name: "gw-a", Public: "10.0.0.1:80"})
		w.put(service.KindGateway, "gw-b", service.Gateway{Name: "gw-b"})
		w.gateways = []service.GatewayState{{Name: "gw-b", Connected: true, Public: "0.0.0.0:8080", Refused: map[string]string{"hello": "bad"}}}
		g, err := w.admin.ListGateways(w.ctx, connect.NewRequest(&fairleadv1.ListGatewaysRequest{}))
		if err != nil || len(g.Msg.Gateways) != 2 || g.Msg.Gateways[0].Connected || !g.Msg.Gateways[1].Connected || g.Msg.Gateways[1].Refused[0] != "hello: bad" {
			t.Errorf("got %v, %v", g, err)
		}
		w.put(service.KindHost, "h1", service.Host{Name: "h1", Zone: "a"})
		w.hosts = []service.HostState{{Host: service.Host{Name: "h1", Zone: "a"}, Connected: true, Instances: []service.Instance{{State: service.InstanceLive}, {State: service.InstanceExited}}}}
		h, err := w.admin.ListHosts(w.ctx, connect.NewRequest(&fairleadv1.ListHostsRequest{}))
		if err != nil || len(h.Msg.Hosts) != 1 || h.Msg.Hosts[0].Instances != 1 || h.Msg.Hosts[0].Zone != "a" {
			t.Errorf("got %v, %v", h, err)
		}
		if _, err := w.admin.RetireGateway(w.ctx, connect.NewRequest(&fairleadv1.RetireGatewayRequest{Name: "nobody"})); !errors.Is(fault.FromConnect(err), fault.NotFound) {
			t.Errorf("got %v", err)
		}
		if _, err := w.admin.RetireGateway(w.ctx, connect.NewRequest(&fairleadv1.RetireGatewayRequest{Name: "gw-a"})); err != nil || len(w.retired) != 1 {
			t.Errorf("got %v", err)
		}
		w.drains(h.Msg.Hosts[0])
		if _, err := w.admin.RetireHost(w.ctx, connect.NewRequest(&fairleadv1.RetireHostRequest{Name: "h1"})); err != nil || w.retired[1] != "host h1" {
			t.Errorf("got %v", err)
		}
		w.put(service.KindHost, "h1", service.Host{Name: "h1", Zone: "a", Retired: true})
		if h, err = w.admin.ListHosts(w.ctx, connect.NewRequest(&fairleadv1.ListHostsRequest{})); err != nil || len(h.Msg.Hosts) != 0 {
			t.Errorf("one that was retired is listed: %v, %v", h, err)
		}
		if _, err := w.admin.RetireHost(w.ctx, connect.NewRequest(&fairleadv1.RetireHostRequest{Name: "h1"})); !errors.Is(fault.FromConnect(err), fault.NotFound) {
			t.Errorf("retired twice: %v", err)
		}
		info, err := w.admin.GetInfo(w.ctx, connect.NewRequest(&fairleadv1.GetInfoRequest{}))
		if err != nil || info.Msg.GatewayUrl != "http://127.0.0.1:8080/" || info.Msg.Guarantee == "" || !info.Msg.Leading {
			t.Errorf("got %v, %v", info, err)
		}
	})
}

// drains has the one host drained and undrained, and looks at what is said of it.
func (w *world) drains(before *fairleadv1.HostStatus) {
	t := w.t
	t.Helper()
	if before.State != "" || before.Detail != "" {
		t.Errorf("before it drains: %v", before)
	}
	d, err := w.admin.DrainHost(w.ctx, connect.NewRequest(&fairleadv1.DrainHostRequest{Name: "h1"}))
	if err != nil || !strings.Contains(d.Msg.Detail, "stays") || !strings.Contains(d.Msg.Detail, "host h1: it is drained") {
		t.Errorf("where nothing else can take what runs there: %v, %v", d, err)
	}
	w.mu.Lock()
	w.hosts = append(w.hosts, service.HostState{Host: service.Host{Name: "h2", Zone: "b"}, Connected: true, Free: 5 << 30})
	w.mu.Unlock()
	w.put(service.KindHost, "h2", service.Host{Name: "h2", Zone: "b"})
	h, err := w.admin.ListHosts(w.ctx, connect.NewRequest(&fairleadv1.ListHostsRequest{}))
	if err != nil || h.Msg.Hosts[0].State != "draining" || !strings.Contains(h.Msg.Hosts[0].Detail, "moves") || h.Msg.Hosts[1].FreeBytes != 5<<30 {
		t.Errorf("while it drains: %v, %v", h, err)
	}
	if _, err := w.admin.DrainHost(w.ctx, connect.NewRequest(&fairleadv1.DrainHostRequest{Name: "nobody"})); !errors.Is(fault.FromConnect(err), fault.NotFound) {
		t.Errorf("a host that is not known: %v", err)
	}
	if _, err := w.admin.UndrainHost(w.ctx, connect.NewRequest(&fairleadv1.UndrainHostRequest{Name: "h1"})); err != nil {
		t.Error(err)
	}
	if h, err = w.admin.ListHosts(w.ctx, connect.NewRequest(&fairleadv1.ListHostsRequest{})); err != nil || h.Msg.Hosts[0].State != "" {
		t.Errorf("when it drains no more: %v, %v", h, err)
	}
	w.retire("h2")
}

// retire notes that a host is no member any more.
func (w *world) retire(name string) {
	w.put(service.KindHost, name, service.Host{Name: name, Retired: true})
}
