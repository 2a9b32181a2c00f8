package discovery

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawFleet draws probers and targets in some zones.
func drawFleet(t *rapid.T) (lookers []looker, spots []spot) {
	zone := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	for i := range rapid.IntRange(0, 12).Draw(t, "probers") {
		lookers = append(lookers, looker{fmt.Sprint("p", i), zone.Draw(t, "its zone")})
	}
	for i := range rapid.IntRange(0, 60).Draw(t, "targets") {
		spots = append(spots, spot{fmt.Sprint("i", i), zone.Draw(t, "its zone")})
	}
	return lookers, spots
}

func in(zone string, lookers []looker) (names []string) {
	for _, l := range lookers {
		if l.zone == zone {
			names = append(names, l.name)
		}
	}
	return names
}

func TestTwoProbersOfItsZoneLookAtEachTargetWhereThereAreTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lookers, spots := drawFleet(t)
		picks := assign(lookers, spots, mostTargets)
		for _, s := range spots {
			p, own := picks[s.id], in(s.zone, lookers)
			if len(own) > 0 {
				if p.borrowed || len(p.probers) != min(2, len(own)) || !slices.Contains(own, p.probers[0]) || !slices.Contains(own, p.probers[len(p.probers)-1]) {
					t.Fatalf("%s of zone %s, which has %v, is looked at by %+v", s.id, s.zone, own, p)
				}
			} else if len(lookers) > 0 && (!p.borrowed || len(p.probers) == 0) {
				t.Fatalf("%s of zone %s, which has none, is looked at by %+v", s.id, s.zone, p)
			}
			if len(p.probers) == 2 && p.probers[0] == p.probers[1] {
				t.Fatalf("%s is looked at by %s twice", s.id, p.probers[0])
			}
		}
	})
}

func TestAZoneWithoutAProberBorrowsFromTheNext(t *testing.T) {
	lookers := []looker{{"a1", "a"}, {"a2", "a"}, {"c1", "c"}, {"c2", "c"}, {"c3", "c"}, {"e1", "e"}}
	for zone, from := range map[string]string{"b": "c", "d": "e", "f": "a", "z": "a"} {
		p := assign(lookers, []spot{{"i", zone}}, mostTargets)["i"]
		own := in(from, lookers)
		if !p.borrowed || len(p.probers) != min(2, len(own)) || !slices.Contains(own, p.probers[0]) {
			t.Errorf("zone %s gets %+v, want probers of %s", zone, p, from)
		}
	}
}

func TestAProberThatComesOrGoesMovesItsOwnTargetsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lookers, spots := drawFleet(t)
		if len(lookers) == 0 {
			return
		}
		lost := rapid.SampledFrom(lookers).Draw(t, "lost")
		with := assign(lookers, spots, mostTargets)
		without := assign(slices.DeleteFunc(slices.Clone(lookers), func(l looker) bool { return l == lost }), spots, mostTargets)
		for _, s := range spots {
			if slices.Contains(with[s.id].probers, lost.name) || with[s.id].borrowed || without[s.id].borrowed {
				continue // borrowed targets follow the ring
			}
			if d := cmp.Diff(with[s.id].probers, without[s.id].probers); d != "" {
				t.Fatalf("%s was not looked at by %s, and is moved:\n%s", s.id, lost.name, d)
			}
		}
	})
}

func TestNoProberIsAssignedMoreThanItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lookers, spots := drawFleet(t)
		most := rapid.IntRange(1, 10).Draw(t, "share")
		load, places := map[string]int{}, 0
		for _, p := range assign(lookers, spots, most) {
			places += len(p.probers)
			for _, name := range p.probers {
				if load[name]++; load[name] > most {
					t.Fatalf("%s looks at more than %d", name, most)
				}
			}
		}
		if room := most * len(lookers); places < min(room, len(spots)) {
			t.Fatalf("%d of %d targets are looked at, though there is room for %d looks", places, len(spots), room)
		}
	})
}

func TestTheSameProbersAndTargetsGiveTheSameAssignmentInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lookers, spots := drawFleet(t)
		most := rapid.IntRange(1, 40).Draw(t, "share")
		shuffled := assign(rapid.Permutation(lookers).Draw(t, "probers"), rapid.Permutation(spots).Draw(t, "targets"), most)
		if d := cmp.Diff(assign(lookers, spots, most), shuffled, cmp.AllowUnexported(pick{})); d != "" {
			t.Fatal(d)
		}
	})
}

func TestTargetsAreSpreadEvenly(t *testing.T) {
	var lookers []looker
	for i := range 10 {
		lookers = append(lookers, looker{fmt.Sprint("prober-", i), "a"})
	}
	var spots []spot
	for i := range 5000 {
		spots = append(spots, spot{fmt.Sprintf("01M8N67BYMY78NVWWS0H%06d", i), "a"})
	}
	load := map[string]int{}
	for _, p := range assign(lookers, spots, mostTargets) {
		for _, name := range p.probers {
			load[name]++
		}
	}
	for name, n := range load {
		if n < 850 || n > 1150 { // a thousand each
			t.Errorf("%s looks at %d of 10000", name, n)
		}
	}
}
