package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
)

func TestADeployWritesTheNextGenerationBoundToTheOneThatWasRead(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		if r := w.must(&fairleadv1.DeployRequest{Service: "hello"}); r.Generation != 1 || r.Unchanged {
			t.Errorf("got %v", r)
		}
		if r := w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1, Instances: 2}); r.Generation != 2 {
			t.Errorf("got %v", r)
		}
		before := w.everything()
		for name, m := range map[string]*fairleadv1.DeployRequest{
			"an older one":          {Service: "hello", ExpectedGeneration: 1},
			"one that is to be new": {Service: "hello"},
		} {
			_, err := w.deploy(m)
			if !errors.Is(fault.FromConnect(err), fault.Conflict) || !strings.Contains(err.Error(), "generation 2") || !strings.Contains(err.Error(), "written by ann") {
				t.Errorf("%s: got %v", name, err)
			}
			if !strings.Contains(fault.HintOf(fault.FromConnect(err)), "fairlead get hello") {
				t.Errorf("%s: the hint is %q", name, fault.HintOf(fault.FromConnect(err)))
			}
		}
		if after := w.everything(); after != before {
			t.Errorf("something changed:\n%s\n%s", before, after)
		}
	})
}

func TestOfConcurrentWritersOneWinsAndTheOthersAreTold(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = w.deploy(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1, Instances: int32(i + 2)})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(fault.FromConnect(err), fault.Conflict):
				t.Errorf("got %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d won", won)
		}
	})
}

func TestRefusedInputChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello", HostNames: []string{"shop.example.com"}})
		before := w.everything()
		for name, m := range map[string]*fairleadv1.DeployRequest{
			"not a DNS label":  {Service: "Hello"},
			"no command":       {Service: "other", Template: &fairleadv1.Template{}},
			"negative":         {Service: "other", Instances: -1},
			"another's host":   {Service: "other", HostNames: []string{"Shop.example.com"}},
			"another's name":   {Service: "other", HostNames: []string{"hello.localhost"}},
			"unknown artifact": {Service: "other", Template: &fairleadv1.Template{Command: []string{"./x"}, Artifact: "sha256:" + strings.Repeat("a", 64)}},
			"no traffic yet":   {Service: "other", NoTraffic: true},
		} {
			if _, err := w.deploy(m); !errors.Is(fault.FromConnect(err), fault.Invalid) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if after := w.everything(); after != before {
			t.Errorf("something changed:\n%s\n%s", before, after)
		}
	})
}

func TestOneHostNameForTwoServicesIsRefusedAndNamesTheOwner(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello", HostNames: []string{"shop.example.com"}})
		_, err := w.deploy(&fairleadv1.DeployRequest{Service: "other", HostNames: []string{"shop.example.com"}})
		if err == nil || !strings.Contains(err.Error(), "leads to service hello") {
			t.Fatalf("got %v", err)
		}
		// Given up, it leads there until the route is gone.
		w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1})
		_, err = w.deploy(&fairleadv1.DeployRequest{Service: "other", HostNames: []string{"shop.example.com"}})
		if !errors.Is(fault.FromConnect(err), fault.Unavailable) {
			t.Fatalf("got %v", err)
		}
		w.erase(service.KindHostName, "shop.example.com")
		w.must(&fairleadv1.DeployRequest{Service: "other", HostNames: []string{"shop.example.com"}})
	})
}

func TestAHostNameOfAServiceThatIsGoneIsFree(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.put(service.KindHostName, "shop.example.com", service.HostClaim{Service: "gone"})
		w.must(&fairleadv1.DeployRequest{Service: "hello", HostNames: []string{"shop.example.com"}})
		claim, _, found, err := get[service.HostClaim](w.ctx, w.st, service.KindHostName, "shop.example.com")
		if err != nil || !found || claim.Service != "hello" {
			t.Errorf("claim %v, %v, %v", claim, found, err)
		}
	})
}

