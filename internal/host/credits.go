package host

import (
	"maps"
	"slices"
)

// ledger says whom each free slot of each instance belongs to. It is pure: no
// clock, no stream; every change returns the messages that follow from it. For
// each instance the credits owned by gateways and the free ones add up to its
// concurrency, always.
type ledger struct {
	purses   map[string]*purse // :: instance → purse
	gateways map[string]*claim // :: gateway name → claim; known ones only
}

// purse holds the credits of one instance.
type purse struct {
	group string
	size  int
	owned map[string]int // :: gateway → credits, above zero
	// awaited gateways have not yet said what they hold of an adopted
	// instance; until all have, nothing is granted.
	awaited map[string]bool // :: gateway
	// doubted gateways were refused a connection; they get nothing until the
	// instance has been looked at.
	doubted map[string]bool // :: gateway
	// asked credits are recalled and not yet returned.
	asked map[string]int // :: gateway → credits
	// gave numbers the last return of each gateway: of those who want the same
	// credit, whoever gave one back last comes last.
	gave      map[string]uint64 // :: gateway → number
	returns   uint64
	withdrawn bool // nothing is granted any more
}

// claim is what a gateway wants.
type claim struct {
	connected bool
	waiting   map[string]int // :: request group → requests that wait; above zero
}

// move is one message to a gateway: credits granted, or idle ones recalled.
type move struct {
	gateway, instance string
	grant, recall     int
}

func newLedger() *ledger {
	return &ledger{purses: map[string]*purse{}, gateways: map[string]*claim{}}
}

func (p *purse) held() int {
	sum := 0
	for _, n := range p.owned {
		sum += n
	}
	return sum
}

func (p *purse) free() int { return p.size - p.held() }

func (p *purse) set(gateway string, n int) {
	if n <= 0 {
		delete(p.owned, gateway)
		return
	}
	p.owned[gateway] = n
}

// know makes names the known gateways. Credits of those that are dropped return.
func (l *ledger) know(names []string) []move {
	for _, name := range names {
		if l.gateways[name] == nil {
			l.gateways[name] = &claim{waiting: map[string]int{}}
		}
	}
	for name := range l.gateways {
		if slices.Contains(names, name) {
			continue
		}
		delete(l.gateways, name)
		for _, p := range l.purses {
			p.forget(name)
		}
	}
	return l.balanceAll()
}

func (p *purse) forget(gateway string) {
	delete(p.owned, gateway)
	delete(p.awaited, gateway)
	delete(p.doubted, gateway)
	delete(p.asked, gateway)
	delete(p.gave, gateway)
}

// open adds an instance whose credits are free. An adopted one may have
// credits out with any known gateway: nothing is granted until each has said.
func (l *ledger) open(instance, group string, size int, adopted bool) []move {
	p := &purse{
		group: group, size: max(size, 1), owned: map[string]int{},
		awaited: map[string]bool{}, doubted: map[string]bool{}, asked: map[string]int{}, gave: map[string]uint64{},
	}
	l.purses[instance] = p
	if adopted {
		for name := range l.gateways {
			p.awaited[name] = true
		}
	}
	return l.balance(instance, p)
}

// withdraw ends granting; what is owned returns as exchanges end.
func (l *ledger) withdraw(instance string) {
	if p := l.purses[instance]; p != nil {
		p.withdrawn = true
	}
}

func (l *ledger) close(instance string) { delete(l.purses, instance) }

// held is how many of an instance's credits gateways own, or may own: while a
// gateway has not said, at least one.
func (l *ledger) held(instance string) int {
	p := l.purses[instance]
	if p == nil {
		return 0
	}
	return p.held() + len(p.awaited)
}

