package service

import (
	"testing"

	"github.com/fairlead-platform/fairlead/view"
)

func TestWhatAGatewayHeldBeforeItRefusedAnEntryStaysReached(t *testing.T) {
	s := steady()
	second(s, RevisionServing, "")
	old := view.Route{Service: "s", Splits: []view.Split{{Revision: "s-00002", Percent: 100, Group: "s-00002", Allowed: []string{"s-00002"}}}}
	s.Routes.Value.Earlier = []PublishedPlan{{Sequence: 5, Plan: old}}
	w := calm(s)
	if _, reached := s.MayRoute(w).Revision("s-00002"); reached {
		t.Fatal("a gateway that serves the routes in force is said to hold earlier ones")
	}
	w.Gateways[0].State.Refused = map[string]string{"s": "not understood"}
	if why, reached := s.MayRoute(w).Revision("s-00002"); !reached || why != "gateway g1 may still route to it" {
		t.Errorf("%v %q", reached, why)
	}
	if n := len(s.Publish(old, "", "", w).Earlier); n != 2 {
		t.Errorf("%d earlier plans are kept", n)
	}
}

func TestRequestsThatAreHeldReachNobody(t *testing.T) {
	s := steady()
	s.Routes.Value.Plan = Held(s.Routes.Value.Plan)
	if _, reached := s.MayRoute(calm(s)).Revision("s-00001"); reached {
		t.Error("a revision of a held route is said to be reached")
	}
}

func TestASharedGroupIsNamedAfterItsServiceSoThatNoTwoServicesHaveOne(t *testing.T) {
	a := Revision{Name: "a-00001", Service: "a", Template: Template{Group: "workers"}}
	b := Revision{Name: "b-00001", Service: "b", Template: Template{Group: "workers"}}
	if a.GroupOf() != "a.workers" || b.GroupOf() != "b.workers" {
		t.Errorf("%s, %s", a.GroupOf(), b.GroupOf())
	}
	a.Template.Group = ""
	if a.GroupOf() != "a-00001" {
		t.Errorf("its own group is %s", a.GroupOf())
	}
}
