package gateway

import "time"

// pace says how long the next of a body may take to come: as long as a body may
// pause, but no longer than the whole may have taken at minBodyRate, after a
// first time-out. Time in which nobody waits for the caller does not count.
type pace struct {
	timeout time.Duration
	came    int64
	waited  time.Duration
}

// next is until when, from now.
func (p *pace) next() time.Duration {
	return min(p.timeout, p.timeout+atLeast(p.came)-p.waited)
}

func (p *pace) took(n int, d time.Duration) {
	p.came += int64(n)
	p.waited += d
}

// atLeast is how long so many bytes take at minBodyRate.
func atLeast(n int64) time.Duration {
	const most = int64(time.Hour / time.Second * minBodyRate)
	return time.Duration(min(n, most)) * (time.Second / minBodyRate)
}
