package evidence

import "maps"

// Reason is why evidence was discarded.
type Reason string

// The closed set of reasons; each is a label of a metric.
const (
	UnknownInstance Reason = "unknown-instance" // no such handle: gone, or never was
	NotAssigned     Reason = "not-assigned"     // a prober about a target that is not its own
	NotItself       Reason = "not-itself"       // a workload about another than itself
	OutOfRange      Reason = "out-of-range"     // a count or a value that cannot be honest
	Repeated        Reason = "repeated"         // a batch that was taken already
	TooLarge        Reason = "too-large"        // more rows than a batch may have
	TooOld          Reason = "too-old"          // a look that says how something was, not how it is
	TooMany         Reason = "too-many"         // more of one witness about one instance in a second than it can have seen
	NotAllowed      Reason = "not-allowed"      // an outcome by whom the service's policy does not allow
	Misnamed        Reason = "misnamed-caller"  // a zone or a revision of a caller that cannot be one: what he saw counts, as of no zone or revision
	Undeclared      Reason = "undeclared"       // a class that the service's profile does not name
)

// Discarded says how much was discarded, by reason.
func (in *Ingest) Discarded() map[Reason]uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.discarded)
}

// Discard counts what never came as far as a batch.
func (in *Ingest) Discard(why Reason, n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.discarded[why] += uint64(max(n, 0))
}

// Bytes says how many bytes of each class came in, as [Ingest.Weighed] was told.
func (in *Ingest) Bytes() map[string]uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.bytes)
}

// Weighed notes what a class cost on the wire.
func (in *Ingest) Weighed(class string, bytes uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.bytes[class] += bytes
}
