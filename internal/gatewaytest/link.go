package gatewaytest

import (
	"errors"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// retry is the time after which a refused gateway connects again.
const retry = time.Second

// link is one gateway's connection to one port. Its fields are guarded by the
// Sim's lock; only its own goroutine changes them.
type link struct {
	g *Gateway
	p *SimPort

	admitted  bool
	runs      int // of the gateway, when it was admitted
	cuts      int
	again     time.Time   // when it may connect again
	due       time.Time   // when the newest table takes effect; zero when none is under way
	took      *view.Table // sent and applied: not sent again unless it is offered again
	rejected  *view.Table // refused by the client's rules, and not tried again
	said      *view.Held  // as last acknowledged
	saidKept  *view.Held
	saidError error
}

func (l *link) run() {
	s := l.g.sim
	for l.p.ctx.Err() == nil {
		s.mu.Lock()
		wake := s.wake
		wait, admit := l.stepLocked(time.Now())
		hello := l.g.helloLocked()
		runs, cuts := l.g.runs, l.g.cuts
		s.mu.Unlock()
		if admit {
			e, err := l.admit(hello)
			s.change(func(now time.Time) { l.admittedLocked(e, err, hello, runs, cuts, now) })
			continue
		}
		l.sleep(wake, wait)
	}
}

// sleep waits for a change, the end of the port, or wait, where that is not negative.
func (l *link) sleep(wake <-chan struct{}, wait time.Duration) {
	var timer <-chan time.Time
	if wait >= 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-wake:
	case <-timer:
	case <-l.p.ctx.Done():
	}
}

func (l *link) admit(hello service.GatewayState) (view.Epoch, error) {
	if l.p.cfg.Admit == nil {
		return view.Epoch{}, nil
	}
	return l.p.cfg.Admit(l.p.ctx, hello)
}

// admittedLocked takes the answer to hello, unless the gateway was stopped or
// cut off meanwhile.
func (l *link) admittedLocked(e view.Epoch, err error, hello service.GatewayState, runs, cuts int, now time.Time) {
	g := l.g
	if g.down || g.cut || g.runs != runs || g.cuts != cuts || l.p.ctx.Err() != nil {
		return
	}
	if err != nil {
		l.again = now.Add(retry)
		return
	}
	l.admitted, l.runs, l.cuts = true, runs, cuts
	l.due, l.took, l.rejected, l.said, l.saidKept, l.saidError = time.Time{}, nil, nil, nil, nil, nil
	l.p.saidLocked(hello)
	if l.p.newest != nil {
		l.p.stateLocked(g.name).Sent = l.p.newest.Version
	}
	if e.Zero() {
		return
	}
	held, _, err := g.held.Heed(e, view.Rules{Authenticated: true})
	if err != nil {
		l.leaveLocked(now)
		return
	}
	g.held = held
}

func (l *link) leaveLocked(now time.Time) {
	l.admitted = false
	l.again = now.Add(retry)
	l.p.disconnectLocked(l.g.name, now)
}

// stepLocked does what can be done now. It says how long to wait for the next
// step (negative: until something changes), or that Admit is to be asked.
func (l *link) stepLocked(now time.Time) (wait time.Duration, admit bool) {
	g := l.g
	if g.down || g.cut {
		return -1, false
	}
	if l.admitted && (l.runs != g.runs || l.cuts != g.cuts) {
		l.admitted, l.again = false, now
	}
	if !l.admitted {
		if wait := l.again.Sub(now); wait > 0 {
			return wait, false
		}
		return 0, true
	}
	wait = l.takeLocked(now)
	if l.admitted {
		l.ackLocked()
	}
	return wait, false
}

func (l *link) takeLocked(now time.Time) time.Duration {
	g, t := l.g, l.p.newest
	if t == nil || t == l.rejected {
		return -1
	}
	if told := g.held.Told(); told != nil && told.Version == t.Version && (told.Digest == t.Digest || l.took == t) && g.held.Epoch() == t.Epoch {
		l.due, l.took = time.Time{}, t
		return -1
	}
	if l.due.IsZero() {
		l.due = now.Add(g.lag)
	}
	if wait := l.due.Sub(now); wait > 0 {
		return wait
	}
	l.due = time.Time{}
	held, _, err := g.held.Take(t.DeltaFrom(g.held.Told()), view.Rules{Authenticated: true, Refuse: g.objectLocked})
	if err != nil {
		l.rejected = t
		if errors.Is(err, view.ErrOlderEpoch) || errors.Is(err, view.ErrLeft) || errors.Is(err, view.ErrRivalEpoch) {
			l.leaveLocked(now)
			return retry
		}
		return -1
	}
	g.held, l.took = held, t
	g.governLocked()
	return -1
}

// ackLocked keeps what is served, where its disk takes it, and acknowledges.
func (l *link) ackLocked() {
	g := l.g
	if g.keepErr == nil {
		g.kept = g.held
	}
	if l.said == g.held && l.saidKept == g.kept && l.saidError == g.keepErr {
		return
	}
	l.said, l.saidKept, l.saidError = g.held, g.kept, g.keepErr
	l.p.saidLocked(g.helloLocked())
}
