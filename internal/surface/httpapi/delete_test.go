package httpapi

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

func (w *world) delete(name string) (int32, error) {
	r, err := w.services.DeleteService(w.ctx, connect.NewRequest(&fairleadv1.DeleteServiceRequest{Service: name, By: "ann"}))
	if err != nil {
		return 0, err
	}
	return r.Msg.GetGeneration(), nil
}

func (w *world) deleteRevision(name string) error {
	_, err := w.services.DeleteRevision(w.ctx, connect.NewRequest(&fairleadv1.DeleteRevisionRequest{Service: "hello", Revision: name, By: "ann"}))
	return err
}

func TestAServiceThatOnlyAGatewayRemembersIsGivenATombstone(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.gateways = []service.GatewayState{{Name: "gw", Refused: map[string]string{"lost": view.ReasonOrphaned + "absent without a tombstone", "bad": "no such group"}}}
		_, err := w.delete("bad")
		is(t, err, fault.NotFound, "there is no service")
		_, err = w.services.GetStatus(w.ctx, connect.NewRequest(&fairleadv1.GetStatusRequest{Service: "lost"}))
		is(t, err, fault.NotFound, `service "lost" is not in this store, and gateway gw serves it`)
		if hint := fault.HintOf(fault.FromConnect(err)); !strings.Contains(hint, "fairlead delete lost") {
			t.Errorf("the hint is %q", hint)
		}
		generation, err := w.delete("lost")
		if err != nil || generation != 1 {
			t.Fatalf("generation %d, %v", generation, err)
		}
		d, _, found, err := get[service.Desired](w.ctx, w.st, service.KindDesired, "lost")
		if err != nil || !found || !d.Deleted || d.Generation != 1 || d.By != "ann" {
			t.Errorf("%+v, %v", d, err)
		}
		if generation, err = w.delete("lost"); err != nil || generation != 1 {
			t.Errorf("again: generation %d, %v", generation, err)
		}
	})
}

func TestARevisionThatSomethingRefersToIsNotDeletedAndItIsSaidWhy(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(w *world, c *service.Catalog, r *service.Revision)
		why  string
	}{
		"traffic": {why: "90% of the traffic goes to it", edit: func(_ *world, c *service.Catalog, _ *service.Revision) {
			c.Traffic = []service.CatalogPart{{Revision: "hello-00001", Percent: 90}, {Revision: "hello-00002", Percent: 10}}
		}},
		"a tag": {why: "tag old leads to it", edit: func(_ *world, c *service.Catalog, _ *service.Revision) {
			c.Traffic = append(c.Traffic, service.CatalogPart{Revision: "hello-00001", Tag: "old"})
		}},
		"the latest": {why: "it is the latest", edit: func(_ *world, c *service.Catalog, _ *service.Revision) { c.Latest = "hello-00001" }},
		"warm":       {why: "kept warm until", edit: func(_ *world, c *service.Catalog, _ *service.Revision) { c.Warm = "hello-00001" }},
		"instances":  {why: "have not been stopped", edit: func(_ *world, _ *service.Catalog, r *service.Revision) { r.Slots = []service.Slot{{ID: "x"}} }},
		"its deploy": {why: "its deploy has not ended", edit: func(w *world, _ *service.Catalog, _ *service.Revision) {
			r := record(2, saga.Waiting)
			r.ID = "hello.deploy.1"
			w.put(service.KindSaga, r.ID, r)
		}},
		"a gateway": {why: "gateway gw may still route to it", edit: func(w *world, _ *service.Catalog, _ *service.Revision) {
			w.put(service.KindGateway, "gw", service.Gateway{Name: "gw"})
			route := func(revision string) view.Route {
				return view.Route{Service: "hello", Splits: []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}}}
			}
			w.put(service.KindRoutes, "hello", service.Routes{Service: "hello", Plan: route("hello-00002"), Earlier: []service.PublishedPlan{{Sequence: 1, Plan: route("hello-00001")}}})
		}},
		"a number that would come again": {why: "would be given to another", edit: func(_ *world, c *service.Catalog, _ *service.Revision) { c.LastRevision = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, w *world) {
				w.twoRevisions()
				cat := service.Catalog{Service: "hello", LastRevision: 2, Latest: "hello-00002", Traffic: []service.CatalogPart{{Revision: "hello-00002", Percent: 100}}}
				r := service.Revision{Name: "hello-00001", Service: "hello", Number: 1, State: service.RevisionRetired}
				c.edit(w, &cat, &r)
				w.put(service.KindCatalog, "hello", cat)
				w.put(service.KindRevision, "hello-00001", r)
				before := w.everything()
				is(t, w.deleteRevision("hello-00001"), fault.Conflict, c.why)
				if w.everything() != before {
					t.Error("what was refused changed something")
				}
			})
		})
	}
}

func TestWhatIsAskedForTodayKeepsItsRecordThoughItFailed(t *testing.T) {
	w := newWorld(t, sqliteStore(t))
	w.twoRevisions()
	template := templateOf(w.wanted().GetTemplate())
	w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", LastRevision: 3, Latest: "hello-00001"})
	w.put(service.KindRevision, "hello-00002", service.Revision{Name: "hello-00002", Service: "hello", Number: 2, State: service.RevisionFailed, Digest: template.Digest(w.st.Incarnation())})
	is(t, w.deleteRevision("hello-00002"), fault.Conflict, "keeps it from being tried again")
}

func TestARevisionThatNothingRefersToIsForgotten(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", LastRevision: 2, Latest: "hello-00002"})
		w.put(service.KindRevision, "hello-00001", service.Revision{Name: "hello-00001", Service: "hello", Number: 1, State: service.RevisionRetired})
		is(t, w.deleteRevision("hello-00007"), fault.NotFound, "no revision")
		if err := w.deleteRevision("hello-00001"); err != nil {
			t.Fatal(err)
		}
		all, err := w.api.revisions(w.ctx, "hello")
		if err != nil || len(all) != 1 || !strings.Contains(w.history(), "the record of hello-00001 deleted by ann") {
			t.Errorf("%d revisions, %v; history\n%s", len(all), err, w.history())
		}
	})
}
