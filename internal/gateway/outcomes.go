package gateway

import (
	"errors"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/lease"
)

// seen counts what became of the requests to one instance since it was taken
// last, and the bytes of what was asked and answered.
type seen struct {
	ok, failed, refused, unanswered atomic.Uint32
	bytes                           atomic.Uint64
}

// count notes how an exchange ended. What the caller ended says nothing of the
// instance, unless that hangs, and neither does what this machine has too little of.
func (a *attempt) count(err error) {
	s := &a.m.seen
	if a.c != nil {
		s.bytes.Add(uint64(a.c.written.Load() + a.c.received.Load()))
	}
	switch {
	case a.x.end.came():
		if a.unanswered(time.Now()) {
			a.x.g.metrics.unanswered.Inc()
			s.unanswered.Add(1)
			s.failed.Add(1)
		}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL):
	case err == nil && a.head.status < http.StatusInternalServerError:
		s.ok.Add(1)
	case a.c == nil && errors.Is(err, syscall.ECONNREFUSED):
		s.refused.Add(1)
		s.failed.Add(1)
	default:
		s.failed.Add(1)
	}
}

// take gives what was counted, and begins again; nil where nothing was.
func (s *seen) take(id string) *pb.OutcomeRow {
	// Refusals and their like first: whoever counts between the two adds to the
	// failures.
	r := &pb.OutcomeRow{Instance: id, Refused: s.refused.Swap(0), Unanswered: s.unanswered.Swap(0), Ok: s.ok.Swap(0), Failed: s.failed.Swap(0)}
	if r.Ok == 0 && r.Failed == 0 {
		return nil
	}
	r.Refused, r.Unanswered, r.Bytes = min(r.Refused, r.Failed), min(r.Unanswered, r.Failed), s.bytes.Swap(0)
	return r
}

// outcomes of every instance since they were taken last. By what became of
// them, those are set aside that fail while no plane is heard that could say so.
func (rm *room) outcomes(alone bool, now time.Duration) ([]*pb.OutcomeRow, []lease.Aside) {
	rm.mu.Lock()
	rows := rm.ended
	rm.ended = nil
	seen := make(map[*shard]map[string]lease.Seen, len(rm.shards))
	for _, sh := range rm.shards {
		seen[sh] = nil
	}
	for id, m := range rm.members {
		r := m.seen.take(id)
		if r == nil {
			continue
		}
		rows = append(rows, r)
		if seen[m.shard] == nil {
			seen[m.shard] = map[string]lease.Seen{}
		}
		seen[m.shard][id] = lease.Seen{OK: r.GetOk(), Failed: r.GetFailed()}
	}
	rm.mu.Unlock()
	var aside []lease.Aside
	for sh, of := range seen {
		sh.mu.Lock()
		out, cs := sh.q.Judge(of, alone, now)
		sh.obey(cs, nil)
		sh.mu.Unlock()
		aside = append(aside, out...)
	}
	return rows, aside
}
