package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

func TestAnUnboundTokenCannotTakeTheNameOfAKnownMember(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		known := store.Apply{ID: "known", Writes: []store.Write{{Key: store.Key{Kind: service.KindHost, Name: "h1"}, Body: []byte(`{"name":"h1"}`)}}}
		if _, err := w.api.Store.Apply(w.ctx, known); err != nil {
			t.Fatal(err)
		}
		mint := func(name string) string {
			token, err := w.api.Mint(w.ctx, identity.Host, name)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		err := w.join(w.keystore(), mint(""), "h1")
		if !errors.Is(err, fault.Exists) || !strings.Contains(fault.HintOf(err), "--name h1") {
			t.Errorf("got %v (%s)", err, fault.HintOf(err))
		}
		if err := w.join(w.keystore(), mint("h1"), "h1"); err != nil {
			t.Errorf("by a token bound to the name: %v", err)
		}
		if err := w.join(w.keystore(), mint(""), "h2"); err != nil {
			t.Errorf("a new name: %v", err)
		}
		w.put(service.KindHost, "h3", service.Host{Name: "h3", Retired: true})
		if err := w.join(w.keystore(), mint(""), "h3"); err != nil {
			t.Errorf("the name of a host that was retired: %v", err)
		}
	})
}

func TestAJoinWhoseAnswerWasLostMayBeRepeated(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		token, err := w.api.Mint(w.ctx, identity.Caller, "")
		if err != nil {
			t.Fatal(err)
		}
		k := w.keystore()
		for range 2 {
			if err := w.join(k, token, "checkout"); err != nil {
				t.Errorf("by one key and token: %v", err)
			}
		}
		if err := w.join(w.keystore(), token, "checkout"); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("by another key: %v", err)
		}
	})
}

func TestATokenOfAnotherRoleIsNotSpent(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		token, err := w.api.Mint(w.ctx, identity.Host, "")
		if err != nil {
			t.Fatal(err)
		}
		k := w.keystore()
		csr, err := k.NewCSR()
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.api.Join(w.ctx, &fairleadv1.JoinRequest{Token: token, Name: "x", Role: "gateway", CsrPem: csr})
		if err == nil || !strings.Contains(err.Error(), "it is for a host") {
			t.Errorf("as a gateway: %v", err)
		}
		if err := w.join(w.keystore(), token, "x"); err != nil {
			t.Errorf("the token should be unspent: %v", err)
		}
	})
}

func TestAHostIsGivenTheIdentityOfWhatItWasAssignedAndNothingElse(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.put(service.KindRevision, "web-00001", service.Revision{Name: "web-00001", Service: "web", Slots: []service.Slot{{ID: "web-00001.0", Host: "h1"}}})
		w.put(service.KindRevision, "web-api-00001", service.Revision{Name: "web-api-00001", Service: "web-api", Slots: []service.Slot{{ID: "web-api-00001.0", Host: "h2"}}})
		for _, c := range []struct {
			role          identity.Role
			name, service string
			given         bool
		}{
			{identity.Host, "h1", "web", true},
			{identity.Host, "h2", "web-api", true},
			{identity.Host, "h2", "web", false},
			{identity.Host, "h1", "web-api", false},
			{identity.Host, "h1", "nothing", false},
			{identity.Gateway, "h1", "web", false},
			{identity.Operator, "h1", "web", false},
		} {
			csr, err := w.keystore().NewCSR()
			if err != nil {
				t.Fatal(err)
			}
			peer := identity.Peer{ID: identity.ID{TrustDomain: "fairlead", Role: c.role, Name: c.name}}
			m, err := w.api.IssueService(identity.ContextWithPeer(w.ctx, peer), &fairleadv1.IssueServiceRequest{Service: c.service, CsrPem: csr})
			switch {
			case !c.given && !errors.Is(err, fault.Forbidden):
				t.Errorf("%s %s for %s: %v", c.role, c.name, c.service, err)
			case c.given && err != nil:
				t.Errorf("%s %s for %s: %v", c.role, c.name, c.service, err)
			case c.given:
				got := peerOfPEM(t, m.GetCertificatePem())
				if got.ID.String() != "spiffe://fairlead/service/"+c.service || got.HeldBy != c.name {
					t.Errorf("%s %s for %s is given %s, held by %q", c.role, c.name, c.service, got, got.HeldBy)
				}
				again, err := w.api.Renew(identity.ContextWithPeer(w.ctx, got), &fairleadv1.RenewRequest{CsrPem: csr})
				if err != nil || peerOfPEM(t, again.GetCertificatePem()).HeldBy != c.name {
					t.Errorf("renewed it is held by another: %v", err)
				}
				if _, err := w.api.Renew(identity.ContextWithPeer(w.ctx, identity.Peer{ID: got.ID, HeldBy: "h3"}), &fairleadv1.RenewRequest{CsrPem: csr}); !errors.Is(err, fault.Forbidden) {
					t.Errorf("%s is renewed on a host that was not assigned it: %v", c.service, err)
				}
			}
		}
	})
}

func peerOfPEM(t *testing.T, content []byte) identity.Peer {
	t.Helper()
	block, _ := pem.Decode(content)
	if block == nil {
		t.Fatalf("no certificate: %s", content)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := identity.PeerOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
