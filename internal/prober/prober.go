// Package prober looks at instances from outside: by HTTP, TCP or the gRPC
// health protocol, each target once in an interval, and says what it saw. Read
// [Prober] first. It decides nothing; a look that was not made is silence, and
// is never reported as a failure.
package prober

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Target is one instance that is to be looked at.
type Target struct {
	Instance uint32 // its handle in evidence
	ID       string
	Address  string // host:port
	Check    Check
	Interval time.Duration
	// Alone says that nobody else looks at it: a refusal is looked at twice.
	Alone bool
}

// Look is what was seen.
type Look struct {
	Instance uint32
	Result   eligibility.Result
	Detail   string // for people; empty where all was well
	Took     time.Duration
	Bytes    int // on the wire, about
}

// Config of a prober. Report is called with what was seen, from several
// goroutines at once.
type Config struct {
	Report func(Look)
	// AtOnce bounds the looks in flight; zero means 64.
	AtOnce int
}

// Prober looks at its targets until its context ends.
type Prober struct {
	cfg  Config
	mu   sync.Mutex
	all  map[uint32]*watched // :: handle → target
	wake chan struct{}
}

type watched struct {
	Target
	next    time.Time
	looking bool
	gone    bool
}

// New makes a prober without targets.
func New(cfg Config) *Prober {
	if cfg.AtOnce == 0 {
		cfg.AtOnce = 64
	}
	return &Prober{cfg: cfg, all: map[uint32]*watched{}, wake: make(chan struct{}, 1)}
}

// Assign makes targets all that is looked at. A target that stays keeps its
// place in the interval; a new one is looked at soon, spread by its identity,
// so that a restart is no burst.
func (p *Prober) Assign(targets []Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, old := time.Now(), p.all
	p.all = make(map[uint32]*watched, len(targets))
	for _, t := range targets {
		w := old[t.Instance]
		if w == nil || w.ID != t.ID {
			w = &watched{next: now.Add(first(t))}
		}
		w.Target = t
		p.all[t.Instance] = w
		delete(old, t.Instance)
	}
	for _, w := range old {
		w.gone = true
	}
	p.wakeUp()
}

// first is when a new target is looked at: within the first tenth of the
// interval, and a second, so that a deploy does not wait for a whole one.
func first(t Target) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(t.ID))
	return time.Duration(h.Sum32()%1000) * min(t.Interval/10, time.Second) / 1000
}

// Now has a target looked at at once: another prober was refused.
func (p *Prober) Now(instance uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.all[instance]; w != nil && !w.looking {
		w.next = time.Now()
		p.wakeUp()
	}
}

func (p *Prober) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run looks until ctx ends, and returns when no look is in flight.
func (p *Prober) Run(ctx context.Context) {
	var flying sync.WaitGroup
	defer flying.Wait()
	places := make(chan struct{}, p.cfg.AtOnce)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Either a target is due, or the targets changed, or it is over.
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
		due, next := p.take(time.Now())
		for _, w := range due {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			flying.Go(func() {
				defer func() { <-places }()
				p.look(ctx, w)
			})
		}
		timer.Reset(next)
	}
}

// take gives the targets that are due, and how long until the next is.
func (p *Prober) take(now time.Time) (due []*watched, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next = time.Minute
	for _, w := range p.all {
		switch wait := w.next.Sub(now); {
		case w.looking:
		case wait <= 0:
			w.looking = true
			due = append(due, w)
		default:
			next = min(next, wait)
		}
	}
	slices.SortFunc(due, func(a, b *watched) int { return cmp.Compare(a.Instance, b.Instance) })
	return due, next
}

// look looks once, or twice where a refusal has nobody else to confirm it.
func (p *Prober) look(ctx context.Context, w *watched) {
	p.mu.Lock()
	t := w.Target
	p.mu.Unlock()
	l := t.look(ctx)
	again := l.Result == eligibility.Refused && t.Alone
	p.tell(ctx, w, l)
	if again {
		select {
		case <-ctx.Done():
		case <-time.After(secondLook):
			p.tell(ctx, w, t.look(ctx))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.looking = false
	w.next = w.next.Add(t.Interval)
	if now := time.Now(); w.next.Before(now) { // it was kept waiting: no burst to catch up
		w.next = now.Add(t.Interval)
	}
	p.wakeUp()
}

// secondLook is how long after a refusal the only prober looks again.
const secondLook = 200 * time.Millisecond

// tell reports a look that was really made, at a target that is still ours.
func (p *Prober) tell(ctx context.Context, w *watched, l Look) {
	p.mu.Lock()
	gone := w.gone
	p.mu.Unlock()
	if ctx.Err() == nil && !gone {
		p.cfg.Report(l)
	}
}
