package discovery

import (
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/may"
)

// Outcome is what a caller saw of one instance in one second.
type Outcome struct {
	Instance                        string
	OK, Failed, Refused, Unanswered uint32 // Failed includes Refused and Unanswered
}

// badShare is from which share of a second's results they speak against an
// instance, as its inverse: well above what a fleet in good health fails by itself.
const badShare = 7

// Reporter is one stream of one caller, by the caller's identity. It is used by
// one goroutine at a time.
type Reporter struct {
	p      *Plane
	r      *evidence.Reporter
	caller may.Caller
	from   evidence.Caller
}

// Reporter makes the state of a stream, by the caller's identity: ROLE/NAME. The
// instances of a service on one host share one, and are one reporter:
// service/NAME@HOST.
func (p *Plane) Reporter(identity string) *Reporter {
	role, name, _ := strings.Cut(identity, "/")
	name, _, _ = strings.Cut(name, "@")
	return &Reporter{p: p, r: evidence.NewReporter(identity), caller: may.Caller{Role: role, Name: name}}
}

// From says where the caller's calls come from, from its next second on.
func (r *Reporter) From(c evidence.Caller) { r.from = c }

// Weighed notes in how many bytes a second came in, and how many the calls took
// that it tells of.
func (r *Reporter) Weighed(report, calls uint64) {
	if t := r.p.current(); t != nil {
		t.ingest.Weighed(outcomeBytes, report)
		t.ingest.Weighed(callBytes, calls)
	}
}

// Take takes a second in. What is said of services whose policies do not allow
// the caller is discarded, and counted. False says that this control observes
// nothing now.
func (r *Reporter) Take(number uint64, seen []Outcome) bool {
	t := r.p.current()
	if t == nil {
		return false
	}
	b := evidence.Batch{Number: number, Caller: r.from, Rows: make([]evidence.Row, 0, len(seen))}
	forbidden := 0
	t.mu.Lock()
	for _, o := range seen {
		x, _ := t.reg.Get(o.Instance) // of one that is not known the handle is 0, which is nobody's
		if allowed := t.eval.Callers(x.Service); len(allowed) > 0 && may.Check(r.caller, x.Service, allowed) != nil {
			forbidden++
			continue
		}
		if failed := uint64(o.Failed); failed > 0 && failed*badShare >= uint64(o.OK)+failed {
			t.detection.sample(x.Handle, time.Now())
		}
		b.Rows = append(b.Rows, evidence.Row{Instance: x.Handle, OK: o.OK, Failed: o.Failed, Refused: o.Refused, Unanswered: o.Unanswered})
	}
	t.mu.Unlock()
	t.ingest.Discard(evidence.NotAllowed, forbidden)
	t.ingest.Outcomes(r.r, b)
	if slices.ContainsFunc(seen, func(o Outcome) bool { return o.Refused > 0 }) {
		t.hurry()
	}
	return true
}

// MergedOutcome is what all reporters of a relay saw of one instance in one
// second, by [evidence.Merger].
type MergedOutcome struct {
	Instance                  string
	OK, Failed, Compared      uint32
	Expected                  uint64
	Reporters, Hurt, Refusing uint64 // a bit of 64 for each reporter
	evidence.Apart
}

// MergedSecond is a relay's second.
type MergedSecond struct {
	Number  uint64
	Reports uint32 // how many were merged into it
	Callers []string
	Groups  []evidence.Group
	Seen    []MergedOutcome
}

// Relay is one stream of one relay. It is used by one goroutine at a time.
type Relay struct {
	p *Plane
	r evidence.Relay
}

// Relay makes the state of a stream.
func (p *Plane) Relay() *Relay { return &Relay{p: p} }

// Weighed notes in how many bytes a second came in from those who report to the
// relay, and how many the calls took that it tells of.
func (r *Relay) Weighed(report, calls uint64) {
	if t := r.p.current(); t != nil {
		t.ingest.Weighed(outcomeBytes, report)
		t.ingest.Weighed(callBytes, calls)
	}
}

// Take takes a second in. False says that this control observes nothing now.
func (r *Relay) Take(m MergedSecond) bool {
	t := r.p.current()
	if t == nil {
		return false
	}
	rows := make([]evidence.MergedRow, len(m.Seen))
	t.mu.Lock()
	for i, o := range m.Seen {
		x, _ := t.reg.Get(o.Instance) // of one that is not known the handle is 0, which is nobody's
		rows[i] = evidence.MergedRow{Instance: x.Handle, Outcomes: eligibility.Outcomes{
			OK: o.OK, Failed: o.Failed, Compared: o.Compared, Expected: o.Expected,
			Reporters: eligibility.Sketch(o.Reporters), Hurt: eligibility.Sketch(o.Hurt), Refusing: eligibility.Sketch(o.Refusing),
		}, Apart: o.Apart}
	}
	t.mu.Unlock()
	t.ingest.Merged(&r.r, evidence.MergedBatch{Number: m.Number, Reports: m.Reports, Callers: m.Callers, Groups: m.Groups, Rows: rows})
	if slices.ContainsFunc(m.Seen, func(o MergedOutcome) bool { return o.Refusing != 0 }) {
		t.hurry()
	}
	return true
}
