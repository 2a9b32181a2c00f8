package agent

import (
	"container/list"
	"crypto/rand"
	"math"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
)

const (
	// mostPicks are open at once; the oldest of the workload that has most of
	// them gives way.
	mostPicks = 20_000
	// pickFor is how long a pick counts as in flight when nobody tells its end.
	pickFor = 2 * time.Minute
)

// picks are those whose end was not told yet. A name of a pick cannot be
// guessed, and is its workload's alone.
type picks struct {
	now func() time.Time

	mu   sync.Mutex
	open map[string]*list.Element // :: name → *openPick, in its workload's list
	of   map[string]*list.List    // :: workload → its own, the oldest first
}

type openPick struct {
	name, workload, service string
	pick                    resolver.Pick
	since                   time.Time
}

func newPicks(now func() time.Time) *picks {
	return &picks{now: now, open: map[string]*list.Element{}, of: map[string]*list.List{}}
}

// add names a pick.
func (p *picks) add(workload, service string, pick resolver.Pick) string {
	name := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[workload] == nil {
		p.of[workload] = list.New()
	}
	p.open[name] = p.of[workload].PushBack(&openPick{name: name, workload: workload, service: service, pick: pick, since: p.now()})
	if len(p.open) > mostPicks {
		p.dropLocked(p.mostLocked().Front())
	}
	return name
}

// mostLocked is the longest list: one who never tells costs others nothing.
func (p *picks) mostLocked() (most *list.List) {
	for _, l := range p.of {
		if most == nil || l.Len() > most.Len() {
			most = l
		}
	}
	return most
}

// take ends a pick, if it is the workload's.
func (p *picks) take(workload, name string) (*openPick, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.open[name]
	if e == nil || e.Value.(*openPick).workload != workload {
		return nil, false
	}
	return p.removeLocked(e), true
}

func (p *picks) removeLocked(e *list.Element) *openPick {
	o := e.Value.(*openPick)
	delete(p.open, o.name)
	if p.of[o.workload].Remove(e); p.of[o.workload].Len() == 0 {
		delete(p.of, o.workload)
	}
	return o
}

// dropLocked says nothing of the endpoint.
func (p *picks) dropLocked(e *list.Element) { p.removeLocked(e).pick.Done(resolver.Unknown) }

func (p *picks) expire() { p.dropOlder(pickFor) }

func (p *picks) giveUp() { p.dropOlder(math.MinInt64) }

func (p *picks) dropOlder(than time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.of {
		for e := l.Front(); e != nil && p.now().Sub(e.Value.(*openPick).since) > than; e = l.Front() {
			p.dropLocked(e)
		}
	}
}

func (p *picks) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}
