// Package prober is the role that looks at instances from outside: by HTTP, TCP
// or the gRPC health protocol, each target once in an interval, and tells control
// what it saw. Read [Prober] first, which looks, then [Role], which speaks with
// control. It decides nothing; a look that was not made is silence, and is never
// reported as a failure.
package prober

import (
	"cmp"
	"context"
	"hash/fnv"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Target is one instance that is to be looked at.
type Target struct {
	ID       string
	Address  string // host:port
	Check    Check
	Interval time.Duration
	// Alone says that nobody else looks at it: a refusal is looked at twice.
	Alone bool
}

// Look is what was seen.
type Look struct {
	ID     string // the target's
	Result eligibility.Result
	Detail string // for people; empty where all was well
	Took   time.Duration
	Bytes  int // on the wire, about
}

// Config of a prober. Report is called with what was seen, from several
// goroutines at once.
type Config struct {
	// Name sets when in an interval this prober looks: two that look at one
	// target do so at different times.
	Name   string
	Report func(Look)
	// AtOnce bounds the looks in flight, but for those around a refusal; zero
	// means 512: a whole share of targets that hang takes no longer than an
	// interval.
	AtOnce int
	// Dial opens connections to targets; nil means the network's.
	Dial Dial
}

// Prober looks at its targets until its context ends.
type Prober struct {
	cfg    Config
	mu     sync.Mutex
	all    map[string]*watched // :: instance → target
	around time.Time           // when it looked around last
	wake   chan struct{}
}

type watched struct {
	Target
	next    time.Time
	placed  bool // it has its place in its interval
	looking bool
	gone    bool
}

// New makes a prober without targets.
func New(cfg Config) *Prober {
	if cfg.AtOnce == 0 {
		cfg.AtOnce = 512
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	return &Prober{cfg: cfg, all: map[string]*watched{}, wake: make(chan struct{}, 1)}
}

// Assign makes targets all that is looked at. A target that stays keeps its
// place in the interval, or gets an earlier one where the interval became
// shorter; a new one has a place of its own, so that a restart is no burst.
func (p *Prober) Assign(targets []Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, old := time.Now(), p.all
	p.all = make(map[string]*watched, len(targets))
	for _, t := range targets {
		w := old[t.ID]
		if w == nil || w.Address != t.Address {
			w = &watched{next: now.Add(p.place(t))}
		} else {
			delete(old, t.ID)
			w.placed = w.placed && w.Interval == t.Interval
		}
		if latest := now.Add(t.Interval); w.next.After(latest) {
			w.next = latest
		}
		w.Target = t
		p.all[t.ID] = w
	}
	for _, w := range old {
		w.gone = true
	}
	p.wakeUp()
}

// place is the target's in an interval, by its identity and the prober's name.
func (p *Prober) place(t Target) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(p.cfg.Name))
	h.Write([]byte{0})
	h.Write([]byte(t.ID))
	x := h.Sum64()
	x = (x ^ x>>31) * 0x9e3779b97f4a7c15 // names differ in their last bytes mostly
	return time.Duration(x>>44) * t.Interval >> 20
}

// Now has a target looked at at once: another prober was refused.
func (p *Prober) Now(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.all[id]; w != nil && !w.looking {
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
	slices.SortFunc(due, func(a, b *watched) int { return cmp.Compare(a.ID, b.ID) })
	return due, next
}

// look looks once, or twice where a refusal has nobody else to confirm it.
func (p *Prober) look(ctx context.Context, w *watched) {
	p.mu.Lock()
	t := w.Target
	p.mu.Unlock()
	l := t.look(ctx, p.cfg.Dial)
	if l.Result == eligibility.Refused {
		p.lookAround(ctx, w)
	}
	p.tell(ctx, w, l)
	if l.Result == eligibility.Refused && t.Alone {
		select {
		case <-ctx.Done():
		case <-time.After(secondLook):
			p.tell(ctx, w, t.look(ctx, p.cfg.Dial))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.looking = false
	now := time.Now()
	switch w.next = w.next.Add(w.Interval); {
	case !w.placed: // from the first look on
		w.placed, w.next = true, now.Add(p.place(w.Target))
	case w.next.Before(now): // it was kept waiting: no burst to catch up
		w.next = now.Add(w.Interval)
	}
	p.wakeUp()
}

const (
	// secondLook is how long after a refusal the only prober looks again.
	secondLook = 200 * time.Millisecond
	// aroundEvery is how often a refusal has the prober look around at most.
	aroundEvery = 5 * time.Second
	// aroundMost targets are looked at beside the one that refused: with it
	// they are enough to tell a prober that is cut off.
	aroundMost = 4
)

// lookAround looks at some other targets, before a refusal is told: where they
// refuse as well, the way from here is what is closed, and control is to know
// that no later than the refusal.
func (p *Prober) lookAround(ctx context.Context, from *watched) {
	var looking sync.WaitGroup
	defer looking.Wait()
	for _, w := range p.others(from) {
		looking.Go(func() {
			p.mu.Lock()
			t := w.Target
			p.mu.Unlock()
			p.tell(ctx, w, t.look(ctx, p.cfg.Dial))
		})
	}
}

func (p *Prober) others(from *watched) (others []*watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.around.IsZero() && now.Sub(p.around) < aroundEvery {
		return nil
	}
	p.around = now
	for _, w := range p.all { // in no order: any of them will do
		if w != from && len(others) < aroundMost {
			others = append(others, w)
		}
	}
	return others
}

// tell reports a look that was really made, at a target that is still ours.
func (p *Prober) tell(ctx context.Context, w *watched, l Look) {
	p.mu.Lock()
	gone := w.gone
	p.mu.Unlock()
	if ctx.Err() == nil && !gone {
		p.cfg.Report(l)
	}
}
