package view

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestAnAmendedViewIsTheOneThatWouldHaveBeenAssembled(t *testing.T) {
	amended := 0
	rapid.Check(t, func(t *rapid.T) {
		policy := GuardPolicy{Mode: rapid.SampledFrom([]GuardMode{ServeAll, HoldForPerson, Honour}).Draw(t, "mode")}
		r := route("r")
		if rapid.Bool().Draw(t, "two sets") {
			r.Splits = append(r.Splits, Split{Group: "s", Revision: "s", Allowed: []string{"s"}, Tag: "s"})
		}
		members := make([]Member, rapid.IntRange(1, 24).Draw(t, "members"))
		for i := range members {
			members[i] = Member{
				Endpoint: Endpoint{
					ID: fmt.Sprintf("%03d", i), Revision: rapid.SampledFrom([]string{"r", "r", "r", "s", "old"}).Draw(t, "revision"),
					Zone: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"), Weight: 1000, Verdict: Eligible,
				},
				Ramp: 1000, Settled: true, EverReady: true,
			}
		}
		quick, whole := Assembler{Policy: policy}, Assembler{Policy: policy}
		var before *Service
		for range rapid.IntRange(1, 12).Draw(t, "views") {
			var changed []int32
			for i := range members {
				if rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
					changed = append(changed, int32(i))
					otherwise(t, &members[i])
				}
			}
			got, ok := quick.Amend(members, changed)
			if !ok {
				got = quick.Assemble(r, members)
			} else if len(changed) > 0 {
				amended++
			}
			if d := cmp.Diff(whole.Assemble(r, members), got, cmpopts.IgnoreUnexported(Assembly{})); d != "" {
				t.Fatalf("assembled and amended (%t):\n%s", ok, d)
			}
			short, long := got.From(before), Between(before, &got.View)
			if !slices.EqualFunc(short.pairs, long.pairs, func(a, b pair) bool { return a == b }) {
				t.Fatalf("amended (%t): it tells %d endpoints that are otherwise, and %d are", ok, len(short.pairs), len(long.pairs))
			}
			if rapid.IntRange(0, 3).Draw(t, "published") > 0 {
				before = &got.View
			}
		}
	})
	if amended == 0 {
		t.Error("nothing was ever amended")
	}
}

func otherwise(t *rapid.T, m *Member) {
	switch rapid.IntRange(0, 7).Draw(t, "what") {
	case 0:
		m.Terminating = !m.Terminating
	case 1:
		m.EverReady = !m.EverReady
	case 2:
		m.Settled, m.Ramp = false, 250
	case 3:
		m.Settled, m.Ramp = true, 1000
	case 4, 5:
		m.Verdict, m.Weight = Ineligible, 0
	case 6:
		m.Verdict, m.Weight = Degraded, 500
	default:
		m.Verdict, m.Weight = Eligible, 1000
	}
}

func TestAnAmendedViewLeavesThePublishedOneAsItIs(t *testing.T) {
	a := Assembler{}
	members := fleet("r", "a", 4)
	before := a.Assemble(route("r"), members).View
	kept := before.Digest()
	members[2].Verdict, members[2].Weight = Ineligible, 0
	after, ok := a.Amend(members, []int32{2})
	if !ok || after.View.Endpoints[2].In() || after.View.Marks[0].In != 3 {
		t.Fatalf("amended %t: %+v", ok, after.View)
	}
	if before.Digest() != kept {
		t.Error("the published view was changed")
	}
}

func TestAChangeThatIsOutOfOrderIsRefused(t *testing.T) {
	for name, c := range map[string]Change{
		"put":   {Put: []Endpoint{{ID: "b"}, {ID: "a"}}},
		"twice": {Put: []Endpoint{{ID: "a"}, {ID: "a"}}},
		"gone":  {Gone: []string{"b", "a"}},
	} {
		c.Service = "s"
		made := Service{Name: "s", Endpoints: c.Put}
		c.Digest = made.Digest()
		if _, err := (*Service)(nil).Apply(c); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
