package control

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// unread is a mirror fed by hand.
type unread struct {
	t *testing.T
	*mirror
	at uint64
}

func (u *unread) document(kind string, v any) store.Document {
	u.t.Helper()
	body, err := json.Marshal(v)
	if text, is := v.(string); is {
		body, err = []byte(text), nil
	}
	if err != nil {
		u.t.Fatal(err)
	}
	u.at++
	return store.Document{Key: store.Key{Kind: kind, Name: "hello"}, Version: u.at, Body: body}
}

func (u *unread) commit(kind string, v any) {
	u.t.Helper()
	d := u.document(kind, v)
	u.absorb(store.Commit{Sequence: u.at, Changes: []store.Change{{Document: d}}})
}

// folded says what the table holds of the service.
func (u *unread) folded() string {
	for _, r := range first(u.fold()) {
		if r.Service == "hello" {
			return service.PlanText(r)
		}
	}
	return "unknown"
}

func first(all []view.Route, _ uint64) []view.Route { return all }

// TestRoutesThatCannotBeReadInAFirstDeployAreUnknownAndNotEmpty: what was read of
// them last stands, and where nothing was, nothing is said.
func TestRoutesThatCannotBeReadInAFirstDeployAreUnknownAndNotEmpty(t *testing.T) {
	plan := func(revision string) view.Route {
		return view.Route{Service: "hello", Splits: []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}}}
	}
	const torn = `{"service":`
	u := &unread{t: t, mirror: newMirror("")}
	u.commit(service.KindDesired, service.Desired{Service: "hello", Generation: 1})
	u.commit(service.KindCatalog, service.Catalog{Service: "hello"})
	u.commit(service.KindRoutes, service.Routes{Service: "hello", Plan: plan("hello-00001")})
	u.commit(service.KindRoutes, torn)
	if got := u.folded(); got != "100% to hello-00001" {
		t.Errorf("torn after it was read, it is taken for %s", got)
	}
	u.commit(service.KindRoutes, torn+"{")
	if got := u.folded(); got != "100% to hello-00001" {
		t.Errorf("torn again, it is taken for %s", got)
	}
	s := u.snapshot("hello")
	if why, reached := s.MayRoute(&service.World{}).Revision("hello-00001"); !reached {
		t.Errorf("what stands may be stopped: %s", why)
	}
	if said := s.UnreadRoutes(); !strings.Contains(said, "the routes of hello (version 5) cannot be read") || !strings.Contains(said, "100% to hello-00001 stands") {
		t.Errorf("it is said: %s", said)
	}

	// Listed anew in the same term what was known is known still; for a new leader
	// it is not, and nothing is offered before that is decided.
	all := []store.Document{u.document(service.KindDesired, service.Desired{Service: "hello", Generation: 1}), u.document(service.KindCatalog, service.Catalog{Service: "hello"}), u.document(service.KindRoutes, torn)}
	u.load(all, u.at)
	if got := u.folded(); got != "100% to hello-00001" {
		t.Errorf("listed anew, it is taken for %s", got)
	}
	next := &unread{t: t, mirror: newMirror(""), at: u.at}
	next.load(all, u.at)
	if got := next.folded(); got != "unknown" || !next.snapshot("hello").RoutesInDoubt(&service.World{}) {
		t.Errorf("a new leader takes it for %s", got)
	}
	if said := next.snapshot("hello").UnreadRoutes(); !strings.Contains(said, "no view of it is published") {
		t.Errorf("it is said: %s", said)
	}
	// What the catalog holds is known.
	next.commit(service.KindCatalog, service.Catalog{Service: "hello", Latest: "hello-00001", Traffic: []service.CatalogPart{{Revision: "hello-00001", Percent: 100}}})
	if got := next.folded(); got != "100% to hello-00001" {
		t.Errorf("with a catalog it is taken for %s", got)
	}
	// A removal is no torn record: nothing stands in for it.
	u.at++
	u.absorb(store.Commit{Sequence: u.at, Changes: []store.Change{{Document: store.Document{Key: store.Key{Kind: service.KindRoutes, Name: "hello"}}, Deleted: true}}})
	if got := u.folded(); got != "unknown" || u.snapshot("hello").UnreadRoutes() != "" {
		t.Errorf("removed, it is taken for %s", got)
	}
}
