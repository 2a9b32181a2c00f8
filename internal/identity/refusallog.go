package identity

import (
	"net"
	"sync"
	"time"
)

const (
	// refusalsEvery is how often handshakes of one source are spoken of that were
	// refused for one reason.
	refusalsEvery = time.Minute
	// mostSources are remembered; beyond that all share one.
	mostSources = 1000
)

// refusalLog says which refused handshakes to speak of: one for each source, with
// its reason, and minute, with how many there were since the last. The zero
// refusalLog is good.
type refusalLog struct {
	mu      sync.Mutex
	sources map[string]*refusedSource // :: host and reason → what was said of it
}

type refusedSource struct {
	said   time.Time
	unsaid int
}

// source is who is at the other end, however many connections there are.
func source(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// say notes one, and says whether to speak of it, and of how many more of its
// source nobody did.
func (l *refusalLog) say(source string, now time.Time) (unsaid int, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources == nil {
		l.sources = map[string]*refusedSource{}
	}
	if len(l.sources) >= mostSources && l.sources[source] == nil {
		l.forget(now)
	}
	if len(l.sources) >= mostSources && l.sources[source] == nil {
		source = ""
	}
	x := l.sources[source]
	switch {
	case x == nil:
		l.sources[source] = &refusedSource{said: now}
		return 0, true
	case now.Sub(x.said) < refusalsEvery:
		x.unsaid++
		return 0, false
	}
	unsaid, x.said, x.unsaid = x.unsaid, now, 0
	return unsaid, true
}

// forget drops those of which nothing was said for long.
func (l *refusalLog) forget(now time.Time) {
	for source, x := range l.sources {
		if now.Sub(x.said) >= refusalsEvery {
			delete(l.sources, source)
		}
	}
}