// holders are the gateways that own credits of the instance, or may.
func (l *ledger) holders(instance string) []string {
	p := l.purses[instance]
	if p == nil {
		return nil
	}
	names := maps.Clone(p.awaited)
	for name := range p.owned {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// has says that the gateway owns credits of the instance, or may.
func (l *ledger) has(gateway, instance string) bool {
	p := l.purses[instance]
	return p != nil && (p.owned[gateway] > 0 || p.awaited[gateway])
}

// away are the credits of an instance that gateways own, or may, whose streams
// are down, :: gateway → credits; nil where there are none.
func (l *ledger) away(instance string) map[string]int {
	p := l.purses[instance]
	if p == nil {
		return nil
	}
	var out map[string]int
	for name, g := range l.gateways {
		n := p.owned[name]
		if p.awaited[name] {
			n = p.free()
		}
		if g.connected || n == 0 {
			continue
		}
		if out == nil {
			out = map[string]int{}
		}
		out[name] = n
	}
	return out
}

// ended returns what a gateway owned of an instance: its process is no more.
func (l *ledger) ended(gateway, instance string) []move {
	p := l.purses[instance]
	if p == nil {
		return nil
	}
	p.forget(gateway)
	return l.balance(instance, p)
}

// connect takes what a gateway says it holds as the truth, which a new process
// of it says is nothing. What it claims beyond what can be out is recalled.
func (l *ledger) connect(gateway string, holdings map[string]int) []move {
	g := l.gateways[gateway]
	if g == nil {
		return nil
	}
	g.connected, g.waiting = true, map[string]int{}
	var out []move
	for _, instance := range slices.Sorted(maps.Keys(l.purses)) {
		p := l.purses[instance]
		p.forget(gateway)
		said := max(holdings[instance], 0)
		took := min(said, p.free())
		p.set(gateway, took)
		if said > took {
			out = append(out, move{gateway: gateway, instance: instance, recall: said - took})
		}
		out = append(out, l.balance(instance, p)...)
		out = append(out, l.even(instance, p)...)
	}
	return out
}

// disconnect is silence: the gateway goes on with the credits that it has.
func (l *ledger) disconnect(gateway string) {
	if g := l.gateways[gateway]; g != nil {
		g.connected, g.waiting = false, map[string]int{}
	}
}

// returned gives credits back; more than are owned are none.
func (l *ledger) returned(gateway, instance string, n int) []move {
	p := l.purses[instance]
	if p == nil || n <= 0 || l.gateways[gateway] == nil {
		return nil
	}
	p.set(gateway, p.owned[gateway]-n)
	p.asked[gateway] = max(p.asked[gateway]-n, 0)
	p.returns++
	p.gave[gateway] = p.returns
	return l.balance(instance, p)
}

// refuse ends credits of a gateway whose connection was refused; it gets no
// new ones until vouch.
func (l *ledger) refuse(gateway, instance string, n int) []move {
	p := l.purses[instance]
	if p == nil || l.gateways[gateway] == nil {
		return nil
	}
	p.doubted[gateway] = true
	p.set(gateway, p.owned[gateway]-max(n, 0))
	return l.balance(instance, p)
}

// vouch says that the instance has been looked at and answers.
func (l *ledger) vouch(instance string) []move {
	p := l.purses[instance]
	if p == nil || len(p.doubted) == 0 {
		return nil
	}
	clear(p.doubted)
	return l.balance(instance, p)
}

// demand notes a gateway's queue; zero waiting ends it.
func (l *ledger) demand(gateway, group string, waiting int) []move {
	g := l.gateways[gateway]
	if g == nil || !g.connected {
		return nil
	}
	if waiting <= 0 {
		delete(g.waiting, group)
		return nil
	}
	g.waiting[group] = waiting
	out := l.balanceAll()
	return append(out, l.recallFor(gateway, group, waiting, false)...)
}

// again repeats the recalls of demands that stand: what was not idle before
// may be now, and who has less than another that has a queue too gets its
// turn. It is called about every quarter of a second.
func (l *ledger) again() []move {
	var out []move
	for _, p := range l.purses {
		clear(p.asked)
	}
	for _, name := range slices.Sorted(maps.Keys(l.gateways)) {
		waiting := l.gateways[name].waiting
		for _, group := range slices.Sorted(maps.Keys(waiting)) {
			out = append(out, l.recallFor(name, group, waiting[group], true)...)
		}
	}
	return out
}
