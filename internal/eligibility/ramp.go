package eligibility

// steps of the ramp: the share of its weight that an instance has in each.
var steps = [...]Permille{100, 250, 500, 750, 1000}

// climb moves the ramp on: with time, and not while callers fare worse here. A
// quiet service is not starved, since time is enough. It reports whether the
// step changed.
func (s *State) climb(c *Terms, l *look, now int64) bool {
	last := uint8(len(steps) - 1)
	switch {
	case s.Verdict == Ineligible || s.Rule == Starting || s.Step == last:
		return false
	case c.Ramp == 0 && s.TrialSince == 0:
		s.Step = last
		return true
	case s.TrialSince != 0: // a trial is the first step
		return false
	case now-s.StepSince < int64(c.Ramp)/int64(last):
		return false
	case l.degraded(c, s): // it waits where it is
		s.StepSince = now
		return false
	}
	s.Step, s.StepSince = s.Step+1, now
	return true
}

// Ramped is the share of its weight that the ramp leaves an instance. Where
// every sibling ramps as well, whoever assembles a view gives them all their
// whole weight.
func (s *State) Ramped() Permille { return steps[min(int(s.Step), len(steps)-1)] }

// Settled reports whether the instance is past its ramp.
func (s *State) Settled() bool { return int(s.Step) == len(steps)-1 }
