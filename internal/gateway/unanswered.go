package gateway

import (
	"sync"
	"time"
)

// DefaultAbandonedAfter is AbandonedAfter by default. It is above what a
// collector's pause, a cold start or a slow disk take, and as long as a prober's
// interval; and an instance that is busy enough for its callers to decide about it
// says something several times a second while it works, however long each of its
// answers takes.
const DefaultAbandonedAfter = 5 * time.Second

// silence is for how long callers waited in vain for an instance that says nothing
// to anybody. It begins anew with each byte that comes from there.
type silence struct {
	mu     sync.Mutex
	heard  uint64        // of the instance's pool, since when it lasts
	waited time.Duration // by those who gave up, in all; what overlaps counts once
	until  time.Time     // when the last of them did
}

// gaveUp notes that a caller gave up at now who had waited since asked, while the
// pool had heard what it had heard before. It returns how long callers waited.
func (s *silence) gaveUp(heard uint64, asked, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard != heard {
		s.heard, s.waited, s.until = heard, 0, time.Time{}
	}
	own := now.Sub(asked)
	s.waited = max(s.waited+min(own, now.Sub(s.until)), own)
	s.until = now
	return s.waited
}

// asks notes what had been heard of the instance, and of its whole group, before
// the request went there.
func (a *attempt) asks() {
	a.heard, a.answers = a.m.pool.heard.Load(), a.m.shard.answers.Load()
}

// unanswered says that the request, which its caller gave up, speaks against the
// instance. That a caller gives up is no failure by itself: who asks for what takes
// its time may not care to wait. But where the instance had the whole request, sent
// nobody a byte since, callers waited for long enough in all, and its siblings
// answered meanwhile, it is what hangs.
func (a *attempt) unanswered(now time.Time) bool {
	if a.c == nil || a.x.g.cutting.Load() {
		return false
	}
	p := a.m.pool
	asked, whole := a.x.body.wholeAt()
	if !whole || p.heard.Load() != a.heard || p.joined.Load() > 0 {
		return false
	}
	waited := a.m.silence.gaveUp(a.heard, asked, now)
	return waited >= a.x.g.cfg.AbandonedAfter && a.m.shard.answers.Load() != a.answers
}
