package resolver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

// shared is a resolver whose view has one instance of revision a, three of b and
// one of c.
func shared(t *testing.T, shares ...view.Share) *resolver.Resolver {
	p := resolvertest.New(t)
	v := view.Service{Name: "pay", Shares: shares, Tags: []view.Tag{{Name: "next", Revisions: []string{"c"}}}}
	for _, id := range []string{"a1", "b1", "b2", "b3", "c1"} {
		e := resolvertest.Endpoint(id, "127.0.0.1:9")
		e.Revision = id[:1]
		v.Endpoints = append(v.Endpoints, e)
	}
	p.Publish(v)
	r := openResolver(t, p.Config(t.TempDir(), "pay"))
	await(t, r, "pay")
	return r
}

func TestPicksAreByTheSharesOfTheRouteAndARevisionOfNonePercentIsReachedByItsTagAlone(t *testing.T) {
	r := shared(t, view.Share{Percent: 80, Revisions: []string{"a"}}, view.Share{Percent: 20, Revisions: []string{"b"}}, view.Share{Revisions: []string{"c"}})
	const picks = 20_000
	got := map[string]int{}
	for range picks {
		got[picked(t, r, "pay")[:1]]++
	}
	if share := float64(got["a"]) / picks; share < 0.77 || share > 0.83 || got["c"] > 0 {
		t.Errorf("80%% of a, 20%% of b, none of c: %v", got)
	}
	for name, options := range map[string][]resolver.Option{
		"its tag":      {resolver.Tag("next")},
		"its revision": {resolver.Revision("c")},
		"itself":       {resolver.Instance("c1")},
	} {
		if id := picked(t, r, "pay", options...); id != "c1" {
			t.Errorf("by %s %s is picked", name, id)
		}
	}
	var without []resolver.Option // all but c are tried already
	for _, id := range []string{"a1", "b1", "b2", "b3"} {
		without = append(without, resolver.Exclude(id))
	}
	if _, err := r.Pick("pay", without...); !errors.Is(err, resolver.ErrNoMatch) {
		t.Errorf("a retry where only c is left: %v", err)
	}
}

func TestWhereNoInstanceOfAShareIsLeftOnlyThosePickWhomNoShareNames(t *testing.T) {
	for name, c := range map[string]struct {
		shares []view.Share
		want   string
	}{
		"all are of 0%":           {[]view.Share{{Percent: 100, Revisions: []string{"gone"}}, {Revisions: []string{"a", "b", "c"}}}, ""},
		"a and b are of no share": {[]view.Share{{Percent: 100, Revisions: []string{"gone"}}, {Revisions: []string{"c"}}}, "ab"},
		"one share of two":        {[]view.Share{{Percent: 50, Revisions: []string{"gone"}}, {Percent: 50, Revisions: []string{"b"}}, {Revisions: []string{"c"}}}, "b"},
		"one group of two":        {[]view.Share{{Percent: 100, Revisions: []string{"b", "c"}}}, "bc"},
		"shares are not known":    {nil, "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			r := shared(t, c.shares...)
			seen := map[string]bool{}
			for range 500 {
				p, err := r.Pick("pay")
				if err != nil {
					if !errors.Is(err, resolver.ErrNoEndpoint) {
						t.Fatal(err)
					}
					continue
				}
				seen[p.ID()[:1]] = true
				p.Done(resolver.Good)
			}
			got := ""
			for _, rev := range "abc" {
				if seen[fmt.Sprintf("%c", rev)] {
					got += fmt.Sprintf("%c", rev)
				}
			}
			if got != c.want {
				t.Errorf("picked are %q, want %q", got, c.want)
			}
		})
	}
}
