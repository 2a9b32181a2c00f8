package httpapi

import (
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

func (w *world) status() *fairleadv1.GetStatusResponse {
	w.t.Helper()
	r, err := w.services.GetStatus(w.ctx, connect.NewRequest(&fairleadv1.GetStatusRequest{Service: "hello"}))
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Msg
}

func (w *world) served(name string, sequence uint64) service.GatewayState {
	return service.GatewayState{Name: name, Connected: true, Public: "0.0.0.0:8080", Serves: view.Version{Incarnation: w.st.Incarnation(), Epoch: 2, Counter: sequence}}
}

func TestStatusSaysWhatIsWantedTruePublishedAndRunning(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello", HostNames: []string{"shop.example.com"}})
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: 1, Latest: "hello-00001", Traffic: []service.CatalogPart{{Revision: "hello-00001", Percent: 100, Tag: "blue", Group: "hello-00001"}}})
		w.put(service.KindRevision, "hello-00001", service.Revision{Name: "hello-00001", Service: "hello", State: service.RevisionServing, Digest: "sha256:x", CreatedAt: time.Unix(7, 0)})
		w.put(service.KindRevision, "hello-world-00001", service.Revision{Name: "hello-world-00001", Service: "hello-world"})
		w.put(service.KindSaga, "s1", record(1, saga.Done, step("queue", "done", "")))
		for _, g := range []string{"gw-a", "gw-b", "gw-c"} {
			w.put(service.KindGateway, g, service.Gateway{Name: g})
		}
		seq := w.put(service.KindRoutes, "hello", service.Routes{Service: "hello", Plan: view.Route{Splits: []view.Split{{Revision: "hello-00001", Percent: 100, Group: "hello-00001"}}}})
		w.gateways = []service.GatewayState{w.served("gw-a", seq+5), w.served("gw-b", seq-1)}
		w.hosts = []service.HostState{{Host: service.Host{Name: "h1", Zone: "a"}, Connected: true, Instances: []service.Instance{
			{ID: "i1", Slot: "hello-00001.0", Service: "hello", Revision: "hello-00001", State: service.InstanceLive, Pid: 42, Restarts: 2},
			{ID: "x", Service: "other"},
		}}}

		s := w.status()
		if s.Generation != 1 || s.ObservedGeneration != 1 || s.Url != "http://hello.localhost:8080/" || !slices.Equal(s.HostNames, []string{"hello.localhost", "shop.example.com"}) {
			t.Errorf("got %v", s)
		}
		if len(s.Traffic) != 1 || s.Traffic[0].Tag != "blue" {
			t.Errorf("traffic %v", s.Traffic)
		}
		want := view.Version{Incarnation: w.st.Incarnation(), Epoch: 3, Counter: seq}.String()
		if r := s.Routes; r.Version != want || r.Gateways != 3 || r.Acknowledged != 1 || !slices.Equal(r.Behind, []string{"gw-b", "gw-c"}) || r.Traffic[0].RequestGroup != "hello-00001" {
			t.Errorf("routes %v, want version %s", s.Routes, want)
		}
		if len(s.Revisions) != 1 || s.Revisions[0].State != "serving" || s.Revisions[0].CreatedAt.AsTime().Unix() != 7 {
			t.Errorf("revisions %v", s.Revisions)
		}
		if len(s.Instances) != 1 || s.Instances[0].Pid != 42 || s.Instances[0].Host != "h1" || s.Instances[0].Zone != "a" || s.Instances[0].Eligibility != "unknown" || s.Instances[0].Restarts != 2 {
			t.Errorf("instances %v", s.Instances)
		}
		if s.Deployment.GetState() != "done" || s.Deployment.GetRevision() != "hello-00001" || s.Deployment.GetAttempt() != 1 {
			t.Errorf("deployment %v", s.Deployment)
		}
		if len(s.Alarms) != 1 {
			t.Errorf("alarms %v", s.Alarms)
		}
	})
}

func TestAGatewayOfAnotherIncarnationIsBehind(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.put(service.KindGateway, "gw", service.Gateway{Name: "gw"})
		seq := w.put(service.KindRoutes, "hello", service.Routes{Service: "hello"})
		g := w.served("gw", seq+100)
		g.Serves.Incarnation = "another"
		w.gateways = []service.GatewayState{g}
		if r := w.status().Routes; r.Acknowledged != 0 || len(r.Behind) != 1 {
			t.Errorf("routes %v", r)
		}
	})
}

func TestADeploymentThatWaitsSaysWhatFailedAndUntilWhen(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		r := record(1, saga.Waiting, step("queue", "done", ""), step("install", "", ""))
		r.Error, r.FailedStep, r.RetryAt, r.Attempt = "no such program", "install", time.Unix(9, 0), 2
		w.put(service.KindSaga, "s1", r)
		d := w.status().Deployment
		if d.State != "waiting" || d.Step != "install" || d.Error != "no such program" || d.RetryAt.AsTime().Unix() != 9 || d.Attempt != 2 {
			t.Errorf("got %v", d)
		}
		w.retryAt = time.Unix(30, 0) // a leader that is new waits anew
		if d := w.status().Deployment; d.RetryAt.AsTime().Unix() != 30 {
			t.Errorf("got %v", d)
		}
	})
}

