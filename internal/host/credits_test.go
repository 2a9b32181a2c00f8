package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// say writes moves as a person reads them: "g1 +50 x, g2 ?3 x".
func say(moves []move) string {
	var out []string
	for _, m := range moves {
		if m.grant > 0 {
			out = append(out, fmt.Sprintf("%s +%d %s", m.gateway, m.grant, m.instance))
		}
		if m.recall > 0 {
			out = append(out, fmt.Sprintf("%s ?%d %s", m.gateway, m.recall, m.instance))
		}
	}
	return strings.Join(out, ", ")
}

func TestCreditsBelongToOneGatewayAtATime(t *testing.T) {
	l := newLedger()
	for _, step := range []struct {
		what string
		do   func() []move
		want string
	}{
		{"an instance without gateways", func() []move { return l.open("x", "g", 10, false) }, ""},
		{"gateways that are known are not connected", func() []move { return l.know([]string{"g1", "g2"}) }, ""},
		{"one gateway gets all", func() []move { return l.connect("g1", nil) }, "g1 +10 x"},
		{"a second one: the first is asked for its even share", func() []move { return l.connect("g2", nil) }, "g1 ?5 x"},
		{"what returns goes to who has none", func() []move { return l.returned("g1", "x", 5) }, "g2 +5 x"},
		{"a queue moves idle credits", func() []move { return l.demand("g2", "g", 3) }, "g1 ?3 x"},
		{"two come at once", func() []move { return l.returned("g1", "x", 2) }, "g2 +2 x"},
		{"a standing queue asks again", l.again, "g1 ?2 x"},
		{"the queue has ended", func() []move { return l.demand("g2", "g", 0) }, ""},
		{"a broken stream is silence", func() []move { l.disconnect("g2"); return nil }, ""},
		{"what returns meanwhile stays where streams are", func() []move { return l.returned("g1", "x", 1) }, "g1 +1 x"},
		{"the same process comes back with what it holds, more than its share", func() []move { return l.connect("g2", map[string]int{"x": 7}) }, "g2 ?2 x"},
		{"a new process of it holds nothing", func() []move { l.disconnect("g2"); return l.connect("g2", nil) }, "g1 +2 x, g2 +5 x"},
		{"a refused gateway gets nothing until a look", func() []move { return l.refuse("g2", "x", 5) }, "g1 +5 x"},
		{"after the look it is as any other", func() []move { l.vouch("x"); return l.returned("g1", "x", 4) }, "g2 +4 x"},
		{"a gateway that is retired gives all back", func() []move { return l.know([]string{"g2"}) }, "g2 +6 x"},
		{"a withdrawn instance grants no more", func() []move { l.withdraw("x"); return l.returned("g2", "x", 10) }, ""},
	} {
		if got := say(step.do()); got != step.want {
			t.Fatalf("%s: %q, want %q", step.what, got, step.want)
		}
	}
	if l.held("x") != 0 {
		t.Errorf("%d credits are held after all returned", l.held("x"))
	}
}

// steps of a ledger, and what it says to each.
type ledgerStep struct {
	what string
	do   func() []move
	want string
}

func play(t *testing.T, steps []ledgerStep) {
	t.Helper()
	for _, step := range steps {
		if got := say(step.do()); got != step.want {
			t.Fatalf("%s: %q, want %q", step.what, got, step.want)
		}
	}
}

func TestTheOnlyCreditGoesToTheGatewayThatHasAQueue(t *testing.T) {
	l := newLedger()
	l.know([]string{"g1", "g2"})
	l.connect("g1", nil)
	l.connect("g2", nil)
	play(t, []ledgerStep{
		{"one of them has it", func() []move { return l.open("x", "g", 1, false) }, "g1 +1 x"},
		{"the other one has a queue", func() []move { return l.demand("g2", "g", 5) }, "g1 ?1 x"},
		{"it goes there, and not back", func() []move { return l.returned("g1", "x", 1) }, "g2 +1 x"},
		{"it stays while the first wants nothing", l.again, ""},
		{"and is returned when it does", func() []move { l.demand("g2", "g", 0); return l.demand("g1", "g", 1) }, "g2 ?1 x"},
		{"in its turn", func() []move { return l.returned("g2", "x", 1) }, "g1 +1 x"},
	})
}

