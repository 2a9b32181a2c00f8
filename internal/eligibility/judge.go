package eligibility

// Terms is a contract made ready for folding.
type Terms struct {
	Contract
	// Name says who a prober is, for people; nil says its number.
	Name  func(prober uint32) string
	decay decay
	steps []Permille // at least two, the last is whole
}

// Prepare makes a contract that [Contract.Check] accepted ready.
func Prepare(c Contract) *Terms {
	t := &Terms{Contract: c, decay: halving(c.HalfLife), steps: c.Steps}
	if len(t.steps) < 2 {
		t.steps = defaultSteps
	}
	return t
}

const (
	trialResults = 10 // from which a trial is judged
	trialLength  = 60 // seconds, after which it has passed if nobody called
	outcomeWait  = 2  // seconds in which callers of a busy instance would notice a closed port
)

// Change is a transition: what the verdict was, and what it is.
type Change struct {
	From, To           Verdict
	FromRule, Rule     Rule
	Quarantined        bool // this change began a quarantine
	FromWeight, Weight Permille
}

// Fold folds one sealed tick into the state and judges it. It returns the
// change, if there was one, and the tick at which the state must be judged
// again even without evidence.
func (s *State) Fold(c *Terms, e Evidence, f Facts, now int64) (ch Change, changed bool, due int64) {
	s.see(c, e, now)
	return s.Judge(c, f, now)
}

// Judge decides by what is remembered. It is a list: the first rule that
// applies decides.
func (s *State) Judge(c *Terms, f Facts, now int64) (ch Change, changed bool, due int64) {
	s.Judged = now
	l := s.look(c, now)
	v, r, w := s.decide(c, f, &l, now)
	ch = Change{From: s.Verdict, FromRule: s.Rule, FromWeight: s.Weight, To: v, Rule: r, Weight: w}
	wasOut, isOut := s.Verdict == Ineligible, v == Ineligible
	if wasOut != isOut && s.Rule != Starting && s.Rule.ByEvidence() && r.ByEvidence() && s.flap(now) {
		s.quarantine(now)
		ch.To, ch.Rule, ch.Weight, ch.Quarantined = Ineligible, Quarantined, 0, true
		isOut = true
	}
	if wasOut != isOut || s.Rule == Starting && ch.Rule != Starting {
		s.becomeMoved(isOut, now)
	}
	changed = ch.To != s.Verdict || ch.Rule != s.Rule || ch.Weight != s.Weight
	if ch.To != s.Verdict || ch.Rule != s.Rule {
		s.Since = now
	}
	s.Verdict, s.Rule, s.Weight = ch.To, ch.Rule, ch.Weight
	if s.climb(c, &l, now) {
		changed = true
	}
	if changed { // what follows from a change is seen at the next tick
		return ch, true, now + 1
	}
	return ch, false, s.due(c, &l, now)
}

// becomeMoved is what follows from entering or leaving rotation.
func (s *State) becomeMoved(out bool, now int64) {
	s.CleanSince = 0
	s.Step, s.StepSince = 0, now
	if out {
		s.TrialSince = 0
		return
	}
	s.Ready = true
}

// decide is the list.
func (s *State) decide(c *Terms, f Facts, l *look, now int64) (Verdict, Rule, Permille) {
	switch {
	case f.Gone:
		return Ineligible, Gone, 0
	case f.LeaseEnded:
		return Ineligible, LeaseEnded, 0
	case f.HeldOut:
		return Ineligible, HeldOut, 0
	}
	against, is := s.against(c, l, now)
	switch {
	case is && s.Rule == Starting:
		return Unknown, Starting, 0 // it never was in rotation: nothing is taken out
	case is && !s.quarantined(now):
		s.CleanSince = 0
		return Ineligible, against, 0
	case is:
		s.CleanSince = 0
		return Ineligible, Quarantined, 0
	case s.Rule == Starting:
		return s.start(c, l, now)
	case s.Verdict == Ineligible && s.Rule.ByEvidence():
		return s.comeBack(c, l, now)
	}
	return s.serve(c, l, now)
}

