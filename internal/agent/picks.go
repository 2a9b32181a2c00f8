package agent

import (
	"container/list"
	"crypto/rand"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
)

const (
	// mostPicks are open at once; the oldest gives way.
	mostPicks = 20_000
	// pickFor is how long a pick counts as in flight when nobody tells its end.
	pickFor = 2 * time.Minute
)

// picks are those whose end was not told yet. A name of a pick cannot be
// guessed, and is its workload's alone.
type picks struct {
	now func() time.Time

	mu    sync.Mutex
	open  map[string]*list.Element // :: name → *openPick, in order
	order *list.List               // the oldest first
}

type openPick struct {
	name, workload, service string
	pick                    resolver.Pick
	since                   time.Time
}

func newPicks(now func() time.Time) *picks {
	return &picks{now: now, open: map[string]*list.Element{}, order: list.New()}
}

// add names a pick.
func (p *picks) add(workload, service string, pick resolver.Pick) string {
	name := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[name] = p.order.PushBack(&openPick{name: name, workload: workload, service: service, pick: pick, since: p.now()})
	if p.order.Len() > mostPicks {
		p.dropLocked(p.order.Front())
	}
	return name
}

// take ends a pick, if it is the workload's.
func (p *picks) take(workload, name string) (*openPick, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.open[name]
	if e == nil || e.Value.(*openPick).workload != workload {
		return nil, false
	}
	delete(p.open, name)
	return p.order.Remove(e).(*openPick), true
}

// dropLocked says nothing of the endpoint.
func (p *picks) dropLocked(e *list.Element) {
	o := p.order.Remove(e).(*openPick)
	delete(p.open, o.name)
	o.pick.Done(resolver.Unknown)
}

func (p *picks) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.order.Front(); e != nil && p.now().Sub(e.Value.(*openPick).since) > pickFor; e = p.order.Front() {
		p.dropLocked(e)
	}
}

func (p *picks) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.order.Front(); e != nil; e = p.order.Front() {
		p.dropLocked(e)
	}
}

func (p *picks) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.order.Len()
}
