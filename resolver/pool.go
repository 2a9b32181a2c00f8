package resolver

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/view"
)

// pool is what picks of one service need, as long as it is subscribed to.
type pool struct {
	service  string
	zone     string
	clock    func() time.Duration
	ejection Ejection
	refusals refusals
	budget   *budget
	stirred  func() // remake is to be called, elsewhere
	event    func(Event)
	calls    *callCount // nil counts none

	table     atomic.Pointer[table] // nil where there is neither view nor fallback; see first
	cold      atomic.Bool           // a view that is on disk was not asked for yet
	ask       func()                // for that view, and take it by takeFirst; nil where there is none
	ejections atomic.Uint64
	dirty     atomic.Bool // endpoints were set aside since the table was made

	mu      sync.Mutex
	view    *view.Service
	members []*member        // in rotation, by ID
	ended   map[string]*node // :: instance → one that left, until its requests have ended and are told
}

func newPool(service string, cfg *Config, clock func() time.Duration, stirred func(), event func(Event)) *pool {
	p := &pool{
		service: service, zone: cfg.Zone, clock: clock, ejection: cfg.Ejection, refusals: refusalsOf(service),
		budget: newBudget(cfg.Retry), stirred: stirred, event: event, ended: map[string]*node{},
	}
	if addresses := cfg.Fallback[service]; len(addresses) > 0 {
		for _, a := range addresses {
			p.members = append(p.members, &member{
				&view.Endpoint{Address: a, Weight: view.FullWeight, Verdict: view.Unknown, HealthUnknown: true}, &node{}, view.FullWeight, view.FullWeight,
			})
		}
		t := newTable(nil, p.members, "")
		t.fallback = true
		p.table.Store(t)
	}
	return p
}

// take has a view picked by from now on.
func (p *pool) take(v *view.Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v == p.view {
		return
	}
	p.takeLocked(v)
}

func (p *pool) takeLocked(v *view.Service) {
	p.view, p.members = v, p.keep(v)
	p.table.Store(newTable(v, p.members, p.zone))
	p.cold.Store(false)
}

// first is the table where none was seen: it is made of what is on disk, unless
// that is done.
func (p *pool) first() *table {
	if p.cold.Load() {
		p.ask()
		p.cold.Store(false)
	}
	return p.table.Load()
}

// takeFirst has a view picked by unless another came first.
func (p *pool) takeFirst(v *view.Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v != nil && p.view == nil {
		p.takeLocked(v)
	}
}

// current is what is picked by; nil where there is nothing.
func (p *pool) current() *table {
	if t := p.table.Load(); t != nil {
		return t
	}
	return p.first()
}

// keep makes the members of a view, each with what is known of it already. Both
// are ordered by ID. The lock is held.
func (p *pool) keep(v *view.Service) []*member {
	before := p.members
	made := make([]member, v.InRotation())
	var fresh []node
	if len(before) == 0 && len(p.ended) == 0 { // the first view, of which there may be hundreds at once
		fresh = make([]node, len(made))
	}
	out := make([]*member, 0, len(made))
	for i := range v.Endpoints {
		e := &v.Endpoints[i]
		if !e.In() {
			continue
		}
		for len(before) > 0 && before[0].ID < e.ID {
			p.leave(before[0].node)
			before = before[1:]
		}
		m := &made[len(out)]
		m.Endpoint, m.weight = e, int64(e.Weight)
		if len(before) > 0 && before[0].ID == e.ID {
			m.node, before = before[0].node, before[1:]
		} else if fresh != nil {
			m.node = &fresh[len(out)]
			m.node.id = e.ID
		} else {
			m.node = p.enter(e.ID)
		}
		out = append(out, m)
	}
	for _, m := range before {
		p.leave(m.node)
	}
	setPulls(v, out)
	return out
}

func (p *pool) enter(id string) *node {
	if n := p.ended[id]; n != nil {
		delete(p.ended, id)
		return n
	}
	return &node{id: id}
}

// leave keeps what is still to be told of an endpoint that is picked no more,
// and whether it was set aside, should it come back.
func (p *pool) leave(n *node) {
	if n.id != "" {
		p.ended[n.id] = n
	}
}

// tick ends a second: it returns what became of its requests, and has those
// come back or set aside whose time it is.
func (p *pool) tick(now time.Duration) (rows []*pb.OutcomeRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var requests uint64
	take := func(n *node) (told bool) {
		r := n.take()
		if r == nil {
			return false
		}
		requests += uint64(r.GetOk()) + uint64(r.GetFailed())
		p.calls.ended(uint64(r.GetOk()), uint64(r.GetFailed()))
		if n.id != "" {
			rows = append(rows, r)
		}
		return true
	}
	for _, m := range p.members {
		take(m.node)
	}
	for id, n := range p.ended {
		if !take(n) && n.inflight.Load() == 0 && (!n.out.Load() || now >= n.until) {
			delete(p.ended, id)
		}
	}
	p.budget.earn(requests)
	if back, aside := p.comeBack(now), p.rates(now); back || aside {
		p.remakeLocked()
	}
	return rows
}

// remake works out the table anew, after endpoints were set aside.
func (p *pool) remake() {
	if !p.dirty.Swap(false) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remakeLocked()
}

func (p *pool) remakeLocked() {
	was := p.table.Load()
	if was == nil {
		return
	}
	t := newTable(p.view, p.members, p.zone)
	t.fallback = was.fallback
	p.table.Store(t)
}

// markedZones are the zones whose endpoints the guard marks, in order.
func markedZones(v *view.Service) []string {
	seen := map[string]bool{}
	var out []string
	for i := range v.Endpoints {
		if z := v.Endpoints[i].Zone; !seen[z] {
			if seen[z] = true; markedZone(v, z) {
				out = append(out, z)
			}
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
