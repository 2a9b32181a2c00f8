package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

func TestAStopThatWaitsForCallersNamesThemAndWhenItGoesOn(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		stop := service.StopWait{Instances: []string{"i1", "i2"}, Reason: "the service is deleted", Until: time.Date(2026, 1, 2, 12, 3, 10, 0, time.UTC)}
		stop.For.Add(1, func() string { return "service/payments" })
		stop.For.Add(2, func() string { return "2 at relay/r1" })
		w.stops = []service.StopWait{stop}
		const want = "the stop of 2 instances (the service is deleted) waits for 3 callers (service/payments, 2 at relay/r1); it goes on at 12:03:10"
		if got := w.status().Stops; !slices.Equal(got, []string{want}) {
			t.Errorf("status says %q", got)
		}
		r, err := w.services.ExplainService(w.ctx, connect.NewRequest(&fairleadv1.ExplainServiceRequest{Service: "hello"}))
		if err != nil || !strings.Contains(r.Msg.String(), want) {
			t.Errorf("explain says %v, %v", r, err)
		}
	})
}

func TestTheTableOfRoutersHasGatewaysThatMayRouteOtherwise(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.put(service.KindGateway, "gw", service.Gateway{Name: "gw"})
		plan := func(revision string) view.Route {
			return view.Route{Service: "hello", Splits: []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}}}
		}
		seq := w.put(service.KindRoutes, "hello", service.Routes{
			Service: "hello", Plan: plan("hello-00002"), Earlier: []service.PublishedPlan{{Sequence: 1, Plan: plan("hello-00001")}},
		})
		w.gateways = []service.GatewayState{w.served("gw", 1)}
		resp, err := w.api.ListRouters(w.ctx, connect.NewRequest(&fairleadv1.ListRoutersRequest{Service: "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		out := resp.Msg
		if out.GetPlan() != "100% to hello-00002" || !strings.HasSuffix(out.GetRoutes(), "/"+fmt.Sprint(seq)) || len(out.GetRouters()) != 1 {
			t.Fatalf("got %v", out)
		}
		if r := out.GetRouters()[0]; r.GetRole() != "gateway" || !slices.Equal(r.GetMayRoute(), []string{"hello-00001"}) || !strings.HasPrefix(r.GetUntil(), "it acknowledges table "+fmt.Sprint(seq)) {
			t.Errorf("got %v", r)
		}
	})
}
