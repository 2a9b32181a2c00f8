package httpapi

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// explained is the explanation as text.
func (w *world) explained(name string) (string, error) {
	r, err := w.services.ExplainService(w.ctx, connect.NewRequest(&fairleadv1.ExplainServiceRequest{Service: name}))
	if err != nil {
		return "", err
	}
	lines := []string{r.Msg.GetSummary()}
	for _, s := range r.Msg.GetSections() {
		for _, l := range s.GetLines() {
			lines = append(lines, s.GetTitle()+": "+l)
		}
	}
	return strings.Join(lines, "\n"), nil
}

func (w *world) explains(name string, wants ...string) {
	w.t.Helper()
	got, err := w.explained(name)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, want := range wants {
		if !strings.Contains(got, want) {
			w.t.Errorf("the explanation is\n%s\nwithout %q", got, want)
		}
	}
}

func TestAnExplanationIsMadeOfTheRecordsAndOfWhatIsSeen(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		_, err := w.explained("helo")
		is(t, err, fault.NotFound, "there is no service")
		w.twoRevisions()
		route := view.Route{Service: "hello", Hosts: []string{"hello.localhost"}, Splits: []view.Split{{Revision: "hello-00002", Percent: 100, Group: "hello-00002", Allowed: []string{"hello-00002"}}}}
		table := w.put(service.KindRoutes, "hello", service.Routes{Service: "hello", Plan: route})
		w.put(service.KindGateway, "gw-1", service.Gateway{Name: "gw-1"})
		w.put(service.KindGateway, "gw-2", service.Gateway{Name: "gw-2"})
		g := w.served("gw-1", table)
		g.Keeps = g.Serves
		w.gateways = []service.GatewayState{g}
		w.hosts = []service.HostState{{Host: service.Host{Name: "h1"}, Connected: true, Reported: true, Instances: []service.Instance{
			{ID: "i1", Slot: "hello-00002.0", Service: "hello", Revision: "hello-00002", State: service.InstanceLive, Pid: 42},
		}}}
		w.explains("hello",
			"desired: generation 2, by ann", "catalog: generation 2 is applied; hello-00002 serves all traffic",
			"gateways: gw-1 serves 100% to hello-00002", "gw-2 has never said what it serves; it was not heard since the leader started",
			"processes: hello-00002.0 on h1: live, pid 42",
			"revisions: hello-00001 (serving): kept: it led the traffic just before and is kept warm until",
			"to do: if gateway gw-2 does not come back: fairlead gateways retire gw-2",
			"to do: alarm of the installation: disk is nearly full",
		)
	})
}

func TestWhatCannotBeReadOrOnlyAGatewayRemembersIsExplainedAllTheSame(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		if _, err := w.st.Apply(w.ctx, store.Apply{ID: "broken", Writes: []store.Write{{Key: store.Key{Kind: service.KindCatalog, Name: "hello"}, Any: true, Body: []byte(`{"traffic":7}`)}}}); err != nil {
			t.Fatal(err)
		}
		w.explains("hello", "it needs an operator", "catalog: catalog hello (version")
		w.gateways = []service.GatewayState{{Name: "gw", Silent: time.Second, Refused: map[string]string{"lost": view.ReasonOrphaned + "absent"}}}
		w.put(service.KindGateway, "gw", service.Gateway{Name: "gw"})
		w.explains("lost", "this store does not know it, and gateway gw serves it", "fairlead delete lost")
	})
}
