package eligibility

// State is all that is remembered of one instance between ticks. Its zero
// value with Born set is an instance that was just entered. It is plain data:
// the record of a transition carries it, and a rebuild starts from it.
type State struct {
	Born   int64 // the tick at which it was entered
	Judged int64 // the last tick that was folded

	Verdict Verdict
	Rule    Rule
	Weight  Permille // by evidence, before the ramp
	Ready   bool     // it was in rotation at least once: a registry fact, kept for ever
	Step    uint8    // of the ramp
	Since   int64    // the tick of the last change of verdict or rule

	Probes   Probes
	Self     SelfState
	Outcomes Called

	CleanSince int64 // out of rotation: from when nothing speaks against it; 0 is never
	TrialSince int64 // when its trial began; 0 is none
	StepSince  int64 // of the ramp

	Flaps      [flapsKept]int64 // ticks of the last changes by evidence, the oldest first
	Quarantine Quarantine
}

// Probes is what probers saw.
type Probes struct {
	Looks, Bad sum // decayed to At
	At         int64
	Last       int64 // tick of the last sample that counts
	Slots      [2]Slot
	Refused    int64 // tick since which the port counts as closed; 0 is not
	Waiting    int64 // tick of the last word against it by a suspect prober
}

// Slot is one of the two probers that look at an instance.
type Slot struct {
	Prober   uint32
	Result   Result
	At       int64 // 0 is nobody
	Refusals uint8 // in a row
}

// SelfState is what the workload said last.
type SelfState struct {
	Ready, Draining bool
	Worst           Permille // of the dependencies with authority over the weight
	WorstName       uint8    // which, in the contract's order
	Down            bool     // a dependency with authority over readiness is down
	At              int64    // 0 is never
}

// Called is what callers saw.
type Called struct {
	Results, Bad sum // decayed to At
	Compared     sum
	Expected     sum
	At           int64
	Last         int64 // tick of the last row
	LastBad      int64 // tick of the last row with failures
	Refused      int64 // tick since which several callers are refused; 0 is not
	Shut         int64 // tick of the last row in which a caller was refused

	// Two windows of ten seconds, the current and the one before.
	Window                    int64
	Count, Unanswered         [2]uint32
	Reporters, Hurt, Refusing [2]Sketch

	Charged *LastCharged `json:",omitempty"` // it is never changed; nil is never
}

// LastCharged is what was left out last, and at which tick.
type LastCharged struct {
	Charged
	At int64
}

const window = 10 // seconds

// see folds one tick's evidence into what is remembered. Nothing is decided
// here. A class that the profile does not name is not seen: that it came is a
// finding of the ingest's.
func (s *State) see(c *Terms, e Evidence, now int64) {
	for _, p := range e.Probes {
		if c.Profile.Probe {
			s.Probes.see(c, p, now)
		}
	}
	if e.Self != nil && c.Profile.Self {
		s.Self.see(c, *e.Self, now)
	}
	for _, o := range e.Outcomes {
		if c.Profile.Outcomes {
			s.Outcomes.see(c, o, now)
		}
	}
	if e.Charged != nil && c.Profile.Outcomes {
		s.Outcomes.Charged = &LastCharged{*e.Charged, now}
	}
}

func (p *Probes) see(c *Terms, x Probe, now int64) {
	slot := p.slot(x.Prober, now, c)
	slot.At, slot.Result = now, x.Result
	if x.Result == Refused {
		slot.Refusals++
	} else {
		slot.Refusals = 0
	}
	if x.Result != Good && x.Suspect {
		p.Waiting = now
		return
	}
	p.Looks, p.Bad = c.decay.after(p.Looks, now-p.At), c.decay.after(p.Bad, now-p.At)
	p.At, p.Last = now, now
	n := sum(min(max(x.Count, 1), window)) * one
	p.Looks += n
	if x.Result != Good {
		p.Bad += n
	}
	if x.Result != Refused {
		p.Refused = 0
	} else if p.Refused == 0 && p.closed(c, now) {
		p.Refused = now
	}
}

// slot is where the prober's last look is kept: its own, or the older one.
func (p *Probes) slot(prober uint32, now int64, c *Terms) *Slot {
	for i := range p.Slots {
		if p.Slots[i].At != 0 && p.Slots[i].Prober == prober {
			return &p.Slots[i]
		}
	}
	old := &p.Slots[0]
	if p.Slots[1].At < old.At {
		old = &p.Slots[1]
	}
	*old = Slot{Prober: prober}
	return old
}

