package eligibility

import "fmt"

// Account is a verdict as a person reads it.
type Account struct {
	Verdict Verdict
	Rule    Rule
	Why     string   // the rule in a sentence, with its figures
	Classes []string // what each class says, one line each: probes, self, outcomes
	Next    string   // what would change the verdict
}

// Explain says why the state is what it is at now.
func (s *State) Explain(c *Terms, now int64) Account {
	l := s.look(c, now)
	return Account{
		Verdict: s.Verdict, Rule: s.Rule,
		Why:     s.why(c, &l, now),
		Classes: []string{s.probesSay(c, &l, now), s.selfSays(c, &l, now), s.callersSay(c, &l, now)},
		Next:    s.next(c, &l, now),
	}
}

func (s *State) why(c *Terms, l *look, now int64) string {
	switch s.Rule {
	case FailingCallers, FailingSome:
		return fmt.Sprintf("%s: %s of the results failed, %s are expected by its siblings", s.Rule.Says(), percent(l.failed), percent(l.siblings))
	case FailingProbes, Disagree:
		return fmt.Sprintf("%s: %s of the looks fail, above %s is out", s.Rule.Says(), percent(l.bad), percent(c.OutByProbes))
	case Quarantined:
		return fmt.Sprintf("%s: more than %d changes in %d minutes; held out for another %d s", s.Rule.Says(), flapsKept-1, FlapWindow/60, max(s.Quarantine.Until-now, 0))
	case Dependent:
		if i := int(s.Self.WorstName); i < len(c.Dependencies) {
			return fmt.Sprintf("it reports that %s is degraded by %s; that lowers its weight and no more", c.Dependencies[i].Name, percent(s.Self.Worst))
		}
	case RefusedToProbers, ProbersDiffer:
		return s.Rule.Says() + ": " + s.looks(c, now)
	}
	return s.Rule.Says()
}

// looks says what each prober saw last.
func (s *State) looks(c *Terms, now int64) (line string) {
	for _, x := range s.Probes.Slots {
		if x.At == 0 {
			continue
		}
		if line != "" {
			line += "; "
		}
		line += fmt.Sprintf("%s: %s %d s ago", c.name(x.Prober), x.Result, now-x.At)
	}
	return line
}

func (s *State) probesSay(c *Terms, l *look, now int64) string {
	switch {
	case !c.Profile.Probe:
		return "probes: its profile has none"
	case s.Probes.Last == 0 && s.Probes.Waiting == 0:
		return "probes: none yet"
	case s.Probes.Waiting == now || s.Probes.Waiting > s.Probes.Last:
		return "probes: fail, by a prober that sees most of its targets fail; waits for another's word"
	case l.probesSilent:
		return fmt.Sprintf("probes: silent for %d s", now-s.Probes.Last)
	}
	line := fmt.Sprintf("probes: %s of the looks fail; %s", percent(l.bad), s.looks(c, now))
	if c.Profile.Outcomes && !l.sufficient {
		line += "; single-class evidence, since callers are too few to decide"
	}
	return line
}

// name is the prober's, for people.
func (c *Terms) name(prober uint32) string {
	if c.Name != nil {
		if name := c.Name(prober); name != "" {
			return name
		}
	}
	return fmt.Sprintf("prober %d", prober)
}

// Enough reports whether the instance's callers are enough to decide by
// themselves at now: then probers only confirm.
func (s *State) Enough(c *Terms, now int64) bool {
	if !c.Profile.Outcomes {
		return false
	}
	l := s.look(c, now)
	return l.sufficient
}

func (s *State) selfSays(c *Terms, l *look, now int64) string {
	switch {
	case !c.Profile.Self:
		return "self: its profile has none"
	case s.Self.At == 0:
		return "self: nothing yet"
	case l.selfSilent:
		return fmt.Sprintf("self: silent for %d s", now-s.Self.At)
	case s.Self.Draining:
		return "self: draining"
	case !s.Self.Ready:
		return "self: not ready"
	case s.Self.Worst > 0 && int(s.Self.WorstName) < len(c.Dependencies):
		return fmt.Sprintf("self: ready; %s degraded by %s", c.Dependencies[s.Self.WorstName].Name, percent(s.Self.Worst))
	}
	return "self: ready"
}

