package discovery

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/evidence"
)

// Outcome is what a caller saw of one instance in one second.
type Outcome struct {
	Instance            string
	OK, Failed, Refused uint32 // Failed includes Refused
}

// badShare is from which share of a second's results they speak against an
// instance, as its inverse: well above what a fleet in good health fails by itself.
const badShare = 7

// Reporter is one stream of one caller, by the caller's identity. It is used by
// one goroutine at a time.
type Reporter struct {
	p *Plane
	r *evidence.Reporter
}

// Reporter makes the state of a stream.
func (p *Plane) Reporter(identity string) *Reporter {
	return &Reporter{p, evidence.NewReporter(identity)}
}

// Weighed notes in how many bytes a second came in, and how many the calls took
// that it tells of.
func (r *Reporter) Weighed(report, calls uint64) {
	if t := r.p.current(); t != nil {
		t.ingest.Weighed(outcomeBytes, report)
		t.ingest.Weighed(callBytes, calls)
	}
}

// Take takes a second in. False says that this control observes nothing now.
func (r *Reporter) Take(number uint64, seen []Outcome) bool {
	t := r.p.current()
	if t == nil {
		return false
	}
	b := evidence.Batch{Number: number, Rows: make([]evidence.Row, len(seen))}
	t.mu.Lock()
	for i, o := range seen {
		x, _ := t.reg.Get(o.Instance) // of one that is not known the handle is 0, which is nobody's
		if failed := uint64(o.Failed); failed > 0 && failed*badShare >= uint64(o.OK)+failed {
			t.detection.sample(x.Handle, time.Now())
		}
		b.Rows[i] = evidence.Row{Instance: x.Handle, OK: o.OK, Failed: o.Failed, Refused: o.Refused}
	}
	t.mu.Unlock()
	t.ingest.Outcomes(r.r, b)
	if slices.ContainsFunc(seen, func(o Outcome) bool { return o.Refused > 0 }) {
		t.hurry()
	}
	return true
}
