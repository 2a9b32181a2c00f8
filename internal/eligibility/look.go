package eligibility

import "math"

// look is what the classes say at one moment.
type look struct {
	probesSilent, selfSilent, callersSilent, allSilent bool

	bad        Permille // share of the probers' looks that failed
	failed     Permille // share of the callers' results that failed
	worse      Permille // by how much that is more than at siblings under the same reporters
	compared   bool     // siblings were called as well, and did well or not
	siblings   Permille // share of failures expected of siblings
	count      uint32   // the callers' results in the last ten to twenty seconds
	sufficient bool
	quorum     bool // enough of the reporters fared worse here
}

func (s *State) look(c *Terms, now int64) look {
	silent := func(last int64) bool { return last == 0 || now-last > int64(c.SilentAfter) }
	l := look{
		probesSilent: silent(s.Probes.Last), selfSilent: silent(s.Self.At), callersSilent: silent(s.Outcomes.Last),
		bad:    share(s.Probes.Bad, s.Probes.Looks),
		failed: share(s.Outcomes.Bad, s.Outcomes.Results),
	}
	// Where callers are all there is, no traffic is no silence: the endpoint
	// is served, with its health unknown.
	l.allSilent = l.probesSilent && l.selfSilent && l.callersSilent && (c.Profile.Probe || c.Profile.Self)
	var reporters, hurt Sketch
	l.count, reporters, hurt = s.Outcomes.recent(now)
	l.sufficient = !l.callersSilent && l.count >= c.Sufficient
	l.siblings = share(s.Outcomes.Expected, s.Outcomes.Compared)
	l.worse = l.failed - min(l.siblings, l.failed)
	// Half of what was seen here was also compared: fewer would let the few
	// reporters that know a sibling speak for those that know none.
	l.compared = s.Outcomes.Compared > 0 && 2*s.Outcomes.Compared >= s.Outcomes.Results
	if reporters.Count() == 1 { // a single gateway suffices, where siblings do well by it
		l.quorum = hurt.Count() == 1 && l.siblings < c.In
	} else {
		l.quorum = several(hurt, reporters)
	}
	return l
}

// callersOut reports whether callers put the instance out: enough results,
// enough failures, clearly worse than the siblings, and not by one voice. In a
// trial few results are enough.
func (l *look) callersOut(c *Terms, s *State) bool {
	enough := l.sufficient || s.TrialSince != 0 && l.count >= trialResults
	return !l.callersSilent && enough && l.failed >= c.OutByOutcomes && l.compared && l.worse >= c.Worse && l.quorum
}

// degraded reports whether callers fare worse here, though not badly enough,
// with the margin that keeps the weight from coming and going.
func (l *look) degraded(c *Terms, s *State) bool {
	at := c.DegradeAt
	if s.Rule == FailingSome {
		at = c.In
	}
	return l.sufficient && l.failed >= at && l.compared && l.worse >= c.Worse/2 && l.quorum
}

// callersContent reports whether callers outweigh the probers: enough of them,
// and nearly all succeed.
func (l *look) callersContent(c *Terms) bool { return l.sufficient && l.failed < c.DegradeAt }

// believed reports whether refusals to probers count. Callers who are many, and
// nearly all of whose requests succeed, would notice a closed port: the way from
// the probers is what is closed, and a failure now and then, which they have anyway,
// confirms nothing. A caller that was refused as well does, and calls no more: its
// one refusal counts until the probers come to look.
func (l *look) believed(c *Terms, s *State) bool {
	return !l.callersContent(c) || s.Outcomes.Shut != 0 && s.Outcomes.Shut >= s.Probes.Refused-window || s.hushed()
}

// hushed reports whether a failure was the last of callers by when the port was
// found to refuse, and a later look found nothing of them since: its second is
// sealed with all that went well before it.
func (s *State) hushed() bool {
	o, p := &s.Outcomes, &s.Probes
	return o.Last == o.LastBad && o.LastBad <= p.Refused+1 && p.Last >= o.LastBad+outcomeWait
}

