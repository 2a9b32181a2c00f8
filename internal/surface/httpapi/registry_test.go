package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// leases notes what is registered.
type leases struct{ entered []discovery.Registration }

func (l *leases) Admits(discovery.Registration) error { return nil }
func (l *leases) Register(_ context.Context, r discovery.Registration) (string, error) {
	l.entered = append(l.entered, r)
	return "i1", nil
}
func (l *leases) Renew(string, string, service.Word) error { return nil }
func (l *leases) Deregister(string, string) error          { return nil }

func TestAnAddressIsRegisteredOnlyAfterItShowedItsChallenge(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		l := &leases{}
		w.api.Registry = l
		registry := fairleadv1connect.NewRegistryServiceClient(http.DefaultClient, w.url)
		answer := func(http.ResponseWriter, *http.Request) {}
		instance := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { answer(rw, r) }))
		defer instance.Close()
		address := strings.TrimPrefix(instance.URL, "http://")
		ask := func(service, address, challenge string) (*fairleadv1.RegisterResponse, error) {
			resp, err := registry.Register(w.ctx, connect.NewRequest(&fairleadv1.RegisterRequest{Service: service, Address: address, Zone: "z", Challenge: challenge}))
			if err != nil {
				return nil, fault.FromConnect(err)
			}
			return resp.Msg, nil
		}
		begin := func() *fairleadv1.RegisterResponse {
			t.Helper()
			m, err := ask("m", address, "")
			if err != nil || m.GetInstance() != "" || m.GetContent() == "" || strings.Contains(m.GetPath(), m.GetContent()) {
				t.Fatalf("the challenge is %v, %v", m, err)
			}
			return m
		}
		for name, a := range map[string]func(*fairleadv1.RegisterResponse) http.HandlerFunc{
			"what it was asked": func(*fairleadv1.RegisterResponse) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.URL.Path) }
			},
			"404": func(*fairleadv1.RegisterResponse) http.HandlerFunc { return http.NotFound },
			"another place": func(m *fairleadv1.RegisterResponse) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/there" {
						http.Redirect(rw, r, "/there", http.StatusFound)
						return
					}
					_, _ = io.WriteString(rw, m.GetContent())
				}
			},
		} {
			m := begin()
			answer = a(m)
			if _, err := ask("m", address, m.GetChallenge()); fault.CodeOf(err) != fault.Invalid {
				t.Errorf("an address that answers with %s: %v", name, err)
			}
		}
		m := begin()
		answer = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == m.GetPath() {
				_, _ = io.WriteString(rw, m.GetContent()+"\n")
			}
		}
		if _, err := ask("other", address, m.GetChallenge()); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("the challenge of another registration: %v", err)
		}
		if len(l.entered) != 0 {
			t.Fatalf("%v is registered unproved", l.entered)
		}
		got, err := ask("m", address, m.GetChallenge())
		if err != nil || got.GetInstance() != "i1" || got.GetLease().AsDuration() != discovery.Term() {
			t.Fatalf("the registration is answered by %v, %v", got, err)
		}
		if r := l.entered[0]; r.Service != "m" || r.Address != address || r.Zone != "z" || !strings.HasSuffix(r.By, "/operator/ann") {
			t.Errorf("registered is %+v", r)
		}
		if _, err := ask("m", address, m.GetChallenge()); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("a challenge twice: %v", err)
		}
		for _, no := range []string{"nowhere", "a:0", ":80", "a.example/path?x:80", "user@a.example:80", "a b:80"} {
			if m, err := ask("m", no, ""); fault.CodeOf(err) != fault.Invalid {
				t.Errorf("%q is no address: %v, %v", no, m, err)
			}
		}
	})
}

func TestAThirdPartysEndpointsAreDeclaredAndKeepTheirIdentities(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		client := fairleadv1connect.NewDiscoveryAPIServiceClient(http.DefaultClient, w.url)
		set := func(name string, addresses ...string) (*fairleadv1.External, error) {
			req := &fairleadv1.SetExternalRequest{Service: name}
			for _, a := range addresses {
				req.Endpoints = append(req.Endpoints, &fairleadv1.ExternalEndpoint{Address: a})
			}
			resp, err := client.SetExternal(w.ctx, connect.NewRequest(req))
			if err != nil {
				return nil, fault.FromConnect(err)
			}
			return resp.Msg.GetExternal(), nil
		}
		first, err := set("pay", "a.example:443", "https://b.example/v1")
		if err != nil {
			t.Fatal(err)
		}
		kept := first.GetEndpoints()[1].GetId()
		second, err := set("pay", "https://b.example/v1", "c.example:443")
		if err != nil || second.GetEndpoints()[0].GetId() != kept {
			t.Errorf("an endpoint that stays has another identity: %v, %v", second, err)
		}
		third, err := set("pay", "a.example:443")
		if err != nil || third.GetEndpoints()[0].GetId() == first.GetEndpoints()[0].GetId() {
			t.Errorf("one that was taken back has its identity again: %v, %v", third, err)
		}
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		if _, err := set("hello", "a.example:443"); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "source host") {
			t.Errorf("of a service that is deployed: %v", err)
		}
		for _, bad := range []string{"", "a.example", "ftp://a.example/"} {
			if _, err := set("pay", bad); fault.CodeOf(err) != fault.Invalid {
				t.Errorf("%q is an endpoint: %v", bad, err)
			}
		}
		if _, err := set("pay"); err != nil {
			t.Fatal(err)
		}
		if all, err := client.ListExternals(w.ctx, connect.NewRequest(&fairleadv1.ListExternalsRequest{})); err != nil || len(all.Msg.GetExternals()) != 0 {
			t.Errorf("after it was taken back there are %v, %v", all, err)
		}
		if _, err := set("pay"); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("taken back twice: %v", err)
		}
	})
}

