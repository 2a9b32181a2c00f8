package evaluate

import (
	"testing"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

func TestATagThatMovesReachesTheViewThoughNoInstanceChanges(t *testing.T) {
	p := newPlane(2, "a")
	p.enter(registry.Instance{ID: "z-new", Service: "s", Revision: "new", Zone: "a", Address: "127.0.0.1:2", Source: registry.Host})
	route := func(tag string) view.Route {
		splits := []view.Split{
			{Revision: "r", Percent: 100, Group: "r", Allowed: []string{"r"}},
			{Revision: "new", Group: "new", Allowed: []string{"new"}},
		}
		splits[1].Tag = tag
		return view.Route{Service: "s", Splits: splits}
	}
	publish := func() *view.Service {
		t.Helper()
		p.run(60, good)
		out := p.Publish("s", true)
		if out.View == nil {
			t.Fatal("nothing is published")
		}
		return out.View
	}
	p.SetRoute(route(""))
	before := publish()
	p.SetRoute(route("canary"))
	after := publish()
	if got := after.Tagged("canary"); len(got) != 1 || got[0] != "new" {
		t.Errorf("the view says of the tag %v", got)
	}
	if after.Version == before.Version || after.Sum != before.Sum {
		t.Errorf("it is told as %s after %s", after.Version, before.Version)
	}
	plane := resolvertest.New(t)
	plane.Publish(*after)
	r := plane.Open(t, "s")
	if err := r.Await(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	for range 20 { // by the real stream and the real resolver
		if pick, err := r.Pick("s", resolver.Tag("canary")); err != nil || pick.ID() != "z-new" {
			t.Fatalf("by the tag %q is picked: %v", pick.ID(), err)
		}
	}
	if again := publish(); again.Version != after.Version {
		t.Error("it is told twice")
	}
	p.SetRoute(route(""))
	if got := publish().Tagged("canary"); got != nil {
		t.Errorf("the tag is gone, and names %v", got)
	}
}
