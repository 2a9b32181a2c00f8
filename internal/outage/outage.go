// Package outage says when to speak of something that is away and asked for
// again and again: at its first failure or once it has lasted, then at growing
// intervals, and at its return. It logs nothing itself. Read [Outage].
package outage

import "time"

// Moment is how long a stream may be away before that is spoken of: who is at its
// other end starts anew within that.
const Moment = 5 * time.Second

const (
	first = 10 * time.Second
	most  = 10 * time.Minute
)

// Outage of one thing. The zero value is one that is there, or was not yet
// asked. It is not for two goroutines at once.
type Outage struct {
	// After is how long it is away before it is spoken of: what passes within that
	// is for nobody to act on. Zero speaks at once.
	After time.Duration

	since, next time.Time
	wait        time.Duration
}

// Failed notes a failure, and says whether to speak of it.
func (o *Outage) Failed(now time.Time) bool {
	if o.since.IsZero() {
		o.since, o.next = now, now.Add(o.After)
	}
	if now.Before(o.next) {
		return false
	}
	o.wait = min(max(2*o.wait, first), most)
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
	*o = Outage{After: o.After}
	return away
}
