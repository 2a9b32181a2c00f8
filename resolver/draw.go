package resolver

import "github.com/fairlead-platform/fairlead/view"

// member is an endpoint as one table has it, with the counters that outlive
// the table.
type member struct {
	*view.Endpoint // as it is in the view
	*node
	weight int64 // above 0
	pull   int64 // what it draws of the picks that name nobody; 0 is nothing
}

// draw takes a member at random, each by its share of a weight, in two memory
// accesses however many there are (Walker's alias method). A slot has all that a
// pick needs but the counters, which are one line of memory more. It is immutable;
// the zero draw has no member.
type draw struct {
	slots []slot
	total float64 // of the weights
}

// slot is taken as often as any other: up to cut it stands for its own
// member, else for that of the other slot.
type slot struct {
	m      *member
	n      *node // the member's, and its weight
	weight int64
	other  uint32
	cut    uint32
}

// newDraw of members with these weights; members without any are left out.
func newDraw(members []*member, weight func(i int) float64) draw {
	d := draw{slots: make([]slot, 0, len(members))}
	shares := make([]float64, 0, len(members)) // :: slot → its weight, then in units of the mean
	for i, m := range members {
		if w := weight(i); w > 0 {
			d.slots, shares = append(d.slots, slot{m, m.node, m.pull, 0, ^uint32(0)}), append(shares, w)
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
		d.slots[s].other, d.slots[s].cut = uint32(l), uint32(shares[s]*(1<<32-1))
		if shares[l] -= 1 - shares[s]; shares[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return d
}

// one slot at random; there is at least one.
func (d *draw) one(random uint64) *slot {
	s := &d.slots[(random>>32)*uint64(len(d.slots))>>32]
	if uint32(random) <= s.cut {
		return s
	}
	return &d.slots[s.other]
}

// further is another random number from one: the finalizer of SplitMix64, a
// permutation whose values are as good as independent of what they are of.
func further(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draws are how often a draw is tried before all members are looked through.
const draws = 4

// pick is the less loaded of two members at random, by their requests in
// flight per weight; nil where several draws brought only such as are set
// aside. The first of two that are alike is taken, so that weights hold.
func (d *draw) pick(random uint64) *member {
	if len(d.slots) == 0 {
		return nil
	}
	for range draws {
		next := further(random)
		x, y := d.one(random), d.one(next)
		random = further(next)
		xOut, yOut := x.n.out.Load(), y.n.out.Load()
		switch {
		case xOut && yOut:
			continue
		case yOut:
			return x.m
		case xOut:
			return y.m
		}
		if y.n.inflight.Load()*x.weight < x.n.inflight.Load()*y.weight {
			return y.m
		}
		return x.m
	}
	return nil
}
