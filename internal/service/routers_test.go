package service

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/view"
)

func TestTheTableOfWhoMayRouteSaysOfEachByWhatAndUntilWhen(t *testing.T) {
	plan := func(revision string) view.Route {
		return view.Route{Service: "s", Splits: []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}}}
	}
	at := func(counter uint64) view.Version { return view.Version{Incarnation: "i", Epoch: 1, Counter: counter} }
	s := &Snapshot{Service: "s", Routes: Doc[Routes]{Version: 20, Value: Routes{
		Service: "s", Plan: plan("s-00002"), Earlier: []PublishedPlan{{Sequence: 10, Plan: plan("s-00001")}},
	}}}
	serves := func(serves, keeps uint64, silent time.Duration) *GatewayState {
		return &GatewayState{Connected: silent == 0, Serves: at(serves), Keeps: at(keeps), Silent: silent}
	}
	w := &World{Incarnation: "i", Sequence: 30, Gateways: []KnownGateway{
		{Gateway: Gateway{Name: "g1"}, State: serves(20, 20, 0)},
		{Gateway: Gateway{Name: "g2"}, State: serves(20, 10, 0)},
		{Gateway: Gateway{Name: "g3"}, State: serves(10, 10, time.Minute), Silent: time.Minute},
		{Gateway: Gateway{Name: "g4"}, State: &GatewayState{Connected: true, Serves: view.Version{Incarnation: "other", Epoch: 1, Counter: 9}, Keeps: at(20)}},
	}}
	h := Holding{Rows: []ViewHolder{
		{Role: "gateway", Name: "g1", Connected: true, Version: at(7), Current: true},
		{Role: "service", Name: "web", Connected: true, Version: at(6), Behind: 5 * time.Second},
		{Role: "service", Name: "late", Connected: true, Version: at(5), Behind: time.Minute},
		{Role: "caller", Name: "new", Connected: true, Behind: time.Second},
		{Role: "caller", Name: "left", Version: at(7), Silent: 5 * time.Second},
		{Role: "caller", Name: "gone", Version: at(7), Silent: time.Minute},
		{Role: "caller", Name: "own", Via: "r1", Connected: true, Version: at(7), Current: true, Objection: "it names no instance"},
		{Role: "caller", Name: "job", Via: "r1", Connected: true, Version: at(7), Current: true},
	}}
	const settled = "it acknowledges table 20 or later, served and on its disk, or is retired"
	want := []routing.Router{
		{Role: "gateway", Name: "g1", Serves: at(20), Keeps: at(20), View: at(7), Connected: true, Stands: "current"},
		{Role: "gateway", Name: "g2", Serves: at(20), Keeps: at(10), Connected: true, Stands: "current", MayRoute: []string{"s-00001"}, Until: settled},
		{Role: "gateway", Name: "g3", Serves: at(10), Keeps: at(10), Silent: time.Minute, Stands: "behind", MayRoute: []string{"s-00001"}, Until: settled},
		{
			Role: "gateway", Name: "g4", Serves: view.Version{Incarnation: "other", Epoch: 1, Counter: 9}, Keeps: at(20), Connected: true,
			Stands: "has not acknowledged the routes yet", MayRoute: []string{"anything"}, Until: "it serves and keeps a table of this store, or is retired",
		},
		{Role: "service", Name: "web", View: at(6), Connected: true, Stands: "behind", Until: "it acknowledges the newest view, or 10s have passed"},
		{Role: "service", Name: "late", View: at(5), Connected: true, Stands: "behind, and nobody waits for it any more"},
		{Role: "caller", Name: "new", Connected: true, Stands: "has acknowledged no view yet", Until: "it acknowledges the newest view, or 14s have passed"},
		{Role: "caller", Name: "left", View: at(7), Silent: 5 * time.Second, Stands: "left", Until: "it is back, or 10s have passed"},
		{Role: "caller", Name: "gone", View: at(7), Silent: time.Minute, Stands: "left, and nobody waits for it"},
		{Role: "caller", Name: "own", Via: "r1", View: at(7), Connected: true, Stands: "picks otherwise: it names no instance"},
		{Role: "caller", Name: "job", Via: "r1", View: at(7), Connected: true, Stands: "current"},
	}
	if d := cmp.Diff(want, s.Routers(w, h)); d != "" {
		t.Error(d)
	}
	// Whom the table names is whom the stop of the first revision waits for.
	why, reached := s.MayRoute(w).Revision("s-00001")
	if !reached || why != "gateway g4 holds routes that this store does not know" {
		t.Errorf("a stop waits for %q", why)
	}
	w.Gateways = w.Gateways[:3]
	if why, reached := s.MayRoute(w).Revision("s-00001"); !reached || why != "gateway g2 may still route to it" {
		t.Errorf("a stop waits for %q", why)
	}
	w.Gateways = w.Gateways[:1]
	if why, reached := s.MayRoute(w).Revision("s-00001"); reached {
		t.Errorf("a stop waits for %q", why)
	}
}