// against is the rule by which evidence puts the instance out now, if any.
func (s *State) against(c *Terms, l *look, now int64) (Rule, bool) {
	switch {
	case s.Probes.Refused != 0 && l.believed(c, s):
		return RefusedToProbers, true
	case s.Outcomes.Refused != 0 && now-s.Outcomes.Refused <= int64(c.SilentAfter):
		return RefusedToCallers, true
	case !l.selfSilent && s.Self.Draining:
		return SaysDraining, true
	case !l.selfSilent && !s.Self.Ready:
		return SaysUnready, true
	case !l.selfSilent && s.Self.Down:
		return DependencyDown, true
	case l.callersOut(c, s):
		return FailingCallers, true
	case l.failing(c, s, now) && !l.callersContent(c):
		return FailingProbes, true
	case l.silentAndFailing(c, s, now):
		return SilentAndFailing, true
	case l.allSilent && c.SilenceFails && now-s.Born > int64(c.SilentAfter):
		return SilenceForbidden, true
	}
	return 0, false
}

// start decides about an instance that was never in rotation.
func (s *State) start(c *Terms, l *look, now int64) (Verdict, Rule, Permille) {
	waited := now-s.Born > int64(c.SilentAfter)
	switch {
	case c.Profile.Probe && !l.probesSilent && l.lastGood(s):
	case c.Profile.Probe && l.probesSilent && s.Probes.At == 0 && waited && !l.selfSilent: // no prober looks here: its own word
	case !c.Profile.Probe && c.Profile.Self && !l.selfSilent:
	case !c.Profile.Probe && !c.Profile.Self: // callers are all there is
	default:
		return Unknown, Starting, 0
	}
	return s.serve(c, l, now)
}

// comeBack decides about an instance that is out by evidence, and against
// which nothing speaks at this moment.
func (s *State) comeBack(c *Terms, l *look, now int64) (Verdict, Rule, Permille) {
	if !s.clean(c, l) {
		s.CleanSince = 0
		return s.stay(now)
	}
	if s.CleanSince == 0 {
		s.CleanSince = now
	}
	if now-s.CleanSince < int64(c.ReturnAfter) || s.quarantined(now) {
		return s.stay(now)
	}
	if c.Profile.Outcomes && s.removedByCallers() {
		s.TrialSince = now
		s.Outcomes.forget(now)
		return Degraded, Trial, 1000
	}
	return s.serve(c, l, now)
}

// stay keeps an instance out, by quarantine as long as that lasts.
func (s *State) stay(now int64) (Verdict, Rule, Permille) {
	if s.quarantined(now) {
		return Ineligible, Quarantined, 0
	}
	return Ineligible, s.Rule, 0
}

// removedByCallers reports whether only callers could tell that the instance
// is well again. What put it into quarantine is not remembered: callers are
// asked.
func (s *State) removedByCallers() bool {
	switch s.Rule {
	case FailingCallers, RefusedToCallers, SilentAndFailing, Quarantined:
		return true
	}
	return false
}

// clean reports whether a fresh look speaks for an instance that is out. Where
// no prober looks any more, its own word ends what its own word began.
func (s *State) clean(c *Terms, l *look) bool {
	if c.Profile.Probe && !(l.probesSilent && s.Rule.byItself()) {
		return !l.probesSilent && l.bad < c.In && l.lastGood(s)
	}
	if c.Profile.Self {
		return !l.selfSilent && s.Self.Ready
	}
	return true // only callers can tell: a trial will
}

// serve decides about an instance in rotation against which nothing speaks
// strongly enough to put it out.
func (s *State) serve(c *Terms, l *look, now int64) (Verdict, Rule, Permille) {
	if s.TrialSince != 0 {
		count, _, _ := s.Outcomes.recent(now)
		if now-s.TrialSince < trialLength && (count < trialResults || l.failed >= c.In) {
			return Degraded, Trial, 1000
		}
		s.TrialSince, s.StepSince = 0, now
	}
	dependent := Permille(1000)
	if !l.selfSilent {
		dependent = max(1000-s.Self.Worst, leastWeight)
	}
	switch {
	case l.allSilent && s.Rule != Starting:
		return Unknown, Unseen, 1000
	case l.degraded(c, s):
		return Degraded, FailingSome, min(tenths(max(1000-l.failed, leastWeight)), dependent)
	case dependent < 1000:
		return Degraded, Dependent, tenths(dependent)
	case l.failing(c, s, now), s.Probes.Refused != 0:
		return Eligible, Disagree, 1000
	case l.differ(c, s, now):
		return Eligible, ProbersDiffer, 1000
	}
	return Eligible, Serving, 1000
}

// leastWeight is the least that evidence may leave of a weight: a dependency
// never takes an instance out, and what fails some still serves some.
const leastWeight = 100

// tenths rounds a weight to tenths, so that it does not change with each tick.
func tenths(w Permille) Permille { return max((w+50)/100*100, leastWeight) }