func TestTheListSaysHowEachServiceDoes(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		state := func() string {
			r, err := w.services.ListServices(w.ctx, connect.NewRequest(&fairleadv1.ListServicesRequest{}))
			if err != nil || len(r.Msg.Services) != 1 {
				t.Fatalf("got %v, %v", r, err)
			}
			return r.Msg.Services[0].State
		}
		for _, c := range []struct {
			want string
			do   func()
		}{
			{"deploying", func() {}},
			{"failed", func() { w.put(service.KindSaga, "s1", record(1, saga.Waiting)) }},
			{"deploying", func() { w.put(service.KindSaga, "s1", record(1, saga.Running)) }},
			{"down", func() {
				w.put(service.KindSaga, "s1", record(1, saga.Done))
				w.put(service.KindCatalog, "hello", service.Catalog{
					Service: "hello", ObservedGeneration: 1, Traffic: []service.CatalogPart{{Revision: "hello-00002", Percent: 100}},
				})
			}},
			{"down", func() { // a revision that is kept warm answers nothing
				w.hosts = []service.HostState{{Connected: true, Instances: []service.Instance{{Service: "hello", Revision: "hello-00001", State: service.InstanceLive}}}}
			}},
			{"ready", func() {
				w.hosts[0].Instances = append(w.hosts[0].Instances, service.Instance{Service: "hello", Revision: "hello-00002", State: service.InstanceLive})
			}},
			{"deploying", func() {
				if _, err := w.services.ScaleService(w.ctx, connect.NewRequest(&fairleadv1.ScaleServiceRequest{Service: "hello", Instances: 2})); err != nil {
					t.Fatal(err)
				}
			}},
			{"degraded", func() {
				w.put(service.KindCatalog, "hello", service.Catalog{
					Service: "hello", ObservedGeneration: 2, Traffic: []service.CatalogPart{{Revision: "hello-00002", Percent: 100}},
				})
			}},
			{"needs-operator", func() {
				w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: 2, NeedsOperator: "x"})
			}},
		} {
			c.do()
			if got := state(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		}
	})
}

func TestTheListCountsNoProcessOfAnEarlierLife(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.put(service.KindRevision, "hello-00001", service.Revision{Name: "hello-00001", Service: "hello", Number: 1, Minted: "now"})
		w.put(service.KindCatalog, "hello", service.Catalog{
			Service: "hello", ObservedGeneration: 1, Traffic: []service.CatalogPart{{Revision: "hello-00001", Percent: 100}},
		})
		process := func(minted string) service.Instance {
			return service.Instance{Service: "hello", Revision: "hello-00001", Minted: minted, State: service.InstanceLive}
		}
		for _, c := range []struct {
			runs  []service.Instance
			live  int32
			state string
		}{
			{[]service.Instance{process("before")}, 0, "down"},
			{[]service.Instance{process("before"), process("now")}, 1, "ready"},
		} {
			w.hosts = []service.HostState{{Connected: true, Instances: c.runs}}
			r, err := w.services.ListServices(w.ctx, connect.NewRequest(&fairleadv1.ListServicesRequest{}))
			if err != nil || len(r.Msg.Services) != 1 || r.Msg.Services[0].Live != c.live || r.Msg.Services[0].State != c.state {
				t.Errorf("%+v: got %v, %v", c.runs, r, err)
			}
		}
	})
}

func TestEventsAreTheNewestInTheirOrderAndNameNoValue(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello", Template: &fairleadv1.Template{Command: []string{"x"}, Env: map[string]string{"A": "secret"}}})
		w.put(service.KindEvent, "hello.1", service.Event{Service: "hello", At: time.Unix(1, 0), Kind: "step", Text: "first"})
		w.put(service.KindEvent, "hello-b.1", service.Event{Service: "hello-b", At: time.Unix(1, 0), Kind: "step", Text: "another's"})
		r, err := w.services.ListEvents(w.ctx, connect.NewRequest(&fairleadv1.ListEventsRequest{Service: "hello"}))
		if err != nil || len(r.Msg.Events) != 2 || r.Msg.Events[0].Text != "first" || r.Msg.Events[1].Text != "deploy asked for by ann" {
			t.Errorf("got %v, %v", r, err)
		}
		r, err = w.services.ListEvents(w.ctx, connect.NewRequest(&fairleadv1.ListEventsRequest{Service: "hello", Limit: 1}))
		if err != nil || len(r.Msg.Events) != 1 || r.Msg.Events[0].Text == "first" {
			t.Errorf("got %v, %v", r, err)
		}
	})
}

func TestLogsAreStreamed(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.lines = []service.LogLine{{Instance: "i", Revision: "hello-00001", Text: "GET /"}}
		s, err := w.services.StreamLogs(w.ctx, connect.NewRequest(&fairleadv1.StreamLogsRequest{Service: "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		if !s.Receive() || len(s.Msg().Entries) != 0 {
			t.Errorf("it should begin with an empty message: %v, %v", s.Msg(), s.Err())
		}
		if !s.Receive() || s.Msg().Entries[0].Text != "GET /" {
			t.Errorf("got %v, %v", s.Msg(), s.Err())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
