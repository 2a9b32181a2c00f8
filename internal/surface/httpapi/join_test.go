package httpapi

import (
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
