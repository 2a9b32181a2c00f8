package host

import (
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

// balance grants all free credits: first one to each gateway that has none,
// then to those with a queue, then to whoever has fewest.
func (l *ledger) balance(instance string, p *purse) []move {
	takers := l.takers(p)
	if len(takers) == 0 {
		return nil
	}
	granted := map[string]int{} // :: gateway → credits
	for range p.free() {
		name := slices.MinFunc(takers, func(a, b string) int { return l.rank(p, a) - l.rank(p, b) })
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
	owned := p.owned[gateway]
	if owned > 0 && l.gateways[gateway].waiting[p.group] == 0 {
		owned += p.size // after all that have a queue
	}
	return owned
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
// wait, at most half of each one's at a time; from one that has a queue
// itself, only what is above its even share.
func (l *ledger) recallFor(gateway, group string, waiting int) []move {
	var out []move
	for _, instance := range slices.Sorted(maps.Keys(l.purses)) {
		p := l.purses[instance]
		takers := l.takers(p)
		if p.group != group || !slices.Contains(takers, gateway) {
			continue
		}
		for _, name := range takers {
			if name == gateway || waiting <= 0 {
				continue
			}
			if n := min(l.spare(p, name, len(takers)), waiting); n > 0 {
				p.asked[name] += n
				waiting -= n
				out = append(out, move{gateway: name, instance: instance, recall: n})
			}
		}
	}
	return out
}

func (l *ledger) spare(p *purse, gateway string, takers int) int {
	has := p.owned[gateway] - p.asked[gateway]
	if l.gateways[gateway].waiting[p.group] > 0 {
		return has - (p.size+takers-1)/takers
	}
	if p.size >= takers {
		has-- // one stays, where there are enough for all
	}
	return (has + 1) / 2
}
