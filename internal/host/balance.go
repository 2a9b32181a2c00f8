package host

import (
	"cmp"
	"maps"
	"slices"
)

// takers are the connected gateways that may be granted credits, by name.
func (l *ledger) takers(p *purse) []string {
	if p.withdrawn || len(p.awaited) > 0 {
		return nil
	}
	var out []string
	for name, g := range l.gateways {
		if g.connected && !p.doubted[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (l *ledger) balanceAll() []move {
	var out []move
	for _, instance := range slices.Sorted(maps.Keys(l.purses)) {
		out = append(out, l.balance(instance, l.purses[instance])...)
	}
	return out
}

// balance grants all free credits to those with a queue, first one to each that
// has none; where nobody has a queue, evenly. Among equals they go to who has
// gone without for longest.
func (l *ledger) balance(instance string, p *purse) []move {
	takers := l.takers(p)
	if len(takers) == 0 {
		return nil
	}
	granted := map[string]int{} // :: gateway → credits
	for range p.free() {
		name := slices.MinFunc(takers, func(a, b string) int {
			return cmp.Or(l.rank(p, a)-l.rank(p, b), cmp.Compare(p.gave[a], p.gave[b]))
		})
		p.owned[name]++
		granted[name]++
	}
	var out []move
	for _, name := range takers {
		if granted[name] > 0 {
			out = append(out, move{gateway: name, instance: instance, grant: granted[name]})
		}
	}
	return out
}

// rank orders takers: the lowest gets the next free credit.
func (l *ledger) rank(p *purse, gateway string) int {
	owned, queue := p.owned[gateway], l.gateways[gateway].waiting[p.group] > 0
	switch {
	case !queue:
		return owned + p.size // after all that have a queue
	case owned == 0:
		return -1
	default:
		return owned
	}
}

// even recalls idle credits above an even share from gateways without a queue,
// after another one came.
func (l *ledger) even(instance string, p *purse) []move {
	takers := l.takers(p)
	if len(takers) < 2 {
		return nil
	}
	share := (p.size + len(takers) - 1) / len(takers)
	var out []move
	for _, name := range takers {
		surplus := p.owned[name] - share - p.asked[name]
		if surplus > 0 && l.gateways[name].waiting[p.group] == 0 {
			p.asked[name] += surplus
			out = append(out, move{gateway: name, instance: instance, recall: surplus})
		}
	}
	return out
}

// recallFor asks the other gateways for as many idle credits of the group as
// wait, at most half of each one's at a time, and the last one too: it comes back
// as soon as its gateway has a queue. From one that has a queue
// itself, only what is above its even share, or what gives the asking one its
// turn.
func (l *ledger) recallFor(gateway, group string, waiting int, turn bool) []move {
	var out []move
	got := 0
	for _, instance := range slices.Sorted(maps.Keys(l.purses)) {
		p := l.purses[instance]
		takers := l.takers(p)
		if p.group != group || !slices.Contains(takers, gateway) {
			continue
		}
		for _, name := range takers {
			if name == gateway || waiting <= got {
				continue
			}
			n := min(l.spare(p, name, len(takers)), waiting-got)
			if n <= 0 && turn && p.owned[name] > p.asked[name] && l.poorer(gateway, got, name, group) {
				n = 1
			}
			if n > 0 {
				p.asked[name] += n
				got += n
				out = append(out, move{gateway: name, instance: instance, recall: n})
			}
		}
	}
	return out
}

// spare is what a gateway can do without at once.
func (l *ledger) spare(p *purse, gateway string, takers int) int {
	has := p.owned[gateway] - p.asked[gateway]
	if l.gateways[gateway].waiting[p.group] > 0 {
		return has - (p.size+takers-1)/takers
	}
	return (has + 1) / 2
}

// poorer says that a credit of the group is due to the first gateway, with
// what it is about to get, rather than to the second: the second has two more,
// or the only ones where there are not enough for all.
func (l *ledger) poorer(first string, got int, second, group string) bool {
	has, other, all, takers := got, 0, 0, 0
	for _, p := range l.purses {
		able := len(l.takers(p))
		if p.group != group || able == 0 {
			continue
		}
		has += p.owned[first] - p.asked[first]
		other += p.owned[second] - p.asked[second]
		all += p.size
		takers = max(takers, able)
	}
	if all < takers {
		return has <= 0 && other > 0
	}
	return other-has >= 2
}
