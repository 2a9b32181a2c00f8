package discovery

import (
	"cmp"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Quarantine is one stay out of rotation that an instance earned.
type Quarantine struct {
	Record // the change that began it
	// Seconds that it was to last.
	Seconds int64
	// EarnedBy are the changes that were one too many, the oldest first; the
	// last is the one that began it.
	EarnedBy []Record
}

// Quarantines finds, among a service's transitions, who was quarantined and
// what earned it; the newest first.
func Quarantines(all []Record) (out []Quarantine) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Record) int { return cmp.Compare(a.Tick, b.Tick) })
	moves := map[string][]Record{} // :: instance → its moves in and out by evidence since the last quarantine
	for _, r := range all {
		switch {
		case r.Quarantined:
			earned := append(moves[r.Instance], r)
			earned = slices.DeleteFunc(earned, func(x Record) bool { return r.Tick-x.Tick >= eligibility.FlapWindow })
			out = append(out, Quarantine{Record: r, Seconds: r.State.Quarantine.Until - r.Tick, EarnedBy: earned})
			delete(moves, r.Instance) // the count starts anew
		case r.flap():
			moves[r.Instance] = append(moves[r.Instance], r)
		}
	}
	slices.Reverse(out)
	return out
}

// flap reports whether the transition is a move in or out by evidence.
func (r Record) flap() bool {
	out := (r.From == eligibility.Ineligible) != (r.To == eligibility.Ineligible)
	return out && r.FromRule != eligibility.Starting && r.FromRule.ByEvidence() && r.Rule.ByEvidence()
}
