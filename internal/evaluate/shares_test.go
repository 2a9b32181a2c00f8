package evaluate

import (
	"testing"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

func TestSharesOfTheRouteAreInTheViewAndGoNotBeforeTheEndpointsThatTheyAreOf(t *testing.T) {
	p := newPlane(3, "a")
	split := func(revision string, percent int) view.Split {
		return view.Split{Revision: revision, Percent: percent, Group: revision, Allowed: []string{revision}}
	}
	p.SetRoute(view.Route{Service: "s", Splits: []view.Split{split("r", 100)}})
	p.run(60, good)
	first := p.Publish("s", true).View
	if !view.EqualShares(first.Shares, []view.Share{{Percent: 100, Revisions: []string{"r"}}}) {
		t.Fatalf("the view says %v", first.Shares)
	}

	// A canary comes, and at the same moment an instance ends.
	p.enter(registry.Instance{ID: "z-new", Service: "s", Revision: "new", Zone: "a", Address: "127.0.0.1:2", Source: registry.Host, EverReady: true})
	p.SetRoute(view.Route{Service: "s", Splits: []view.Split{split("r", 50), split("new", 50)}})
	p.run(6, good)
	ended := p.reg.Of("s")[0]
	ended.Gone = true
	if _, judged := p.End(ended); !judged {
		t.Fatal("its end is not judged")
	}
	p.reg.Put(ended)
	urgent := p.Publish("s", false)
	if e, _ := urgent.View.Endpoint(ended.ID); e.In() || !urgent.Rest {
		t.Fatalf("the ended one stays, or nothing waits: %+v", urgent.View)
	}
	if _, there := urgent.View.Endpoint("z-new"); there || !view.EqualShares(urgent.View.Shares, first.Shares) {
		t.Errorf("before the canary's endpoint (there: %t) the shares are %v", there, urgent.View.Shares)
	}
	all := p.Publish("s", true).View
	if _, there := all.Endpoint("z-new"); !there || !view.EqualShares(all.Shares, []view.Share{{Percent: 50, Revisions: []string{"r"}}, {Percent: 50, Revisions: []string{"new"}}}) {
		t.Errorf("with it (there: %t) the shares are %v", there, all.Shares)
	}
	p.SetRoute(view.Route{Service: "s", Splits: []view.Split{split("r", 100), split("new", 0)}})
	if v := p.Publish("s", true).View; len(v.Shares) != 2 || v.Shares[1].Percent != 0 {
		t.Errorf("traffic alone moved, and the shares are %v", v.Shares)
	}
}