func (s *State) callersSay(c *Terms, l *look, now int64) string {
	switch {
	case !c.Profile.Outcomes:
		return "outcomes: its profile has none"
	case s.Outcomes.Last == 0:
		return "outcomes: none yet" + s.Outcomes.chargedSays(now)
	case l.callersSilent:
		return fmt.Sprintf("outcomes: silent for %d s", now-s.Outcomes.Last) + s.Outcomes.chargedSays(now)
	}
	_, reporters, hurt := s.Outcomes.recent(now)
	line := fmt.Sprintf("outcomes: %s of about %d results failed", percent(l.failed), l.count)
	if l.compared {
		line += fmt.Sprintf(", %s expected by its siblings", percent(l.siblings))
	} else {
		line += ", with no siblings to compare"
	}
	line += fmt.Sprintf("; %d of %d reporters fare worse here", hurt.Count(), reporters.Count())
	if n := s.Outcomes.unanswered(now); n > 0 {
		line += fmt.Sprintf("; it gave no answer to %d callers, who gave up after seconds in which it sent nobody a byte and its siblings answered", n)
	}
	if l.compared && l.sufficient && l.failed >= c.OutByOutcomes && l.worse < c.Worse {
		line += "; its siblings fare no better, so nothing is held against it: look at what all of them share, or its callers do"
	}
	if !l.sufficient {
		line += fmt.Sprintf("; too few to decide (%d needed)", c.Sufficient)
	}
	return line + s.Outcomes.chargedSays(now)
}

// chargedSays whose results were left out a moment ago, if anybody's were.
func (o *Called) chargedSays(now int64) string {
	x := o.Charged
	if x == nil || now-x.At > window {
		return ""
	}
	return fmt.Sprintf("; callers of %s fail everywhere, others do not: charged to them, %d of %d results failed in their last second here", x.Name(), x.Failed, x.Results)
}

// Name is who they are, for people.
func (x Charged) Name() string {
	if x.Revision {
		return "revision " + x.Caller
	}
	return "zone " + x.Caller
}

func (s *State) next(c *Terms, l *look, now int64) string {
	switch {
	case s.Rule == Gone:
		return "nothing: a new process is a new instance"
	case s.Rule == LeaseEnded:
		return "a renewal of its lease"
	case s.Rule == HeldOut:
		return "the end of the hold"
	case s.Rule == Starting:
		return "a first good look; its profile: " + c.Profile.String()
	case s.Verdict == Ineligible && s.CleanSince == 0:
		return fmt.Sprintf("%d s in which nothing speaks against it", c.ReturnAfter)
	case s.Verdict == Ineligible:
		return fmt.Sprintf("another %d s in which nothing speaks against it", max(s.CleanSince+int64(c.ReturnAfter), s.Quarantine.Until)-now)
	case s.Rule == Trial:
		return fmt.Sprintf("%d results below %s failing, or %d s without", trialResults, percent(c.In), trialLength)
	case s.Verdict == Unknown:
		return "any sample of any class"
	case !s.Settled(c):
		return fmt.Sprintf("time: it has %s of its weight, step %d of %d", percent(s.Ramped(c)), s.Step+1, len(c.steps))
	}
	return fmt.Sprintf("out above %s of the looks failing, or %s of its callers' results, %s more than at its siblings",
		percent(c.OutByProbes), percent(c.OutByOutcomes), percent(c.Worse))
}

// String names the signals of a profile.
func (p Profile) String() string {
	line := ""
	for _, x := range []struct {
		has  bool
		name string
	}{{p.Probe, "probes"}, {p.Self, "self-report"}, {p.Outcomes, "outcomes"}} {
		if x.has {
			if line != "" {
				line += ", "
			}
			line += x.name
		}
	}
	if line == "" {
		return "none"
	}
	return line
}

// percent shows thousandths.
func percent(p Permille) string {
	if p%10 == 0 {
		return fmt.Sprintf("%d%%", p/10)
	}
	return fmt.Sprintf("%d.%d%%", p/10, p%10)
}
