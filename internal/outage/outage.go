// Package outage says when to speak of something that is away and asked for
// again and again: at its first failure, then at growing intervals, and at its
// return. It logs nothing itself. Read [Outage].
package outage

import "time"

const (
	first = 10 * time.Second
	most  = 10 * time.Minute
)

// Outage of one thing. The zero value is one that is there, or was not yet
// asked. It is not for two goroutines at once.
type Outage struct {
	since, next time.Time
	wait        time.Duration
}

// Failed notes a failure, and says whether to speak of it.
func (o *Outage) Failed(now time.Time) bool {
	switch {
	case o.since.IsZero():
		o.since, o.wait = now, first
	case now.Before(o.next):
		return false
	default:
		o.wait = min(2*o.wait, most)
	}
	o.next = now.Add(o.wait)
	return true
}

// For is how long it has been away; zero when it is not.
func (o *Outage) For(now time.Time) time.Duration {
	if o.since.IsZero() {
		return 0
	}
	return now.Sub(o.since)
}

// Back notes that it is there, and returns how long it was away; zero when it
// was not.
func (o *Outage) Back(now time.Time) time.Duration {
	away := o.For(now)
	*o = Outage{}
	return away
}