func TestAContractThatDemandsWhatAThirdPartyCannotSupplyIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.put(service.KindExternal, "pay", discovery.External{Service: "pay", Endpoints: []discovery.ExternalEndpoint{{ID: "e1", Address: "a.example:443"}}})
		w.api.Discovery = one{}
		set := func(c *fairleadv1.HealthContract) error {
			_, err := w.services.SetContract(w.ctx, connect.NewRequest(&fairleadv1.SetContractRequest{Service: "pay", Contract: c}))
			return fault.FromConnect(err)
		}
		if err := set(&fairleadv1.HealthContract{Profile: &fairleadv1.HealthProfile{Probe: true, Outcomes: true}}); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "outcomes are all") {
			t.Errorf("it is answered by %v", err)
		}
		ramp := int32(0)
		if err := set(&fairleadv1.HealthContract{Ramp: &ramp}); err != nil {
			t.Errorf("what it leaves out is as can be: %v", err)
		}
	})
}

// one instance is known of every service.
type one struct{ Discovery }

func (one) Standings(string) ([]discovery.Standing, bool) { return make([]discovery.Standing, 1), true }

func TestLeasesAndDeclarationsOfOneServiceRefuseEachOtherFromTheMomentThatTheyAreAnswered(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		l := &leases{}
		w.api.Registry = l
		discover := fairleadv1connect.NewDiscoveryAPIServiceClient(http.DefaultClient, w.url)
		registrations := fairleadv1connect.NewRegistryServiceClient(http.DefaultClient, w.url)
		declare := func(name string) error {
			_, err := discover.SetExternal(w.ctx, connect.NewRequest(&fairleadv1.SetExternalRequest{Service: name, Endpoints: []*fairleadv1.ExternalEndpoint{{Address: "a.example:443"}}}))
			return fault.FromConnect(err)
		}
		if err := declare("pay"); err != nil {
			t.Fatal(err)
		}
		_, err := registrations.Register(w.ctx, connect.NewRequest(&fairleadv1.RegisterRequest{Service: "pay", Address: "127.0.0.1:1"}))
		if err := fault.FromConnect(err); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "source external") {
			t.Errorf("a lease of what was declared a moment ago: %v", err)
		}
		w.put(service.KindInstance, "i1", leased("i1", "legacy"))
		if err := declare("legacy"); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "source lease") {
			t.Errorf("a declaration of what has leases: %v", err)
		}
	})
}

func TestAServiceThatIsKnownByLeaseOrDeclarationAloneIsNotSaidToBeMissing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.api.Discovery = one{}
		_, err := w.services.ExplainService(w.ctx, connect.NewRequest(&fairleadv1.ExplainServiceRequest{Service: "legacy"}))
		if err := fault.FromConnect(err); fault.CodeOf(err) != fault.NotFound || !strings.Contains(err.Error(), "not deployed here") || !strings.Contains(fault.HintOf(err), "fairlead instances legacy") {
			t.Errorf("it is explained by %v, %s", err, fault.HintOf(err))
		}
	})
}

func leased(id, of string) registry.Instance {
	return registry.Instance{ID: id, Service: of, Source: registry.Lease, Address: "10.0.0.1:1"}
}

func TestWhatIsLeasedOrDeclaredIsListedWithItsSourceBesideWhatIsDeployed(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.put(service.KindInstance, "i1", leased("i1", "batch"))
		w.put(service.KindInstance, "i2", leased("i2", "batch"))
		w.put(service.KindExternal, "pay", discovery.External{Service: "pay", Endpoints: []discovery.ExternalEndpoint{{ID: "e1", Address: "127.0.0.1:9"}}})
		r, err := w.services.ListServices(w.ctx, connect.NewRequest(&fairleadv1.ListServicesRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range r.Msg.GetServices() {
			got += fmt.Sprintf("%s %s %d; ", s.GetService(), s.GetSource(), s.GetInstances())
		}
		if got != "batch lease 2; hello host 1; pay external 1; " {
			t.Errorf("listed are %s", got)
		}
	})
}

func TestWhoAsksForManyChallengesTakesNobodyElses(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.api.Registry = &leases{}
		ask := func(name, challenge string) (*fairleadv1.RegisterResponse, error) {
			id := identity.ID{TrustDomain: "fairlead", Role: identity.Caller, Name: name}
			ctx := identity.ContextWithPeer(w.ctx, identity.Peer{ID: id})
			resp, err := w.api.Register(ctx, connect.NewRequest(&fairleadv1.RegisterRequest{Service: name, Address: "127.0.0.1:1", Challenge: challenge}))
			if err != nil {
				return nil, err
			}
			return resp.Msg, nil
		}
		first, err := ask("quiet", "")
		if err != nil {
			t.Fatal(err)
		}
		for range mostChallenges + 10 {
			if _, err := ask("loud", ""); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(w.api.challenges.open); n != mostChallenges {
			t.Errorf("%d are open", n)
		}
		if _, err := ask("quiet", first.GetChallenge()); err == nil || !strings.Contains(err.Error(), "does not show that it is yours") {
			t.Errorf("the first challenge is not asked for: %v", err)
		}
	})
}
