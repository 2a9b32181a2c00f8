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
// all by weight.
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
	usable := usable(members)
	z := weigh(v, usable)
	if zone == "" || z.weight[zone] == 0 {
		t.own = newDraw(usable, func(m *member) float64 { return z.of(m) })
		return t
	}
	t.own = newDraw(usable, func(m *member) float64 {
		if m.Zone != zone {
			return 0
		}
		return z.of(m)
	})
	if share := z.total / float64(len(z.weight)); z.weight[zone] < share {
		t.stay = uint32(z.weight[zone] / share * stays)
		t.others = newDraw(usable, func(m *member) float64 { return z.of(m) * z.surplus(m.Zone, share) })
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

// zones are what each zone weighs.
type zones struct {
	weight map[string]float64 // :: zone → its endpoints' weight; only those that count
	total  float64
}

func weigh(v *view.Service, members []*member) zones {
	z := zones{weight: map[string]float64{}}
	for _, m := range members {
		z.weight[m.Zone] += float64(m.Weight)
	}
	marked := map[string]bool{}
	for name := range z.weight {
		marked[name] = markedZone(v, name)
	}
	for name := range marked {
		if marked[name] && len(z.weight) > 1 && anyUnmarked(marked) {
			delete(z.weight, name)
		}
	}
	for _, w := range z.weight {
		z.total += w
	}
	return z
}

func anyUnmarked(marked map[string]bool) bool {
	for _, is := range marked {
		if !is {
			return true
		}
	}
	return false
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

// of is what a member weighs where its zone counts.
func (z *zones) of(m *member) float64 {
	if z.weight[m.Zone] == 0 {
		return 0
	}
	return float64(m.Weight)
}

// surplus is the part of a zone's weight that it has above the share of each.
func (z *zones) surplus(zone string, share float64) float64 {
	w := z.weight[zone]
	if w <= share {
		return 0
	}
	return (w - share) / w
}

// pick by the rules of the table; nil where there is no member at all.
func (t *table) pick() *member {
	d := &t.own
	if t.stay != stays && rand.Uint32() > t.stay && len(t.others.slots) > 0 {
		d = &t.others
	}
	if m := d.pick(); m != nil {
		return m
	}
	return t.search(nil)
}

// search looks through all members for those that the filter takes: those that
// are not set aside first, and among these one at random by weight; nil where
// there is none. A nil filter takes all.
func (t *table) search(f *filter) *member {
	var found, aside *member
	var weight, weightAside uint64
	for _, m := range t.members {
		if f != nil && !f.takes(m) {
			continue
		}
		if m.out.Load() {
			weightAside += uint64(m.Weight)
			if rand.Uint64N(weightAside) < uint64(m.Weight) {
				aside = m
			}
			continue
		}
		weight += uint64(m.Weight)
		if rand.Uint64N(weight) < uint64(m.Weight) {
			found = m
		}
	}
	if found == nil {
		return aside
	}
	return found
}