func TestTheLastIdleCreditFollowsAQueueAndComesBackWhenItIsWanted(t *testing.T) {
	l := newLedger()
	l.know([]string{"g1", "g2"})
	l.connect("g1", nil)
	l.connect("g2", nil)
	play(t, []ledgerStep{
		{"each has half", func() []move { return l.open("x", "g", 4, false) }, "g1 +2 x, g2 +2 x"},
		{"one has a queue", func() []move { return l.demand("g2", "g", 9) }, "g1 ?1 x"},
		{"half of what is idle goes there", func() []move { return l.returned("g1", "x", 1) }, "g2 +1 x"},
		{"and the last one", l.again, "g1 ?1 x"},
		{"which does not go back", func() []move { return l.returned("g1", "x", 1) }, "g2 +1 x"},
		{"while the queue stands", l.again, ""},
		{"the other one has a request", func() []move { return l.demand("g1", "g", 1) }, "g2 ?1 x"},
		{"and gets a credit before the queue", func() []move { return l.returned("g2", "x", 1) }, "g1 +1 x"},
	})
}

func TestGatewaysThatAllHaveQueuesTakeTurnsWhereCreditsAreFew(t *testing.T) {
	l := newLedger()
	l.know([]string{"g1", "g2", "g3"})
	for _, g := range []string{"g1", "g2", "g3"} {
		l.connect(g, nil)
	}
	play(t, []ledgerStep{
		{"one credit for three", func() []move { return l.open("x", "g", 1, false) }, "g1 +1 x"},
		{"its holder has a queue", func() []move { return l.demand("g1", "g", 9) }, ""},
		{"so has the second: it waits for its turn", func() []move { return l.demand("g2", "g", 9) }, ""},
		{"and the third", func() []move { return l.demand("g3", "g", 9) }, ""},
		{"the turn ends: it is asked for once", l.again, "g1 ?1 x"},
		{"the next one has it", func() []move { return l.returned("g1", "x", 1) }, "g2 +1 x"},
		{"again", l.again, "g2 ?1 x"},
		{"the third has not had it yet", func() []move { return l.returned("g2", "x", 1) }, "g3 +1 x"},
		{"again", l.again, "g3 ?1 x"},
		{"round and round", func() []move { return l.returned("g3", "x", 1) }, "g1 +1 x"},
	})
}

func TestGatewaysThatAllHaveQueuesShareTheInstancesOfAGroup(t *testing.T) {
	l := newLedger()
	l.know([]string{"g1", "g2"})
	l.connect("g1", nil)
	l.connect("g2", nil)
	l.demand("g1", "g", 9)
	play(t, []ledgerStep{
		{"the first one waited for it", func() []move { return l.open("x", "g", 1, false) }, "g1 +1 x"},
		{"and for the second", func() []move { return l.open("y", "g", 1, false) }, "g1 +1 y"},
		{"the other one has a queue too", func() []move { return l.demand("g2", "g", 9) }, ""},
		{"it gets half", l.again, "g1 ?1 x"},
		{"which comes", func() []move { return l.returned("g1", "x", 1) }, "g2 +1 x"},
		{"and there it stays", l.again, ""},
	})
}

func TestAdoptedInstancesGrantNothingUntilEveryGatewayHasTold(t *testing.T) {
	l := newLedger()
	l.know([]string{"g1", "g2", "g3"})
	if got := say(l.open("x", "g", 10, true)); got != "" {
		t.Fatalf("granted %q", got)
	}
	if got := say(l.connect("g1", map[string]int{"x": 4})); got != "" {
		t.Fatalf("granted %q before g2 and g3 told", got)
	}
	if got := say(l.connect("g2", nil)); got != "" {
		t.Fatalf("granted %q before g3 told", got)
	}
	if got := say(l.know([]string{"g1", "g2"})); got != "g2 +5 x, g1 +1 x" && got != "g1 +1 x, g2 +5 x" {
		t.Fatalf("after g3 was dropped: %q", got)
	}
}

