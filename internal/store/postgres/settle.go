package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/queue"
)

// doubtLimit bounds the identities that are kept as doubtful. Beyond it one of
// them is forgotten: should it come again while the server is gone, it is told
// that nothing was written, which is then true of the repetition only.
const doubtLimit = 4096

func (s *Store) doubt(id string) {
	for other := range s.writer.doubtful {
		if len(s.writer.doubtful) < doubtLimit {
			break
		}
		delete(s.writer.doubtful, other)
	}
	s.writer.doubtful[id] = true
}

// settle finds out what became of a group whose COMMIT had no answer: on a
// fresh connection it takes the writers' lock, which the old transaction holds
// to its end, looks the identities up, and makes a commit of its own, so that
// all it saw is on disk, and on the standby, too. Only where that fails is the
// answer unknown.
func (s *Store) settle(group []*queue.Request, lost *lostCommit) {
	s.options.Log.Warn("the answer to a commit was lost; it is looked up", "store", s.place(), "applies", len(group), "error", lost.cause)
	ctx, cancel := context.WithTimeout(context.Background(), s.options.limits.settle)
	defer cancel()
	found, err := s.lookupUntil(ctx, group)
	if err != nil {
		s.options.Log.Error("what became of a commit could not be looked up: its answer is unknown", "store", s.place(), "error", err)
	}
	landed := lost.landed(found)
	for i, r := range group {
		switch d, done := found[r.Apply.ID]; {
		case err != nil:
			s.doubt(r.Apply.ID)
			r.Answer(store.Result{}, fmt.Errorf("cannot apply %s: %w: %w (and then: %w)", r.Apply.ID, store.ErrUnknown, lost.cause, err))
		case landed:
			r.Answer(lost.answers[i].result, lost.answers[i].err)
		case done:
			r.Answer(d.repeated(r))
		default:
			r.Answer(store.Result{}, fmt.Errorf("cannot apply %s: %w: %w", r.Apply.ID, errNothingWritten, classified(lost.cause)))
		}
	}
}

// landed says that the commit was done.
func (e *lostCommit) landed(found map[string]done) bool {
	for _, c := range e.commits {
		if found[c.ApplyID].sequence == c.Sequence {
			return true
		}
	}
	return false
}

// lookupUntil tries until it has an answer, or ctx ends.
func (s *Store) lookupUntil(ctx context.Context, group []*queue.Request) (map[string]done, error) {
	pause := pauses{}
	for {
		found, err := s.lookup(ctx, group)
		if err == nil {
			return found, nil
		}
		s.dropConnection()
		if s.isClosed() || !pause.wait(ctx) {
			return nil, err
		}
	}
}

func (s *Store) lookup(ctx context.Context, group []*queue.Request) (map[string]done, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.writer.conn = conn
	q, t := &s.queries, newTransaction(group)
	found := map[string]done{} // :: Apply ID → what was done
	var b pgx.Batch
	b.Queue(q.begin)
	b.Queue(q.lock, q.lockKey)
	b.Queue(q.earlier, t.ids()).Query(func(rows pgx.Rows) error { return scanEarlier(rows, found) })
	b.Queue(q.recovered)
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errRolledBack
		}
		return nil
	})
	s.warned.Store(false)
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	if s.warned.Swap(false) {
		return nil, errors.New("the server warns that a commit may lack its standby")
	}
	return found, nil
}

// pauses between attempts grow from 20 ms to 1 s.
type pauses struct{ next time.Duration }

// wait says false where ctx ended first.
func (p *pauses) wait(ctx context.Context) bool {
	p.next = min(max(2*p.next, 20*time.Millisecond), time.Second)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
