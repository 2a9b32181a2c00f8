package admission

import "time"

// Population is how many subscribers there are known to be: the most that were
// connected within the last hour or two, whoever is connected now. It is what
// is remembered over a restart.
type Population struct {
	began        time.Duration // of the present hour
	this, before int           // the most of this hour, and of the one before
}

// term is for how long, at least, the most that were connected counts.
const term = time.Hour

// Remembered is a population that was known before a restart.
func Remembered(known int, now time.Duration) Population {
	return Population{began: now, this: max(0, known)}
}

// See takes in how many are connected.
func (p *Population) See(now time.Duration, connected int) {
	switch past := now - p.began; {
	case past >= 2*term:
		p.began, p.this, p.before = now, 0, 0
	case past >= term:
		p.began, p.this, p.before = now, 0, p.this
	}
	p.this = max(p.this, connected)
}

// Known is how many there are.
func (p *Population) Known() int { return max(p.this, p.before) }
