package eligibility

import "testing"

// rampOf folds looks every five seconds and returns the share of its weight
// that the ramp leaves the instance after each second.
func rampOf(c Contract, seconds int64, result func(now int64) Result, calls func(now int64) Outcomes) (shares []Permille, s State) {
	terms := Prepare(c)
	s.Born = 1
	for now := int64(1); now <= seconds; now++ {
		e := Evidence{}
		if now%5 == 1 {
			e.Probes = []Probe{{Prober: 1, Result: result(now), Count: 1}, {Prober: 2, Result: result(now), Count: 1}}
			e.Self = &Self{Ready: true}
		}
		if o := calls(now); o.OK+o.Failed > 0 {
			e.Outcomes = []Outcomes{o}
		}
		s.Fold(terms, e, Facts{}, now)
		shares = append(shares, s.Ramped(terms))
	}
	return shares, s
}

func always(int64) Result { return Good }

func nobodyCalls(int64) Outcomes { return Outcomes{} }

func TestANewInstanceRampsInStepsOverItsMinute(t *testing.T) {
	shares, s := rampOf(Default(), 62, always, nobodyCalls)
	for at, want := range map[int64]Permille{2: 100, 17: 250, 32: 500, 47: 750, 62: 1000} {
		if got := shares[at-1]; got != want {
			t.Errorf("after %d s it has %s of its weight, want %s", at, percent(got), percent(want))
		}
	}
	if !s.Settled(Prepare(Default())) {
		t.Error("it is not past its ramp")
	}
}

func TestARecoveredInstanceRampsAnew(t *testing.T) {
	shares, _ := rampOf(Default(), 240, func(now int64) Result {
		if now > 100 && now <= 105 {
			return Refused
		}
		return Good
	}, nobodyCalls)
	back := int64(0)
	for now := int64(106); now <= 240; now++ {
		if shares[now-1] == 100 {
			back = now
		}
	}
	if shares[99] != 1000 || back == 0 || shares[239] != 1000 {
		t.Errorf("before %s, the first step until %d, in the end %s", percent(shares[99]), back, percent(shares[239]))
	}
}

func TestAServiceWithoutARampHasItsWholeWeightAtOnce(t *testing.T) {
	c := Default()
	c.Ramp = 0
	if shares, _ := rampOf(c, 3, always, nobodyCalls); shares[1] != 1000 {
		t.Errorf("it has %s of its weight", percent(shares[1]))
	}
}

func TestOneRequestAMinuteDoesNotStarveARamp(t *testing.T) {
	for name, o := range map[string]Outcomes{"that succeeds": {Span: 1, OK: 1, Reporters: 1}, "that fails": {Span: 1, Failed: 1, Reporters: 1, Hurt: 1}} {
		shares, _ := rampOf(Default(), 70, always, func(now int64) Outcomes {
			if now%60 == 30 {
				return o
			}
			return Outcomes{}
		})
		if shares[69] != 1000 {
			t.Errorf("one request a minute %s: it has %s of its weight", name, percent(shares[69]))
		}
	}
}

func TestMoreStepsSendNobodyBackWhoIsPastTheRamp(t *testing.T) {
	_, s := rampOf(Default(), 70, always, nobodyCalls)
	c := Default()
	c.Steps = []Permille{10, 20, 30, 40, 50, 60, 70, 80, 90, 1000}
	if terms := Prepare(c); !s.Settled(terms) || s.Ramped(terms) != 1000 {
		t.Errorf("it has %s of its weight", percent(s.Ramped(terms)))
	}
}

func TestQuarantineDoublesFromOneMinuteToThirtyAndFallsBackAfterAQuietHour(t *testing.T) {
	s, now := State{}, int64(10_000)
	for i, want := range []int64{60, 120, 240, 480, 960, 1800, 1800} {
		s.quarantine(now)
		if got := s.Quarantine.Until - now; got != want {
			t.Errorf("quarantine %d lasts %d s, want %d", i+1, got, want)
		}
		now = s.Quarantine.Until + 100
	}
	now = s.Quarantine.Until + 3600
	if s.quarantine(now); s.Quarantine.Until-now != 60 {
		t.Errorf("after a quiet hour it lasts %d s", s.Quarantine.Until-now)
	}
}

func TestAnUnknownInstanceWhoseLeaseEndedAndWhomNoAuthorityKnowsIsOut(t *testing.T) {
	terms := Prepare(Default())
	_, s := rampOf(Default(), 60, always, nobodyCalls)
	for now := int64(61); now <= 120; now++ {
		s.Fold(terms, Evidence{}, Facts{}, now)
	}
	if s.Verdict != Unknown || s.Rule != Unseen {
		t.Fatalf("silent for a minute it is %s by %s", s.Verdict, s.Rule)
	}
	if ch, _, _ := s.Fold(terms, Evidence{}, Facts{LeaseEnded: true}, 121); ch.To != Ineligible || ch.Rule != LeaseEnded {
		t.Errorf("its lease ended, and it is %s by %s", ch.To, ch.Rule)
	}
}
