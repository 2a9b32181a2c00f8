package evaluate

import (
	"cmp"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
)

// Rebuild enters instances from the registry, each with the state of its last
// recorded transition, and folds the ticks that were sealed after it. With all
// ticks kept the verdicts are those of before; where a tail of them was lost,
// the recorded verdicts stand until fresh evidence moves them.
func Rebuild(e *Evaluator, rows []registry.Instance, recorded map[uint32]*eligibility.State, ticks []evidence.Tick) {
	slices.SortFunc(ticks, func(a, b evidence.Tick) int { return cmp.Compare(a.Number, b.Number) })
	for _, row := range rows {
		e.Enter(row, recorded[row.Handle])
	}
	for _, t := range ticks {
		e.Fold(t)
	}
}
