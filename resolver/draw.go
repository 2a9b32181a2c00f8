package resolver

import (
	"math/rand/v2"

	"github.com/fairlead-platform/fairlead/view"
)

// member is an endpoint as one table has it, with the counters that outlive
// the table.
type member struct {
	*view.Endpoint // as it is in the view
	*node
	weight int64 // above 0
}

// draw takes a member at random, each by its share of a weight, in two memory
// accesses however many there are (Walker's alias method). It is immutable;
// the zero draw has no member.
type draw struct {
	slots []slot
	total float64 // of the weights
}

// slot is taken as often as any other: below cut it stands for its own
// member, else for the other.
type slot struct {
	own, other *member
	cut        uint32
}

// newDraw of members with these weights; members without any are left out.
func newDraw(members []*member, weight func(i int) float64) draw {
	d := draw{slots: make([]slot, 0, len(members))}
	shares := make([]float64, 0, len(members)) // :: slot → its weight, then in units of the mean
	for i, m := range members {
		if w := weight(i); w > 0 {
			d.slots, shares = append(d.slots, slot{m, m, ^uint32(0)}), append(shares, w)
			d.total += w
		}
	}
	even := true
	for i := range shares {
		even = even && shares[i] == shares[0]
	}
	if even {
		return d
	}
	small, large := make([]int, 0, len(shares)), make([]int, 0, len(shares))
	for i := range shares {
		if shares[i] *= float64(len(shares)) / d.total; shares[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 { // what the small one leaves goes to the large one
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		d.slots[s].other, d.slots[s].cut = d.slots[l].own, uint32(shares[s]*(1<<32-1))
		if shares[l] -= 1 - shares[s]; shares[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return d
}

// one member at random; there is at least one.
func (d *draw) one() *member {
	random := rand.Uint64()
	s := &d.slots[(random>>32)*uint64(len(d.slots))>>32]
	if uint32(random) <= s.cut {
		return s.own
	}
	return s.other
}

// draws are how often a draw is tried before all members are looked through.
const draws = 4

// pick is the less loaded of two members at random, by their requests in
// flight per weight; nil where several draws brought only such as are set
// aside. The first of two that are alike is taken, so that weights hold.
func (d *draw) pick() *member {
	if len(d.slots) == 0 {
		return nil
	}
	for range draws {
		x, y := d.one(), d.one()
		xOut, yOut := x.out.Load(), y.out.Load()
		switch {
		case xOut && yOut:
			continue
		case yOut:
			return x
		case xOut:
			return y
		}
		if y.inflight.Load()*x.weight < x.inflight.Load()*y.weight {
			return y
		}
		return x
	}
	return nil
}
