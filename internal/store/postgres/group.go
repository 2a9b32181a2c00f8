package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/queue"
)

// writer is what the writing goroutine alone uses.
type writer struct {
	conn *pgx.Conn // nil while there is none
	// doubtful are Applies whose caller was told that the answer is unknown,
	// and whose record was not found missing since. :: Apply ID → is one
	doubtful map[string]bool
	pruned   time.Time // when the log was last pruned, by the clock of commits
}

func newWriter(conn *pgx.Conn) writer {
	return writer{conn: conn, doubtful: map[string]bool{}}
}

// Apply implements store.Store. It answers store.ErrUnknown only when ctx ends
// while its commit is on its way, or when the connection dies within the
// commit and the server cannot be asked what became of it. Essential changes
// nothing: this engine keeps no room back.
func (s *Store) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	return s.queue.Apply(ctx, a)
}

// write is the writing goroutine: it ends when the queue is closed.
func (s *Store) write() {
	defer s.dropConnection()
	idle := time.NewTicker(s.options.Retention / pruneFraction)
	defer idle.Stop()
	for {
		group, closed := s.queue.Take(idle.C)
		if closed {
			return
		}
		if len(group) > 0 {
			s.serve(group)
		}
		for s.pruneIfDue() && s.queue.Len() == 0 {
		}
	}
}

func (s *Store) dropConnection() {
	if s.writer.conn != nil {
		_ = closeNow(s.writer.conn) // it is given up: its error tells nothing
		s.writer.conn = nil
	}
}

// serve does the group in one transaction. A group that the server refuses
// for what is in it is done one by one: each has its own answer.
func (s *Store) serve(group []*queue.Request) {
	err := s.attempt(group)
	if errors.Is(err, errStale) {
		err = s.attempt(group)
	}
	var lost *lostCommit
	switch {
	case err == nil:
	case errors.As(err, &lost):
		s.settle(group, lost)
	case len(group) > 1 && isContent(err):
		for _, r := range group {
			s.serve([]*queue.Request{r})
		}
		return
	default:
		s.fail(group, err)
	}
	for _, r := range group {
		if r.InDoubt() {
			s.doubt(r.Apply.ID)
		}
	}
}

// fail answers a group of which nothing was written; of an Apply that comes
// again after its answer was unknown, no more than that is known still.
func (s *Store) fail(group []*queue.Request, cause error) {
	cause = classified(cause)
	for _, r := range group {
		how := errNothingWritten
		if s.writer.doubtful[r.Apply.ID] {
			how = store.ErrUnknown
		}
		r.Answer(store.Result{}, fmt.Errorf("cannot apply %s: %w: %w", r.Apply.ID, how, cause))
	}
}

var (
	errNothingWritten = errors.New("nothing was written")
	// errStale: the connection had died before it was used.
	errStale = errors.New("the connection was lost before anything was written")
)

// lostCommit is a COMMIT without an answer.
type lostCommit struct {
	cause   error
	commits []store.Commit
	answers []answer // that hold if it was done
}

func (e *lostCommit) Error() string { return "the commit's answer was lost: " + e.cause.Error() }
func (e *lostCommit) Unwrap() error { return e.cause }

// attempt does the group in one transaction and answers it. Where it returns
// an error nothing was answered; unless that is a lostCommit nothing was written.
func (s *Store) attempt(group []*queue.Request) error {
	fresh := s.writer.conn == nil
	if fresh {
		conn, err := s.connect(s.alive)
		if err != nil {
			return s.orClosed(err)
		}
		s.writer.conn = conn
	}
	t, err := s.begin(group)
	if err != nil {
		lost := !refused(err)
		s.abort(lost)
		if lost && !fresh && !s.isClosed() && !isTimeout(err) {
			return fmt.Errorf("%w: %w", errStale, err)
		}
		return s.orClosed(err)
	}
	if len(t.commits) == 0 {
		s.abort(false)
	} else if err := s.commit(t); err != nil {
		return err
	}
	for i, r := range group {
		delete(s.writer.doubtful, r.Apply.ID)
		r.Answer(t.answers[i].result, t.answers[i].err)
	}
	return nil
}

func (s *Store) orClosed(err error) error {
	if s.isClosed() {
		return store.ErrClosed
	}
	return err
}

func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// abort ends the transaction. A connection that is lost, or does not answer
// to that, is dropped; the server then ends the transaction itself.
func (s *Store) abort(lost bool) {
	ctx, cancel := context.WithTimeout(s.alive, s.options.limits.connect)
	defer cancel()
	if !lost {
		if _, err := s.writer.conn.Exec(ctx, "ROLLBACK"); err == nil {
			return
		}
	}
	s.dropConnection()
}

// begin takes the writers' lock and the numbers, reads what the group depends
// on in the same round trip, and judges the group.
func (s *Store) begin(group []*queue.Request) (*transaction, error) {
	l := s.options.limits
	ctx, cancel := context.WithTimeout(s.alive, l.lock+l.read)
	defer cancel()
	t := newTransaction(group)
	if err := s.writer.conn.SendBatch(ctx, s.reads(t)).Close(); err != nil {
		return nil, err
	}
	if err := s.recognise(t.head); err != nil {
		return nil, err
	}
	for id := range s.writer.doubtful {
		if _, found := t.earlier[id]; !found {
			delete(s.writer.doubtful, id) // with the lock held, absence is final
		}
	}
	t.judgeAll()
	if err := s.fillConflicts(ctx, t); err != nil {
		return nil, err
	}
	if s.options.faults.beforeWrites != nil {
		s.options.faults.beforeWrites()
	}
	return t, nil
}

// reads is the first round trip. The lock is a statement of its own: what
// follows it sees all that was committed under it.
func (s *Store) reads(t *transaction) *pgx.Batch {
	q, b := &s.queries, &pgx.Batch{}
	b.Queue(q.begin)
	if !s.options.faults.unlocked {
		b.Queue(q.lock, q.lockKey)
	}
	b.Queue(q.head).QueryRow(func(row pgx.Row) error {
		return row.Scan(&t.head.version, &t.head.incarnation, &t.head.sequence)
	})
	b.Queue(q.numbers, len(t.group)).Query(t.scanNumbers)
	ids := t.ids()
	for id := range s.writer.doubtful {
		ids = append(ids, encodeID(id))
	}
	b.Queue(q.earlier, ids).Query(t.scanEarlier)
	kinds, names := t.keys()
	b.Queue(q.stands, kinds, names).Query(t.scanStands)
	return b
}

// commit writes and commits in one round trip. It is not bounded by a
// context: a driver that gives up would have the server cancel what runs.
func (s *Store) commit(t *transaction) error {
	conn := s.writer.conn
	s.warned.Store(false)
	timer := time.AfterFunc(s.options.limits.commit, func() { sever(conn) })
	err := conn.SendBatch(context.Background(), s.writes(t)).Close()
	timer.Stop()
	switch {
	case err == nil && !s.warned.Swap(false):
		s.tail.append(t.head.sequence, t.commits)
		return nil
	case err == nil:
		err = errors.New("the server warns that a commit may lack its standby")
	case refused(err) || errors.Is(err, errRolledBack):
		s.abort(false)
		return err
	}
	s.dropConnection()
	return &lostCommit{cause: err, commits: t.commits, answers: t.answers}
}
