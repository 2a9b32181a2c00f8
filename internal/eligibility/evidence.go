package eligibility

import "math/bits"

// Result is what a prober saw.
type Result uint8

// A probe that was not run is no result at all: it is silence.
const (
	Good Result = iota
	Failed
	TimedOut
	Refused // nothing listens, or the listener is not the instance
)

var results = [...]string{"good", "failed", "timed out", "refused"}

func (r Result) String() string { return results[min(int(r), len(results)-1)] }

// Probe is one prober's look at one instance, or a clean run of looks.
type Probe struct {
	Prober uint32 // its handle in the registry
	Result Result
	Count  uint16 // looks; more than one only where all were good
	// Suspect is set where its prober sees most of its targets fail: what it
	// says against an instance waits for another class or prober.
	Suspect bool
}

// Self is what a workload says about itself. It can only lower a verdict.
type Self struct {
	Ready    bool
	Draining bool
	// Dependencies in the order of the contract's, each by how far it is
	// degraded, 0 to 1000.
	Dependencies []Permille
}

// Outcomes are what callers saw of one instance in Span seconds. Each
// reporter's results are capped before they are added, so volume buys no
// weight.
type Outcomes struct {
	Span   uint8 // seconds that the row covers, at most 10; above one only without failures
	OK     uint32
	Failed uint32
	// Unanswered of the failed: their callers gave up, while the instance sent
	// nobody a byte and its siblings answered. It is told to people; what decides is
	// that they failed.
	Unanswered uint32
	// Compared of the results came from reporters that also called siblings;
	// Expected, in thousandths, are the failures that the same reporters
	// would have had if this instance were as its siblings are. A reporter
	// that fails everywhere expects all of its failures, and so charges
	// himself; a fault that all share is expected of all.
	Compared uint32
	Expected uint64
	Reporters,
	// Hurt are the reporters that fared clearly worse here than elsewhere, or
	// failed here and called no sibling.
	Hurt,
	// Refusing are the reporters whose connection was refused.
	Refusing Sketch
}

// Charged is what is left out of [Outcomes]: callers of one zone, or of one
// revision, fail wherever they call, and others do well at the same instances,
// so that it says nothing about this one.
type Charged struct {
	Revision        bool   // Caller is one; else it is a zone
	Caller          string // or several, by commas
	Results, Failed uint32
}

// Sketch is a set of reporters, each by one bit of 64: it tells none from one
// from several, and gives an estimate beyond.
type Sketch uint64

// With adds a reporter by a hash of its identity.
func (s Sketch) With(hash uint64) Sketch { return s | 1<<(hash%64) }

// Count is how many are in it, by the bits set: exact for few, low for many.
func (s Sketch) Count() int { return bits.OnesCount64(uint64(s)) }

// Evidence is all that one sealed tick holds about one instance.
type Evidence struct {
	Probes []Probe
	Self   *Self
	// Outcomes of the second, after those of the clean running before it where
	// that was held back.
	Outcomes []Outcomes
	// Charged is what callers saw that counts for nothing; nil is nothing.
	Charged *Charged
}

// Facts are what the registry knows of an instance; they are no evidence.
type Facts struct {
	Terminating bool // asked to stop: it leaves by plan, whatever its health
	Gone        bool // its authority says that the process ended
	LeaseEnded  bool // nobody renewed it, and no authority knows it
	HeldOut     bool // a person holds it out
}