// closed reports whether the port refuses: both probers were refused at their
// last look, or the only one there is was refused twice.
func (p *Probes) closed(c *Terms, now int64) bool {
	looking, refused, twice := 0, 0, false
	for _, s := range p.Slots {
		if s.At == 0 || now-s.At > 3*int64(c.ProbeInterval) {
			continue
		}
		looking++
		if s.Result == Refused {
			refused++
			twice = twice || s.Refusals >= 2
		}
	}
	return refused == 2 || looking == 1 && twice
}

func (s *SelfState) see(c *Terms, x Self, now int64) {
	*s = SelfState{Ready: x.Ready, Draining: x.Draining, At: now}
	for i, d := range c.Dependencies {
		if i >= len(x.Dependencies) {
			break
		}
		worse := min(x.Dependencies[i], 1000)
		switch d.Authority {
		case Unready:
			s.Down = s.Down || worse >= 1000
		case Weight, "":
			if worse > s.Worst {
				s.Worst, s.WorstName = worse, uint8(i)
			}
		}
	}
}

func (o *Called) see(c *Terms, x Outcomes, now int64) {
	x = x.bounded()
	past := now - o.At
	for _, d := range []*sum{&o.Results, &o.Bad, &o.Compared, &o.Expected} {
		*d = c.decay.after(*d, past)
	}
	o.At, o.Last = now, now
	span := int(min(max(x.Span, 1), window))
	o.Results += c.decay.spread(sum(x.OK+x.Failed)*one, span)
	o.Bad += c.decay.spread(sum(x.Failed)*one, span)
	o.Compared += c.decay.spread(sum(x.Compared)*one, span)
	o.Expected += c.decay.spread(sum(x.Expected)*one/1000, span)
	o.turn(now)
	o.Count[0] += x.OK + x.Failed
	o.Unanswered[0] += min(x.Unanswered, x.Failed)
	o.Reporters[0] |= x.Reporters
	o.Hurt[0] |= x.Hurt
	o.Refusing[0] |= x.Refusing
	if x.Failed > 0 {
		o.LastBad = now
	}
	if x.Refusing != 0 {
		o.Shut = now
	}
	switch {
	case x.OK > 0:
		o.Refused = 0
		o.Refusing = [2]Sketch{}
	case o.Refused == 0 && several(o.Refusing[0]|o.Refusing[1], x.Reporters):
		o.Refused = now
	}
}

// bounded is the row with counts that no honest second exceeds, so that their
// sums cannot overflow.
func (x Outcomes) bounded() Outcomes {
	const most = 1 << 24
	x.OK, x.Failed = min(x.OK, most), min(x.Failed, most)
	x.Compared = min(x.Compared, x.OK+x.Failed)
	x.Expected = min(x.Expected, uint64(x.Compared)*1000)
	return x
}

// turn moves on to the window of now.
func (o *Called) turn(now int64) {
	switch at := now / window; {
	case at == o.Window:
		return
	case at == o.Window+1:
		o.Count[1], o.Unanswered[1], o.Reporters[1], o.Hurt[1], o.Refusing[1] = o.Count[0], o.Unanswered[0], o.Reporters[0], o.Hurt[0], o.Refusing[0]
	default:
		o.Count[1], o.Unanswered[1], o.Reporters[1], o.Hurt[1], o.Refusing[1] = 0, 0, 0, 0, 0
	}
	o.Window = now / window
	o.Count[0], o.Unanswered[0], o.Reporters[0], o.Hurt[0], o.Refusing[0] = 0, 0, 0, 0, 0
}

// recent is what the current window and the one before hold at now, without
// moving on.
func (o *Called) recent(now int64) (count uint32, reporters, hurt Sketch) {
	switch now/window - o.Window {
	case 0:
		return o.Count[0] + o.Count[1], o.Reporters[0] | o.Reporters[1], o.Hurt[0] | o.Hurt[1]
	case 1:
		return o.Count[0], o.Reporters[0], o.Hurt[0]
	}
	return 0, 0, 0
}

// unanswered is how many of those that recent counts went unanswered.
func (o *Called) unanswered(now int64) uint32 {
	switch now/window - o.Window {
	case 0:
		return o.Unanswered[0] + o.Unanswered[1]
	case 1:
		return o.Unanswered[0]
	}
	return 0
}

// several reports whether enough of the reporters say so: two at least, and a
// quarter of them.
func several(some, all Sketch) bool {
	n := some.Count()
	return n >= 2 && 4*n >= all.Count()
}

// forget drops what callers saw: a trial judges by what it sees itself.
func (o *Called) forget(now int64) { *o = Called{At: now, Window: now / window} }
