package gateway

import (
	"errors"
	"net/http"
	"sync/atomic"
	"syscall"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// seen counts what became of the requests to one instance since it was taken
// last, and the bytes of what was asked and answered.
type seen struct {
	ok, failed, refused atomic.Uint32
	bytes               atomic.Uint64
}

// count notes how an exchange ended. What the caller ended says nothing of the
// instance, and neither does what this machine has too little of.
func (a *attempt) count(err error) {
	s := &a.m.seen
	if a.c != nil {
		s.bytes.Add(uint64(a.c.written.Load() + a.c.received.Load()))
	}
	switch {
	case a.x.end.came(), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL):
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
	// Refusals first: whoever counts between the two adds to the failures.
	r := &pb.OutcomeRow{Instance: id, Refused: s.refused.Swap(0), Ok: s.ok.Swap(0), Failed: s.failed.Swap(0)}
	if r.Ok == 0 && r.Failed == 0 {
		return nil
	}
	r.Refused, r.Bytes = min(r.Refused, r.Failed), s.bytes.Swap(0)
	return r
}

// outcomes of every instance since they were taken last.
func (rm *room) outcomes() []*pb.OutcomeRow {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	rows := rm.ended
	rm.ended = nil
	for id, m := range rm.members {
		if r := m.seen.take(id); r != nil {
			rows = append(rows, r)
		}
	}
	return rows
}
