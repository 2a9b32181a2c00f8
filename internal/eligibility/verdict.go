package eligibility

import "fmt"

// Verdict is what is believed of an instance.
type Verdict uint8

// Unknown is the zero value: nobody sees the instance, which says nothing
// about it. It stays in rotation if it was ever ready.
const (
	Unknown Verdict = iota
	Eligible
	Degraded // in rotation, with less weight
	Ineligible
)

var verdicts = [...]string{"unknown", "eligible", "degraded", "ineligible"}

func (v Verdict) String() string { return verdicts[min(int(v), len(verdicts)-1)] }

// MarshalText writes the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's name.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i, name := range verdicts {
		if name == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no verdict", text)
}

// Rule is the rule that decided a verdict. Its name is part of history and of
// every explanation, so a name once given is kept.
type Rule uint8

const (
	Starting Rule = iota
	Serving
	Disagree
	ProbersDiffer
	Unseen
	FailingSome
	Dependent
	Trial
	Gone
	LeaseEnded
	HeldOut
	RefusedToProbers
	RefusedToCallers
	SaysDraining
	SaysUnready
	DependencyDown
	FailingCallers
	FailingProbes
	SilentAndFailing
	SilenceForbidden
	Quarantined
)

// rules describes each: what it is called, what it says, and whether a change
// by it is a change by evidence, which counts towards a quarantine.
var rules = [...]struct {
	name, says string
	evidence   bool
}{
	Starting:         {"starting", "it was not seen to be ready yet", false},
	Serving:          {"serving", "nothing speaks against it", true},
	Disagree:         {"classes-disagree", "probes fail, but enough of its callers' requests succeed: callers are believed", true},
	ProbersDiffer:    {"probers-differ", "one prober's looks fail, another's do not: the way from the first may be what fails", true},
	Unseen:           {"unseen", "every class of evidence is silent, which says nothing about the instance", true},
	FailingSome:      {"failing-some", "its callers fail more often here than at its siblings", true},
	Dependent:        {"dependency", "it reports that a dependency is degraded", true},
	Trial:            {"trial", "it is tried with little traffic, since out of rotation nobody calls it", true},
	Gone:             {"gone", "its authority says that the process ended", false},
	LeaseEnded:       {"lease-ended", "its lease ended, and no authority knows it", false},
	HeldOut:          {"held-out", "a person holds it out", false},
	RefusedToProbers: {"refused-to-probers", "its port refused the probers' connections", true},
	RefusedToCallers: {"refused-to-callers", "its port refused several callers' connections", true},
	SaysDraining:     {"says-draining", "it says that it is draining", true},
	SaysUnready:      {"says-unready", "it says that it is not ready", true},
	DependencyDown:   {"dependency-down", "a dependency of its own, which none of its siblings share, is down", true},
	FailingCallers:   {"failing-callers", "its callers fail here, and not at its siblings", true},
	FailingProbes:    {"failing-probes", "most of the probers' looks fail", true},
	SilentAndFailing: {"silent-and-failing", "one class fell silent, and another, with little to go by, fails", true},
	SilenceForbidden: {"silence-forbidden", "every class is silent, and its contract takes that for failure", true},
	Quarantined:      {"quarantined", "it came and went too often", true},
}

func (r Rule) String() string { return rules[min(int(r), len(rules)-1)].name }

// MarshalText writes the rule's name, so that what is recorded does not depend
// on how many rules there were.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a rule's name.
func (r *Rule) UnmarshalText(text []byte) error {
	for i := range rules {
		if rules[i].name == string(text) {
			*r = Rule(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no rule", text)
}

// Says is the rule in a sentence.
func (r Rule) Says() string { return rules[min(int(r), len(rules)-1)].says }

// byItself reports whether the rule rests on the instance's own word.
func (r Rule) byItself() bool {
	return r == SaysDraining || r == SaysUnready || r == DependencyDown
}

// Hard reports whether the rule rests on evidence that no damping waits for.
func (r Rule) Hard() bool { return r == RefusedToProbers || r == RefusedToCallers }

// ByEvidence reports whether the rule rests on evidence, rather than on a fact
// of the registry or a person's word.
func (r Rule) ByEvidence() bool { return rules[min(int(r), len(rules)-1)].evidence }
