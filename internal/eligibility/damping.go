package eligibility

import (
	"fmt"
	"strings"
)

// Damped is how many seconds damping adds between the first bad sample and the
// verdict; Never where the failures do not suffice at all.
type Damped struct{ Probes, Outcomes int }

// Never is a time that does not come.
const Never = 1 << 30

// Damping is what the contract adds to the detection of a total failure after
// a perfect history.
func (c Contract) Damping() Damped { return c.DampingAt(1000) }

// DampingAt is the same where only a share of what is asked fails.
func (c Contract) DampingAt(fails Permille) Damped {
	t := Prepare(c)
	return Damped{Probes: t.byProbes(fails), Outcomes: t.byOutcomes(fails)}
}

// horizon is after how many seconds a score has all but settled.
const horizon = 600

// byProbes folds rounds of looks by two probers. Failures of a share are laid
// out evenly, the first of them first.
func (c *Terms) byProbes(fails Permille) int {
	s := State{}
	for i := range int64(horizon) {
		s.Probes.see(c, Probe{Prober: uint32(i%2) + 1, Count: 1}, i*int64(max(c.ProbeInterval, 1))/2+1)
	}
	start, owed := s.Probes.At+1, 0
	for round := int64(0); round*int64(c.ProbeInterval) < horizon; round++ {
		now := start + round*int64(c.ProbeInterval)
		for prober := range uint32(2) {
			result := Good
			if owed += int(fails); owed >= 1000 || round == 0 {
				owed, result = owed-1000, Failed
			}
			s.Probes.see(c, Probe{Prober: prober + 1, Result: result}, now)
		}
		if l := s.look(c, now); l.bad > c.OutByProbes {
			return int(now - start)
		}
	}
	return Never
}

// byOutcomes folds a busy instance's results, second by second.
func (c *Terms) byOutcomes(fails Permille) int {
	const rate = 1000
	s := State{}
	for i := range int64(horizon) {
		s.Outcomes.see(c, Outcomes{OK: rate, Compared: rate, Reporters: 3}, i+1)
	}
	for i := range int64(horizon) {
		now, bad := horizon+i+1, uint32(fails)*rate/1000
		s.Outcomes.see(c, Outcomes{OK: rate - bad, Failed: bad, Compared: rate, Reporters: 3, Hurt: 3}, now)
		if l := s.look(c, now); l.callersOut(c, &s) {
			return int(i) + 1
		}
	}
	return Never
}

// DampingTable says what failures of several shares take, for a person.
func (c Contract) DampingTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-10s %s\n", "failing", "by probes", "by outcomes")
	show := func(n int) string {
		if n == Never {
			return "never"
		}
		return fmt.Sprintf("%d s", n)
	}
	for _, share := range []Permille{1000, 750, 500, 400, 300, 250, 200, 100, 50} {
		d := c.DampingAt(share)
		fmt.Fprintf(&b, "%-8s %-10s %s\n", fmt.Sprintf("%d%%", share/10), show(d.Probes), show(d.Outcomes))
	}
	return b.String()
}
