package httpapi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// serves has hello-00001 served from a slot on h1, with one that leaves beside it.
func (w *world) serves() {
	w.must(&fairleadv1.DeployRequest{Service: "hello"})
	w.put(service.KindCatalog, "hello", service.Catalog{
		Service: "hello", ObservedGeneration: 1, Latest: "hello-00001", Traffic: []service.CatalogPart{{Revision: "hello-00001", Percent: 100, Group: "hello-00001"}},
	})
	w.put(service.KindRevision, "hello-00001", service.Revision{
		Name: "hello-00001", Service: "hello", State: service.RevisionServing, Template: service.Template{Concurrency: 10},
		Slots:   []service.Slot{{ID: "hello-00001.0", Host: "h1"}},
		Leaving: []service.Slot{{ID: "hello-00001.1", Host: "h1"}},
	})
	w.put(service.KindGateway, "gw-a", service.Gateway{Name: "gw-a"})
	w.put(service.KindGateway, "gw-b", service.Gateway{Name: "gw-b"})
}

// runs is host h1 with a live process in each slot.
func runs(connected bool, silent time.Duration, slots ...string) service.HostState {
	h := service.HostState{Host: service.Host{Name: "h1", Zone: "a"}, Connected: connected, Silent: silent, Reported: true}
	for _, s := range slots {
		h.Instances = append(h.Instances, service.Instance{ID: "i-" + s, Slot: s, Service: "hello", Revision: "hello-00001", State: service.InstanceLive})
	}
	return h
}

func (w *world) summary() *fairleadv1.ServiceSummary {
	w.t.Helper()
	r, err := w.services.ListServices(w.ctx, connect.NewRequest(&fairleadv1.ListServicesRequest{}))
	if err != nil || len(r.Msg.Services) != 1 {
		w.t.Fatalf("got %v, %v", r, err)
	}
	return r.Msg.Services[0]
}

func TestAnInstanceOfAHostThatIsNotHeardIsNotShownAsLive(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.serves()
		w.hosts = []service.HostState{runs(true, time.Second, "hello-00001.0")}
		if i, s := w.status().Instances[0], w.summary(); i.State != "live" || i.Detail != "" || s.Live != 1 {
			t.Errorf("while it is heard: %v, %v", i, s)
		}
		for _, away := range []service.HostState{runs(false, 40*time.Second, "hello-00001.0"), runs(true, 40*time.Second, "hello-00001.0")} {
			w.hosts = []service.HostState{away}
			w.gateways = nil
			if i, s := w.status().Instances[0], w.summary(); i.State != "unheard" || i.Detail != "live 40s ago, when host h1 was last heard" || s.Live != 0 || s.State != "down" {
				t.Errorf("connected %v: %v, %v", away.Connected, i, s)
			}
			g := w.served("gw-a", 1)
			g.Polled = []string{"h1"}
			w.gateways = []service.GatewayState{g}
			if i, s := w.status().Instances[0], w.summary(); i.State != "live" || !strings.Contains(i.Detail, "which polls gateway gw-a") || s.Live != 1 {
				t.Errorf("connected %v, polling a gateway: %v, %v", away.Connected, i, s)
			}
		}
	})
}

func TestSlotsThatAreToGoAreToldFromThoseThatStay(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.serves()
		w.hosts = []service.HostState{runs(true, 0, "hello-00001.0", "hello-00001.1", "hello-00001.2")}
		var got []string
		for _, i := range w.status().Instances {
			got = append(got, i.Slot+" "+i.SlotState)
		}
		if !slices.Equal(got, []string{"hello-00001.0 ", "hello-00001.1 leaving", "hello-00001.2 stray"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestAGatewayThatIsNotHeardIsNotCountedAndNamedWithItsSilence(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.serves()
		seq := w.put(service.KindRoutes, "hello", service.Routes{Service: "hello"})
		dead := w.served("gw-b", seq)
		dead.Connected, dead.Silent = false, 70*time.Second
		w.gateways = []service.GatewayState{w.served("gw-a", seq), dead}
		r := w.status().Routes
		if r.Gateways != 2 || r.Acknowledged != 1 || len(r.Behind) != 0 || len(r.Unheard) != 1 || r.Unheard[0].Name != "gw-b" || r.Unheard[0].Silent.AsDuration() != 70*time.Second {
			t.Errorf("got %v", r)
		}
		w.gateways = w.gateways[:1] // nothing of it since the leader began
		if r := w.status().Routes; r.Acknowledged != 1 || !slices.Equal(r.Behind, []string{"gw-b"}) || len(r.Unheard) != 1 || r.Unheard[0].Silent != nil {
			t.Errorf("got %v", r)
		}
	})
}

func TestStatusSaysThatRequestsAreHeldSinceWhenAndHowManyWait(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.serves()
		w.put(service.KindRoutes, "hello", service.Routes{Service: "hello", At: time.Unix(7, 0), Plan: view.Route{Splits: []view.Split{{Hold: true}}}})
		a, b := w.served("gw-a", 1), w.served("gw-b", 1)
		a.Waiting, b.Waiting = map[string]int{"hello": 3, "other": 9}, map[string]int{"hello": 4}
		w.gateways = []service.GatewayState{a, b}
		if r := w.status().Routes; !r.Held || r.HeldSince.AsTime().Unix() != 7 || r.Waiting != 7 {
			t.Errorf("got %v", r)
		}
	})
}

func TestMissingCreditsAreNamedWithTheirGateway(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.serves()
		h := runs(true, 0, "hello-00001.0", "hello-00001.1")
		h.Instances[0].Away, h.Instances[1].Away = map[string]int{"gw-b": 5}, map[string]int{"gw-b": 4, "gw-a": 1}
		w.hosts, w.gateways = []service.HostState{h}, []service.GatewayState{w.served("gw-a", 1)}
		m := w.status().Missing
		if len(m) != 2 || m[0].Gateway != "gw-a" || !m[0].Heard || m[0].Credits != 1 || m[1].Gateway != "gw-b" || m[1].Heard || m[1].Credits != 9 || m[1].Of != 20 {
			t.Errorf("got %v", m)
		}
	})
}
