// Package budget holds what is promised of propagation, and how it is kept.
// Trouble and the rest have a budget each: what takes traffic from trouble goes
// at once and reaches nearly everyone in seconds; the rest may wait, and waits
// longer when there is more than can be sent. A [Ledger] measures both by what
// callers acknowledge; a [Pace] decides how long the rest waits, and [Rest]
// knows what waits. It has no clock: whoever drives it says what time it is.
// Read [Ledger] first.
package budget

import (
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Kind of change, as its propagation is measured.
type Kind int

const (
	Withdrawal Kind = iota // traffic is taken from trouble
	Removal                // endpoints leave by plan
	Addition               // all else
	kinds
)

// Kinds are all there are.
func Kinds() []Kind { return []Kind{Withdrawal, Removal, Addition} }

func (k Kind) String() string { return [...]string{"withdrawal", "removal", "addition"}[k] }

// of says whether a version of this nature counts for the kind.
func (k Kind) of(n view.Nature) bool {
	switch k {
	case Withdrawal:
		return n&view.Withdraws != 0
	case Removal:
		return n&view.Removes != 0
	}
	return n&view.Adds != 0 || n == 0
}

// Promise says how many of those who route by a view have acknowledged a change
// of a kind after so long.
type Promise struct {
	Kind   Kind
	Share  float64
	Within time.Duration
}

// Promises are what the platform promises of every service. A planned removal
// is promised nothing: a stop waits for it.
func Promises() []Promise { return promises[:] }

var promises = [...]Promise{
	{Withdrawal, 0.99, 5 * time.Second},
	{Withdrawal, 0.999, 15 * time.Second},
	{Addition, 0.99, 30 * time.Second},
}

// Number orders the versions of one incarnation.
type Number struct{ Epoch, Counter uint64 }

// NumberOf is a version's.
func NumberOf(v view.Version) Number { return Number{v.Epoch, v.Counter} }

// Before says that n is lower than m.
func (n Number) Before(m Number) bool {
	return n.Epoch < m.Epoch || n.Epoch == m.Epoch && n.Counter < m.Counter
}
