package host

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Whatever came before: once gateways are heard and an instance has been looked
// at, one that may lease holds a credit of it.
func TestNoInstanceIsWithoutACreditForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, owned := newLedger(), map[string]map[string]int{} // :: gateway → instance → credits, as gateways count them
		gateways := []string{"g1", "g2", "g3"}[:rapid.IntRange(1, 3).Draw(t, "gateways")]
		instances := []string{"x", "y"}
		for _, g := range gateways {
			owned[g] = map[string]int{}
		}
		heed := func(moves []move) {
			for _, m := range moves {
				owned[m.gateway][m.instance] += m.grant
			}
		}
		heed(l.know(gateways))
		for _, x := range instances {
			heed(l.open(x, "g", rapid.IntRange(0, 3).Draw(t, "size of "+x), rapid.Bool().Draw(t, "adopted")))
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			g, x := rapid.SampledFrom(gateways).Draw(t, "gateway"), rapid.SampledFrom(instances).Draw(t, "instance")
			n := owned[g][x]
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				heed(l.connect(g, owned[g]))
			case 1:
				l.disconnect(g)
			case 2:
				owned[g][x] = 0
				heed(l.returned(g, x, n))
			case 3:
				owned[g][x] = 0
				heed(l.refuse(g, x, n))
			case 4:
				heed(l.demand(g, "g", rapid.IntRange(0, 9).Draw(t, "waiting")))
			case 5:
				owned[g] = map[string]int{} // it starts anew
				l.disconnect(g)
				heed(l.connect(g, nil))
			}
		}
		for _, g := range gateways {
			l.disconnect(g)
			heed(l.connect(g, owned[g]))
		}
		for _, x := range instances {
			heed(l.vouch(x))
		}
		for _, x := range instances {
			if len(l.purses[x].owned) == 0 {
				t.Fatalf("nobody holds a credit of %s: %s", x, fmt.Sprintf("%+v", *l.purses[x]))
			}
		}
	})
}