func TestTwoServicesThatWantOneHostNameAtOnceDoNotBothGetIt(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		names := []string{"a", "b", "c", "d"}
		errs := make([]error, len(names))
		var wg sync.WaitGroup
		for i, n := range names {
			wg.Go(func() {
				_, errs[i] = w.deploy(&fairleadv1.DeployRequest{Service: n, HostNames: []string{"shop.example.com"}})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(fault.FromConnect(err), fault.Invalid) {
				t.Errorf("got %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d services got it", won)
		}
	})
}

func TestADeployOfADeletedServiceIsANewGenerationOfTheSameDocument(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello", Instances: 3})
		del, err := w.services.DeleteService(w.ctx, connect.NewRequest(&fairleadv1.DeleteServiceRequest{Service: "hello"}))
		if err != nil || del.Msg.Generation != 2 {
			t.Fatalf("got %v, %v", del, err)
		}
		again, err := w.services.DeleteService(w.ctx, connect.NewRequest(&fairleadv1.DeleteServiceRequest{Service: "hello"}))
		if err != nil || again.Msg.Generation != 2 {
			t.Errorf("deleting twice gives %v, %v", again, err)
		}
		if _, err := w.services.ScaleService(w.ctx, connect.NewRequest(&fairleadv1.ScaleServiceRequest{Service: "hello", Instances: 2})); !errors.Is(fault.FromConnect(err), fault.Conflict) {
			t.Errorf("scaling a tombstone gives %v", err)
		}
		if r := w.must(&fairleadv1.DeployRequest{Service: "hello"}); r.Generation != 3 {
			t.Errorf("got %v", r)
		}
		d, _, err := w.api.desired(w.ctx, "hello")
		if err != nil || d.Deleted || d.Instances != 1 {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestAnIntentThatIsMetIsSaidAndWritesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.put(service.KindRevision, "hello-00001", service.Revision{Name: "hello-00001", Service: "hello", Template: service.Template{Command: []string{"python3"}}})
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: 1, Latest: "hello-00001", Traffic: []service.CatalogPart{{Revision: "hello-00001", Percent: 100}}})
		before := w.everything()
		r := w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1})
		if !r.Unchanged || r.Generation != 1 || !strings.Contains(r.Message, "hello-00001") {
			t.Errorf("got %v", r)
		}
		if after := w.everything(); after != before {
			t.Error("something was written")
		}
		if r := w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1, Force: true}); r.Unchanged || r.Generation != 2 {
			t.Errorf("forced: %v", r)
		}
	})
}

func TestScaleAndRestartAreNewGenerations(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := w.services.RestartService(w.ctx, connect.NewRequest(&fairleadv1.RestartServiceRequest{Service: "hello"})); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		s, err := w.services.ScaleService(w.ctx, connect.NewRequest(&fairleadv1.ScaleServiceRequest{Service: "hello", Instances: 4}))
		if err != nil || s.Msg.Generation != 6 {
			t.Errorf("got %v, %v", s, err)
		}
		if _, err := w.services.ScaleService(w.ctx, connect.NewRequest(&fairleadv1.ScaleServiceRequest{Service: "hello", Instances: -4})); !errors.Is(fault.FromConnect(err), fault.Invalid) {
			t.Errorf("got %v", err)
		}
		d, _, err := w.api.desired(w.ctx, "hello")
		if err != nil || d.Round != 4 || d.Instances != 4 {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestAnUnknownServiceIsAnsweredWithTheNearestName(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		_, err := w.services.GetStatus(w.ctx, connect.NewRequest(&fairleadv1.GetStatusRequest{Service: "helo"}))
		err = fault.FromConnect(err)
		if !errors.Is(err, fault.NotFound) || fault.HintOf(err) != "did you mean hello?" {
			t.Errorf("got %v, hint %q", err, fault.HintOf(err))
		}
		_, err = w.services.DeleteService(w.ctx, connect.NewRequest(&fairleadv1.DeleteServiceRequest{Service: "zebra"}))
		if err = fault.FromConnect(err); !errors.Is(err, fault.NotFound) || strings.Contains(fault.HintOf(err), "did you mean") {
			t.Errorf("got %v, hint %q", err, fault.HintOf(err))
		}
	})
}

func TestCurlGetsJSON(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		resp, err := http.Post(w.url+"/fairlead.v1.ServiceAPIService/GetStatus", "application/json", strings.NewReader(`{"service":"hello"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"service":"hello"`) {
			t.Errorf("%d %s, %v", resp.StatusCode, body, err)
		}
	})
}

func TestADeploySaysAtOnceThatNoHostOrGatewayIsThere(t *testing.T) {
	w := newWorld(t, memory.Open(memory.Options{}))
	deploy := func(env string, generation int32) string {
		r, err := w.services.Deploy(w.ctx, connect.NewRequest(&fairleadv1.DeployRequest{
			Service: "hello", ExpectedGeneration: generation, Instances: 1,
			Template: &fairleadv1.Template{Command: []string{"true"}, Env: map[string]string{"A": env}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		return r.Msg.GetMessage()
	}
	if got := deploy("1", 0); !strings.Contains(got, "no host is known") || !strings.Contains(got, "no gateway is known") || !strings.Contains(got, "token create --role host") {
		t.Errorf("where nobody joined: %q", got)
	}
	w.put(service.KindHost, "h1", service.Host{Name: "h1"})
	w.put(service.KindHost, "h2", service.Host{Name: "h2"})
	w.put(service.KindGateway, "gw-a", service.Gateway{Name: "gw-a"})
	w.hosts = []service.HostState{{Host: service.Host{Name: "h1"}, Silent: 40 * time.Second}}
	w.gateways = []service.GatewayState{{Name: "gw-a", Connected: true}}
	want := "no host is connected, so nothing can be started until one is: h1 was last heard 40s ago, h2 was not heard since control started"
	if got := deploy("2", 1); got != want {
		t.Errorf("told %q, not %q", got, want)
	}
	w.hosts[0].Connected = true
	if got := deploy("3", 2); got != "" {
		t.Errorf("where all are there: %q", got)
	}
}
