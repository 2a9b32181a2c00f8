package resolver

import (
	"math"
	"math/rand/v2"

	"github.com/fairlead-platform/fairlead/view"
)

// table is what picks of one service go by: a view, worked out. It is
// immutable, and replaced whole.
//
// Which zone. Where W is the weight of all endpoints, and n the number of zones
// that have some, each zone's callers are taken to be an n-th of all. A zone
// whose own endpoints weigh W/n or more keeps all requests of its callers. One
// that has less keeps that share which its endpoints can take at the load of
// all others, and the rest spills to the zones that have more than W/n, each by
// what it has more. So every endpoint gets the same load for its weight, and
// no more requests leave a zone than must. Endpoints that are set aside weigh
// nothing, and so does a zone that is marked degraded confidence while another
// is not. A caller without a zone, or in one without endpoints, spreads over
// all by weight, and so do all callers of a service whose policy has them pick
// from any zone.
type table struct {
	view     *view.Service
	fallback bool // made of configured addresses: there is no view
	members  []*member
	own      draw   // of the caller's zone
	others   draw   // where what spills goes
	stay     uint32 // of 2^32: the chance that a pick stays in the own zone
}

// stays for certain.
const stays = math.MaxUint32

// newTable works out how picks by members go.
func newTable(v *view.Service, members []*member, zone string) *table {
	t := &table{view: v, members: members, stay: stays}
	z := weigh(v, usable(members))
	own, here := z.named(zone)
	if zone == "" || v != nil && v.AnyZone || !here || !z.all[own].counts {
		t.own = newDraw(z.members, func(i int) float64 { return z.weight(i) })
		return t
	}
	t.own = newDraw(z.members, func(i int) float64 {
		if z.of[i] != own {
			return 0
		}
		return z.weight(i)
	})
	if share := z.total / float64(z.counted); z.all[own].weight < share {
		t.stay = uint32(z.all[own].weight / share * stays)
		t.others = newDraw(z.members, func(i int) float64 { return z.weight(i) * z.all[z.of[i]].surplus(share) })
	}
	return t
}

// usable are the members that are not set aside; all, where all are.
func usable(members []*member) []*member {
	out := make([]*member, 0, len(members))
	for _, m := range members {
		if !m.out.Load() {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return members
	}
	return out
}

// zones are what each zone of a table weighs.
type zones struct {
	members []*member
	of      []int // :: member → its zone
	all     []zone
	counted int // of all, those that count
	total   float64
}

type zone struct {
	name   string
	weight float64
	counts bool // it is not marked, or all are
}

func weigh(v *view.Service, members []*member) *zones {
	z := &zones{members: members, of: make([]int, len(members))}
	at := 0
	for i, m := range members {
		if m.pull == 0 {
			continue // it draws nothing, wherever it stands
		}
		if at == len(z.all) || z.all[at].name != m.Zone {
			at = z.index(m.Zone)
		}
		z.of[i] = at
		z.all[at].weight += float64(m.pull)
	}
	for i := range z.all {
		if z.all[i].counts = !markedZone(v, z.all[i].name); z.all[i].counts {
			z.counted++
		}
	}
	for i := range z.all {
		if z.counted == 0 {
			z.all[i].counts = true
		}
		if z.all[i].counts {
			z.total += z.all[i].weight
		}
	}
	if z.counted == 0 {
		z.counted = len(z.all)
	}
	return z
}

func (z *zones) named(name string) (at int, found bool) {
	for i := range z.all { // they are few
		if z.all[i].name == name {
			return i, true
		}
	}
	return 0, false
}

func (z *zones) index(name string) int {
	if i, found := z.named(name); found {
		return i
	}
	z.all = append(z.all, zone{name: name})
	return len(z.all) - 1
}

// weight of a member where its zone counts.
func (z *zones) weight(i int) float64 {
	if z.members[i].pull == 0 || !z.all[z.of[i]].counts {
		return 0
	}
	return float64(z.members[i].pull)
}

// surplus is the part of a zone's weight that it has above the share of each.
func (z *zone) surplus(share float64) float64 {
	if z.weight <= share {
		return 0
	}
	return (z.weight - share) / z.weight
}

// markedZone says whether a view's guard disregards health in a zone: callers
// prefer one where it does not.
func markedZone(v *view.Service, zone string) bool {
	if v == nil {
		return false
	}
	for _, m := range v.Marks {
		if v.Disregarded(m.Group, zone) {
			return true
		}
	}
	return false
}

// pick by the rules of the table; nil where there is no member at all.
func (t *table) pick() *member {
	d, random := &t.own, rand.Uint64()
	if t.stay != stays && len(t.others.slots) > 0 {
		if uint32(random) > t.stay {
			d = &t.others
		}
		random = further(random)
	}
	if m := d.pick(random); m != nil {
		return m
	}
	return t.search(nil)
}

// search looks through all members for those that the filter takes: those that
// are not set aside first, and among these one at random by what it draws, or by
// its weight where the filter names it; nil where there is none. A nil filter takes
// all that draw.
func (t *table) search(f *filter) *member {
	var found, aside *member
	var weight, weightAside uint64
	for _, m := range t.members {
		pull := uint64(m.pull)
		if f != nil && f.names {
			pull = uint64(m.weight)
		}
		if pull == 0 || f != nil && !f.takes(m) {
			continue
		}
		if m.out.Load() {
			weightAside += pull
			if rand.Uint64N(weightAside) < pull {
				aside = m
			}
			continue
		}
		weight += pull
		if rand.Uint64N(weight) < pull {
			found = m
		}
	}
	if found == nil {
		return aside
	}
	return found
}