// silentAndFailing is the way from unknown to ineligible: one class fell
// silent, and a second, independent one fails, though with less to go by than
// it would need alone.
func (l *look) silentAndFailing(c *Terms, s *State, now int64) bool {
	wasSeen := s.Probes.Last != 0 && l.probesSilent
	suspected := s.Probes.Waiting != 0 && now-s.Probes.Waiting <= int64(c.SilentAfter)
	few := l.count >= few && l.failed >= c.OutByOutcomes && (!l.compared || l.worse >= c.Worse)
	return c.Profile.Probe && (wasSeen || suspected) && !l.callersSilent && few && s.Outcomes.LastBad == s.Outcomes.Last
}

// failing reports whether probers put the instance out: most of the looks
// fail, and the probers are of one mind. Where they differ, the way from one
// of them may be what fails; both are named.
func (l *look) failing(c *Terms, s *State, now int64) bool {
	if l.probesSilent || l.bad <= c.OutByProbes {
		return false
	}
	for _, x := range s.Probes.Slots {
		if x.At != 0 && x.Result == Good && now-x.At <= 2*int64(c.ProbeInterval) {
			return false
		}
	}
	return true
}

// differ reports whether two probers' fresh looks say different things.
func (l *look) differ(c *Terms, s *State, now int64) bool {
	a, b := s.Probes.Slots[0], s.Probes.Slots[1]
	fresh := int64(2 * c.ProbeInterval)
	return now-a.At <= fresh && now-b.At <= fresh && s.Probes.differ()
}

// differ reports whether the two probers' last looks say different things.
func (p *Probes) differ() bool {
	a, b := p.Slots[0], p.Slots[1]
	return a.At != 0 && b.At != 0 && (a.Result == Good) != (b.Result == Good)
}

// few results are too little to decide alone, and enough to corroborate.
const few = 5

// lastGood reports whether the probers' fresh looks were all good.
func (l *look) lastGood(s *State) bool {
	good := false
	for _, x := range s.Probes.Slots {
		switch {
		case x.At == 0 || s.Probes.Last-x.At > 2*window:
		case x.Result != Good:
			return false
		default:
			good = true
		}
	}
	return good
}

// due is the next tick at which the verdict could change without evidence.
func (s *State) due(c *Terms, l *look, now int64) int64 {
	next := int64(math.MaxInt64)
	at := func(t int64) {
		if t > now && t < next {
			next = t
		}
	}
	silent := int64(c.SilentAfter) + 1
	for _, last := range []int64{s.Probes.Last, s.Self.At, s.Outcomes.Last, s.Outcomes.Refused, s.Probes.Waiting} {
		if last != 0 {
			at(last + silent)
		}
	}
	for _, x := range s.Probes.Slots { // a look loses its say
		if x.At != 0 && (l.bad > c.OutByProbes || s.Probes.differ()) {
			at(x.At + 2*int64(c.ProbeInterval) + 1)
		}
	}
	at(s.Born + silent)
	if !l.callersSilent && s.counting(c, l, now) { // the windows turn
		at((now/window + 1) * window)
		at((now/window + 2) * window)
	}
	if s.CleanSince != 0 && s.Verdict == Ineligible {
		at(s.CleanSince + int64(c.ReturnAfter))
	}
	at(s.Quarantine.Until)
	if s.TrialSince != 0 {
		at(s.TrialSince + trialLength)
	}
	if c.Ramp > 0 && s.Verdict != Ineligible && !s.Settled(c) {
		at(s.StepSince + c.pace())
	}
	return next
}

// counting reports whether how many results there were, and of whom, can make a
// difference to the verdict. Of nearly all instances it cannot, which is why they
// are not all judged again whenever a window ends.
func (s *State) counting(c *Terms, l *look, now int64) bool {
	at := min(c.DegradeAt, c.OutByOutcomes)
	if s.Rule == FailingSome {
		at = min(c.In, at)
	}
	return l.failed >= at || s.TrialSince != 0 || s.Probes.Refused != 0 || l.failing(c, s, now)
}