func TestAGatewayThatClaimsMoreThanCanBeOutIsAskedForIt(t *testing.T) {
	l := newLedger()
	l.know([]string{"g1", "g2"})
	l.open("x", "g", 10, true)
	l.connect("g1", map[string]int{"x": 8})
	if got := say(l.connect("g2", map[string]int{"x": 5})); got != "g2 ?3 x, g1 ?3 x" {
		t.Errorf("got %q", got)
	}
}

// TestCreditsAddUp plays gateways that only say what is true, in any order,
// with streams that break at any moment and lose what was on its way.
func TestCreditsAddUpToTheConcurrencyAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger()
		has := map[string]map[string]int{} // :: gateway → instance → credits that it holds
		up := map[string]bool{}            // :: gateway whose stream is up
		sizes := map[string]int{}          // :: instance → concurrency
		names := []string{"g1", "g2", "g3"}
		known := []string{}
		deliver := func(moves []move) {
			for _, m := range moves {
				if m.grant > 0 && !up[m.gateway] {
					t.Fatalf("granted to %s, whose stream is down", m.gateway)
				}
				if m.grant > 0 {
					has[m.gateway][m.instance] += m.grant
				}
			}
		}
		pick := func(from []string, label string) string { return rapid.SampledFrom(from).Draw(t, label) }
		t.Repeat(map[string]func(*rapid.T){
			"open": func(*rapid.T) {
				id := fmt.Sprintf("i%d", len(sizes))
				sizes[id] = rapid.IntRange(1, 12).Draw(t, "size")
				deliver(l.open(id, pick([]string{"a", "b"}, "group"), sizes[id], false))
			},
			"know": func(*rapid.T) {
				known = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID[string]).Draw(t, "known")
				for _, g := range names {
					if !slices.Contains(known, g) {
						delete(has, g)
						delete(up, g)
					}
				}
				deliver(l.know(known))
			},
			"connect": func(*rapid.T) {
				if len(known) == 0 {
					return
				}
				g := pick(known, "gateway")
				if has[g] == nil || rapid.Bool().Draw(t, "new process") {
					has[g] = map[string]int{}
				}
				up[g] = true
				deliver(l.connect(g, maps.Clone(has[g])))
			},
			"break": func(*rapid.T) {
				g := pick(names, "gateway")
				delete(up, g)
				l.disconnect(g)
			},
			"return": func(*rapid.T) {
				g := pick(names, "gateway")
				for _, id := range slices.Sorted(maps.Keys(has[g])) {
					if n := has[g][id]; n > 0 {
						give := rapid.IntRange(1, n).Draw(t, "give")
						has[g][id] -= give
						if up[g] {
							deliver(l.returned(g, id, give))
						} // otherwise it is lost, and the next holdings tell
						return
					}
				}
			},
			"demand": func(*rapid.T) {
				g := pick(names, "gateway")
				deliver(l.demand(g, pick([]string{"a", "b"}, "group"), rapid.IntRange(0, 5).Draw(t, "waiting")))
			},
			"again": func(*rapid.T) { deliver(l.again()) },
			"withdraw": func(*rapid.T) {
				if len(sizes) > 0 {
					l.withdraw(pick(slices.Sorted(maps.Keys(sizes)), "instance"))
				}
			},
			"": func(*rapid.T) {
				for id, p := range l.purses {
					if p.held()+p.free() != sizes[id] || p.free() < 0 {
						t.Fatalf("instance %s: %d held and %d free of %d", id, p.held(), p.free(), sizes[id])
					}
					really := 0
					for g := range has {
						really += has[g][id]
						if has[g][id] > p.owned[g] {
							t.Fatalf("%s holds %d of %s, the ledger knows %d", g, has[g][id], id, p.owned[g])
						}
					}
					if really > sizes[id] {
						t.Fatalf("instance %s: %d credits are out, it has %d", id, really, sizes[id])
					}
				}
			},
		})
	})
}
