package routing

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/view"
)

func shown(counter uint64, ids ...string) Published {
	v := &view.Service{Version: view.Version{Incarnation: "i", Epoch: 1, Counter: counter}}
	for _, id := range ids {
		v.Endpoints = append(v.Endpoints, view.Endpoint{ID: id, Weight: 1000, Verdict: view.Eligible})
	}
	return Published{View: v, At: time.Duration(counter) * time.Second}
}

func TestAnInstanceIsOutSinceTheFirstViewAfterTheLastThatNamesIt(t *testing.T) {
	out := shown(4, "b")
	out.View.Endpoints = append([]view.Endpoint{{ID: "a", Verdict: view.Ineligible}}, out.View.Endpoints...)
	for name, c := range map[string]struct {
		views []Published // newest first
		ids   []string
		since uint64 // 0: the newest names it
	}{
		"named by the newest":             {[]Published{shown(2, "a"), shown(1, "a")}, []string{"a"}, 0},
		"one of them is":                  {[]Published{shown(2, "b"), shown(1, "a")}, []string{"a", "b"}, 0},
		"gone since the second":           {[]Published{shown(3), shown(2), shown(1, "a")}, []string{"a"}, 2},
		"it came back and went":           {[]Published{shown(5), shown(4, "a"), shown(3), shown(2, "a")}, []string{"a"}, 5},
		"out by its verdict is not named": {[]Published{out, shown(3, "a")}, []string{"a"}, 4},
		"named by none that is known":     {[]Published{shown(3), shown(2)}, []string{"a"}, 2},
		"no view":                         {nil, []string{"a"}, 0},
	} {
		since, is := Without(slices.Values(c.views), c.ids)
		if is != (c.since > 0) || is && since.View.Version.Counter != c.since {
			t.Errorf("%s: since %+v, %v; expected %d", name, since, is, c.since)
		}
	}
}

// TestWhoHoldsTheViewWithoutOrALaterOnePicksNoneOfThem for any history, and who
// holds the one before it does.
func TestWhoHoldsTheViewWithoutOrALaterOnePicksNoneOfThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var views []Published // oldest first
		for i := range rapid.IntRange(1, 12).Draw(t, "views") {
			var ids []string
			for _, id := range []string{"a", "b"} {
				if rapid.Bool().Draw(t, id) {
					ids = append(ids, id)
				}
			}
			views = append(views, shown(uint64(i+1), ids...))
		}
		back := slices.Clone(views)
		slices.Reverse(back)
		since, is := Without(slices.Values(back), []string{"a"})
		for _, p := range views {
			named := names(p.View, []string{"a"})
			switch later := is && p.At >= since.At; {
			case later && named:
				t.Fatalf("view %d names it, and it is out since %d", p.View.Version.Counter, since.View.Version.Counter)
			case is && p.At == since.At-time.Second && !named:
				t.Fatalf("it is out since %d, and already by the view before", since.View.Version.Counter)
			}
		}
		if !is && !names(back[0].View, []string{"a"}) {
			t.Fatal("the newest does not name it")
		}
	})
}

func TestThoseWhoAreWaitedForAreCountedAndSomeAreNamed(t *testing.T) {
	var p Pickers
	if !p.Nobody() || p.Text() != "nobody" {
		t.Errorf("at first %q", p.Text())
	}
	p.Add(1, func() string { return "service/web" })
	p.Add(0, func() string { return "service/none" })
	if p.Nobody() || p.Text() != "1 caller (service/web)" {
		t.Errorf("then %q", p.Text())
	}
	p.Add(40, func() string { return "40 at relay/r1" })
	if p.Text() != "41 callers (service/web, 40 at relay/r1)" {
		t.Errorf("then %q", p.Text())
	}
	for range 9 {
		p.Add(1, func() string { return "caller/x" })
	}
	if p.Text() != "50 callers (service/web, 40 at relay/r1, caller/x, caller/x, caller/x, …)" {
		t.Errorf("in the end %q", p.Text())
	}
	if p := (Pickers{Why: "the view names it still"}); p.Nobody() || p.Text() != p.Why {
		t.Errorf("%q", p.Text())
	}
}
