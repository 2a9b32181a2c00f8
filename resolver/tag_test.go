package resolver_test

import (
	"errors"
	"testing"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

// TestAPickByATagIsOfTheRevisionsThatItNames, as the stream says it, and then as
// the disk does.
func TestAPickByATagIsOfTheRevisionsThatItNames(t *testing.T) {
	p := resolvertest.New(t)
	publish := func(tags ...view.Tag) {
		v := view.Service{Name: "pay", Tags: tags}
		for _, id := range []string{"a1", "b1", "b2"} {
			e := resolvertest.Endpoint(id, "127.0.0.1:9")
			e.Revision = "pay-" + id[:1]
			v.Endpoints = append(v.Endpoints, e)
		}
		p.Publish(v)
	}
	publish(view.Tag{Name: "canary", Revisions: []string{"pay-a"}}, view.Tag{Name: "both", Revisions: []string{"pay-a", "pay-b"}})
	cfg := p.Config(t.TempDir(), "pay")
	expect := func(r *resolver.Resolver) {
		t.Helper()
		for range 50 {
			if id := picked(t, r, "pay", resolver.Tag("canary")); id != "a1" {
				t.Fatalf("by the tag %s is picked", id)
			}
			if id := picked(t, r, "pay", resolver.Tag("both"), resolver.Tag("canary")); id != "a1" {
				t.Fatalf("by two tags %s is picked", id)
			}
		}
		for name, options := range map[string][]resolver.Option{
			"a tag that there is not":    {resolver.Tag("nightly")},
			"a tag, and others excluded": {resolver.Tag("canary"), resolver.Exclude("a1")},
		} {
			if _, err := r.Pick("pay", options...); !errors.Is(err, resolver.ErrNoMatch) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	r, err := resolver.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	await(t, r, "pay")
	expect(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	r = openResolver(t, cfg)
	expect(r)
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	publish(view.Tag{Name: "canary", Revisions: []string{"pay-b"}})
	untilResolver(t, r, "the tag moves", func(resolver.Status) bool {
		pick, err := r.Pick("pay", resolver.Tag("canary"))
		defer pick.Done(resolver.Good)
		return err == nil && pick.ID() != "a1"
	})
}
