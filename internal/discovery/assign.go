package discovery

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
)

// looker is a prober as it is assigned to targets.
type looker struct{ name, zone string }

// spot is a target as probers are assigned to it.
type spot struct{ id, zone string }

// pick is who looks at a target: two of its zone where there are two, and
// nobody where no prober has room.
type pick struct {
	probers []string
	// borrowed says that they stand in another zone, since its own has none.
	borrowed bool
}

func (p pick) same(q pick) bool {
	return p.borrowed == q.borrowed && slices.Equal(p.probers, q.probers)
}

const (
	// lookers of a target where its zone has so many.
	lookersEach = 2
	// mostTargets of one prober: at five seconds each that is 400 looks a second.
	mostTargets = 2000
)

// assign says who looks at what, by rendezvous hashing: each target ranks the
// probers of its zone, and takes the first two that have room. Who comes or goes
// moves its own targets only, and everyone who computes it computes the same. A
// zone without a prober borrows from the next one that has some, in the order of
// their names.
func assign(lookers []looker, spots []spot, most int) map[string]pick { // :: instance → pick
	lookers, spots = slices.Clone(lookers), slices.Clone(spots)
	slices.SortFunc(lookers, func(a, b looker) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(spots, func(a, b spot) int { return cmp.Compare(a.id, b.id) }) // the older ones first: they keep their place
	zones := map[string][]*ranked{}                                                // :: zone → probers
	for _, l := range lookers {
		zones[l.zone] = append(zones[l.zone], &ranked{name: l.name, seed: hash(l.name), room: most})
	}
	names := slices.Sorted(maps.Keys(zones))
	out := make(map[string]pick, len(spots))
	for _, s := range spots {
		for _, zone := range ring(names, s.zone) {
			if chosen := choose(zones[zone], hash(s.id)); len(chosen) > 0 {
				out[s.id] = pick{chosen, zone != s.zone}
				break
			}
		}
	}
	return out
}

type ranked struct {
	name string
	seed uint64
	room int
}

// ring gives the names from the first that is not before from on, and then the
// others.
func ring(names []string, from string) []string {
	at, _ := slices.BinarySearch(names, from)
	return slices.Concat(names[at:], names[:at])
}

// choose takes the two with the highest rank that have room.
func choose(all []*ranked, target uint64) (names []string) {
	var first, second *ranked
	var high, next uint64
	for _, r := range all {
		switch x := mix(r.seed ^ target); {
		case r.room == 0:
		case first == nil || x > high:
			first, second, high, next = r, first, x, high
		case second == nil || x > next:
			second, next = r, x
		}
	}
	for _, r := range []*ranked{first, second} {
		if r != nil {
			r.room--
			names = append(names, r.name)
		}
	}
	return names[:min(len(names), lookersEach)]
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return mix(h.Sum64())
}

// mix spreads what differs in a few bits over all of them (splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
