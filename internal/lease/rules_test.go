package lease_test

import (
	"testing"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
	"pgregory.net/rapid"
)

func TestTheChoiceFollowsThePercents(t *testing.T) {
	c := lease.NewChooser([]view.Split{{Percent: 90}, {Percent: 0, Tag: "try"}, {Percent: 10}})
	var n [3]int
	for i := range 10_000 {
		n[c.Choose("", uint32(uint64(i)<<32/10_000))]++
	}
	if n[0] < 8999 || n[0] > 9001 || n[1] != 0 || n[0]+n[2] != 10_000 {
		t.Errorf("of 10,000 even draws %v, want about 9000, 0, 1000", n)
	}
	if got := c.Choose("try", 0); got != 1 {
		t.Errorf("the tag leads to split %d, want 1", got)
	}
	if got := c.Choose("other", 0); got != -1 {
		t.Errorf("an unknown tag leads to split %d", got)
	}
	if got := lease.NewChooser(nil).Choose("", 0); got != -1 {
		t.Errorf("no splits lead to split %d", got)
	}
}

func TestADrawNeverLeadsToASplitWithoutTraffic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.IntRange(0, 100).Draw(t, "percent")
		splits := []view.Split{{Percent: a}, {Percent: 0}, {Percent: 100 - a}}
		i := lease.NewChooser(splits).Choose("", rapid.Uint32().Draw(t, "draw"))
		if i < 0 || splits[i].Percent == 0 {
			t.Fatalf("led to split %d", i)
		}
	})
}

func TestSplitsThatShareAGroupGiveLeasesOnlyToWhatAllOfThemAllow(t *testing.T) {
	r := lease.RulesOf(view.Version{Incarnation: "7f"}, view.Route{Splits: []view.Split{
		{Group: "g", Percent: 100, Allowed: []string{"a", "b"}},
		{Group: "g", Tag: "t", Allowed: []string{"b", "c"}},
	}})["g"]
	if r.Allows("a", "") || !r.Allows("b", "") || r.Allows("c", "") || !r.Open || !r.Admits("t") {
		t.Errorf("the rules are %+v", r)
	}
	if n := len(lease.RulesOf(view.Version{}, view.Route{Deleted: true, Splits: []view.Split{{Group: "g"}}})); n != 0 {
		t.Errorf("a deleted route has rules for %d groups", n)
	}
}

func TestSplitsThatShareAGroupGiveLeasesOnlyToTheLifeThatAllOfThemAllow(t *testing.T) {
	r := lease.RulesOf(view.Version{Incarnation: "7f"}, view.Route{Splits: []view.Split{
		{Group: "g", Percent: 100, Allowed: []string{"a", "b"}, Minted: []string{"", "2"}},
		{Group: "g", Tag: "t", Allowed: []string{"b", "a"}, Minted: []string{"2"}},
	}})["g"]
	if !r.Allows("b", "2") || r.Allows("b", "1") || !r.Allows("b", "") || !r.Allows("a", "1") {
		t.Errorf("the rules are %+v", r)
	}
}

func TestAGroupThatIsHeldIsLeasedFromByNobodyAndWhatComesWaits(t *testing.T) {
	route := view.Route{Splits: []view.Split{
		{Group: "g", Percent: 100, Allowed: []string{"b"}, Hold: true},
		{Group: "g", Tag: "t", Allowed: []string{"b"}},
	}}
	q := lease.NewQueue()
	q.Offer("i", "b", "", 3)
	q.Govern(lease.RulesOf(view.Version{Incarnation: "7f", Counter: 1}, route)["g"])
	if cs := q.Arrive(&lease.Request{Deadline: 1}, 0); len(cs) != 1 || cs[0].Verb != lease.Demand || q.Waiting() != 1 {
		t.Fatalf("while held: %+v, %d wait", cs, q.Waiting())
	}
	route.Splits[0].Hold = false
	cs := q.Govern(lease.RulesOf(view.Version{Incarnation: "7f", Counter: 2}, route)["g"])
	if len(cs) == 0 || cs[0].Verb != lease.Grant || cs[0].Rules.Table.Counter != 2 {
		t.Errorf("once it is not held any more: %+v", cs)
	}
}
