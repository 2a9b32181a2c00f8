package eligibility

import "math"

// defaultSteps of the ramp: the share of its weight that an instance has in each.
var defaultSteps = []Permille{100, 250, 500, 750, 1000}

// settled is the Step of an instance past its ramp, however many steps that is
// given later.
const settled = math.MaxUint8

// climb moves the ramp on: with time, and not while callers fare worse here. A
// quiet service is not starved, since time is enough. It reports whether the
// step changed.
func (s *State) climb(c *Terms, l *look, now int64) bool {
	switch {
	case s.Verdict == Ineligible || s.Rule == Starting || s.Settled(c):
		return false
	case c.Ramp == 0 && s.TrialSince == 0:
		s.Step = settled
		return true
	case s.TrialSince != 0: // a trial is the first step
		return false
	case now-s.StepSince < c.pace():
		return false
	case l.degraded(c, s): // it waits where it is
		s.StepSince = now
		return false
	}
	s.Step, s.StepSince = s.Step+1, now
	if s.Settled(c) {
		s.Step = settled
	}
	return true
}

// Ramped is the share of its weight that the ramp leaves an instance. Where
// every sibling ramps as well, whoever assembles a view gives them all their
// whole weight.
func (s *State) Ramped(c *Terms) Permille { return c.steps[min(int(s.Step), len(c.steps)-1)] }

// Settled reports whether the instance is past its ramp.
func (s *State) Settled(c *Terms) bool { return int(s.Step) >= len(c.steps)-1 }

// pace is how many seconds an instance stays in a step.
func (c *Terms) pace() int64 { return int64(c.Ramp) / int64(len(c.steps)-1) }
