package resolver

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Ejection says when a caller sets an endpoint aside by what it saw itself,
// before the plane has judged it. Zero fields mean the defaults.
//
// An endpoint is set aside after Consecutive failures without a success between
// them, or where Rate of at least Requests recent ones failed (of the last ten
// seconds, about), in both cases only where its siblings do clearly better: what
// fails for all is no fault of one. A refused connection counts like half of
// Consecutive, whatever the siblings do; another instance at the address sets it
// aside at once. Time aside doubles each time, and falls back once the endpoint
// has done well for as long. When it comes back its first failure sets it aside
// again.
//
// At most Share of the endpoints in rotation are set aside, and never the last.
type Ejection struct {
	// Off sets nothing aside.
	Off bool
	// Consecutive failures; zero means 5.
	Consecutive int
	// Rate of failure from 0 to 1; zero means 0.5. Requests that it needs; zero means 20.
	Rate     float64
	Requests int
	// Base is how long the first time lasts; zero means 5 s. Longest bounds
	// what doubling makes of it; zero means 5 min.
	Base, Longest time.Duration
	// Share of the endpoints in rotation; zero means 0.5.
	Share float64
}

func (e *Ejection) fill() {
	e.Consecutive = cmp.Or(e.Consecutive, 5)
	e.Rate = cmp.Or(e.Rate, 0.5)
	e.Requests = cmp.Or(e.Requests, 20)
	e.Base = cmp.Or(e.Base, 5*time.Second)
	e.Longest = max(cmp.Or(e.Longest, 5*time.Minute), e.Base)
	e.Share = cmp.Or(e.Share, 0.5)
}

func (e *Ejection) check() error {
	if e.Consecutive < 0 || e.Rate < 0 || e.Rate > 1 || e.Requests < 0 || e.Base < 0 || e.Longest < 0 || e.Share < 0 || e.Share > 1 {
		return fmt.Errorf("%w: Ejection has a negative field, or a rate or share above 1", ErrConfig)
	}
	return nil
}

// Ejected is why an endpoint is set aside.
type Ejected string

const (
	EjectedConsecutive Ejected = "consecutive failures"
	EjectedRate        Ejected = "failure rate"
	EjectedRefused     Ejected = "connection refused"
	EjectedStale       Ejected = "another instance at its address"
)

// count takes an outcome in.
func (p *pool) count(n *node, o Outcome) {
	switch o {
	case Good:
		n.ok.Add(1)
		if n.row.Load() != 0 {
			n.row.Store(0)
		}
	case Failed:
		n.failed.Add(1)
		p.failure(n, 1, EjectedConsecutive)
	case Refused:
		n.refused.Add(1)
		n.failed.Add(1)
		p.failure(n, int32(p.ejection.Consecutive+1)/2, EjectedRefused)
	case Stale:
		p.suspect(n, EjectedStale)
	}
}

// failure judges the endpoint at each full row.
func (p *pool) failure(n *node, weight int32, why Ejected) {
	limit := int32(p.ejection.Consecutive)
	if now := n.row.Add(weight); now/limit != (now-weight)/limit {
		p.suspect(n, why)
	}
}

// suspect sets an endpoint aside, if the rules allow it.
func (p *pool) suspect(n *node, why Ejected) {
	if p.ejection.Off {
		return
	}
	p.mu.Lock()
	s := p.sumUp()
	set := p.judge(n, why, p.clock(), &s)
	p.mu.Unlock()
	if set {
		p.dirty.Store(true)
		p.stirred()
	}
}

// sum is how all endpoints of a service do, as this caller sees it.
type sum struct {
	in, out int
	results result // of those that are in
}

// sumUp looks at all endpoints. The lock is held.
func (p *pool) sumUp() (s sum) {
	for _, m := range p.members {
		if m.out.Load() {
			s.out++
			continue
		}
		s.in++
		s.results = s.results.plus(m.seen())
	}
	return s
}

// judge sets n aside where the cap and the siblings allow it, and says whether
// it did. The lock is held.
func (p *pool) judge(n *node, why Ejected, now time.Duration, s *sum) bool {
	if n.out.Load() {
		return false
	}
	own := n.seen()
	others := result{max(0, s.results.ok-own.ok), max(0, s.results.failed-own.failed)}
	most := max(1, int(p.ejection.Share*float64(s.in+s.out)))
	soft := why == EjectedConsecutive || why == EjectedRate
	if s.in <= 1 || s.out >= most || soft && !worse(own, others) {
		return false
	}
	if now-n.back > p.aside(n.times) {
		n.times = 0
	}
	n.why, n.until = why, now+p.aside(n.times)
	n.times++
	n.out.Store(true)
	p.event(Event{Kind: EndpointEjected, Service: p.service, Instance: n.id, Why: string(why)})
	s.in, s.out, s.results = s.in-1, s.out+1, others
	p.ejections.Add(1)
	return true
}

// worse says whether an endpoint does clearly worse than its siblings; where
// these were asked nothing, nobody says that the fault is shared.
func worse(own, others result) bool {
	return own.rate() > 2*others.rate()
}

// aside is how long the next time lasts, after so many.
func (p *pool) aside(times int) time.Duration {
	d := p.ejection.Base
	for range times {
		if d *= 2; d >= p.ejection.Longest {
			return p.ejection.Longest
		}
	}
	return d
}

// comeBack has those return whose time is over. The lock is held.
func (p *pool) comeBack(now time.Duration) (any bool) {
	for _, m := range p.members {
		if m.out.Load() && now >= m.until {
			m.row.Store(int32(p.ejection.Consecutive) - 1) // the next failure decides
			m.recent, m.back = result{}, now
			m.out.Store(false)
			p.event(Event{Kind: EndpointReturned, Service: p.service, Instance: m.ID})
			any = true
		}
	}
	return any
}

// rates sets aside whose rate of failure is too high. The lock is held.
func (p *pool) rates(now time.Duration) (any bool) {
	if p.ejection.Off {
		return false
	}
	s := p.sumUp()
	for _, m := range p.members {
		r := m.recent
		if r.all() >= float64(p.ejection.Requests) && r.rate() >= p.ejection.Rate && p.judge(m.node, EjectedRate, now, &s) {
			any = true
		}
	}
	return any
}

// EjectedEndpoint is one that is set aside.
type EjectedEndpoint struct {
	ID, Address string
	Why         Ejected
	// For is how long still.
	For time.Duration
}

// ejected are those that are set aside now, by ID.
func (p *pool) ejected() []EjectedEndpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	var out []EjectedEndpoint
	for _, m := range p.members {
		if m.out.Load() {
			out = append(out, EjectedEndpoint{m.ID, m.Address, m.why, max(0, m.until-now)})
		}
	}
	slices.SortFunc(out, func(a, b EjectedEndpoint) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
