package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/queue"
)

// Apply implements store.Store. It answers store.ErrUnknown only when ctx ends
// while its commit hangs in the disk, when the disk fails within the commit
// and the database cannot be opened again to look, or, with store.ErrGone,
// when the files were lost within the commit; and to repetitions of those.
func (s *Store) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	return s.queue.Apply(ctx, a)
}

// write is the writing goroutine: it ends when the queue is closed.
func (s *Store) write() {
	defer close(s.ended)
	idle := time.NewTicker(lookInterval)
	defer idle.Stop()
	for {
		group, closed := s.queue.Take(idle.C)
		if closed {
			return
		}
		if err := s.look(); err != nil {
			s.fail(group, err)
		} else if len(group) > 0 {
			s.serve(group)
		} else {
			s.noticeForeign()
		}
		s.doubtLeft(group)
	}
}

// serve does the group in one transaction, on a full disk in two attempts:
// the second one with the ballast's room.
func (s *Store) serve(group []*queue.Request) {
	if s.torn {
		if err := s.reopen(); err != nil {
			s.fail(group, err)
			return
		}
	}
	if s.ballast.restore() {
		s.options.Log.Info("there is room on the store's disk again", "path", s.options.Path)
	}
	err := s.attempt(group)
	if errors.Is(err, store.ErrFull) && !s.ballast.full.Load() {
		s.options.Log.Error("the store's disk is full: only deletes and essential writes are recorded until there is room", "path", s.options.Path, "ballast_freed", s.ballast.release())
		err = s.attempt(group)
	}
	var failed *commitError
	switch {
	case errors.As(err, &failed):
		s.settle(group, failed)
	case err != nil:
		s.fail(group, err)
	}
}

// fail answers a group of which nothing was written; of an Apply that comes
// again after its answer was unknown, no more than that is known still.
func (s *Store) fail(group []*queue.Request, cause error) {
	for _, r := range group {
		if s.doubtful[r.Apply.ID] {
			s.unknown(r, cause)
			continue
		}
		s.refuse(r, cause)
	}
}

// refuse answers an Apply of which nothing was written.
func (s *Store) refuse(r *queue.Request, cause error) {
	s.answerFailed(r, fmt.Errorf("%w; nothing was written", s.explained(cause)))
}

// unknown answers an Apply that may have been done.
func (s *Store) unknown(r *queue.Request, cause error) {
	s.doubt(r.Apply.ID)
	s.answerFailed(r, fmt.Errorf("%w: %w", store.ErrUnknown, s.explained(cause)))
}

// answerFailed answers r. Its identity says nothing to who reads the error.
func (s *Store) answerFailed(r *queue.Request, err error) {
	s.options.Log.Debug("an apply failed", "apply", r.Apply.ID, "error", err)
	r.Answer(store.Result{}, err)
}

// commitError is a COMMIT that failed: what it wrote may be found after a crash.
type commitError struct{ cause error }

func (e *commitError) Error() string { return "commit failed: " + e.cause.Error() }
func (e *commitError) Unwrap() error { return e.cause }

// attempt does the group in one transaction and answers it. Where it returns
// an error nothing was answered; unless that is a commitError nothing was written.
func (s *Store) attempt(group []*queue.Request) error {
	answers, err := s.transact(group)
	var failed *commitError
	if errors.As(err, &failed) {
		return err
	}
	if err != nil {
		return diagnosed(s.options.Path, err)
	}
	lost := s.lostError()
	for i, r := range group {
		if answers[i].err == nil && lost != nil {
			s.unknown(r, lost)
			continue
		}
		delete(s.doubtful, r.Apply.ID) // it was looked up
		r.Answer(answers[i].result, answers[i].err)
	}
	return nil
}

func (s *Store) transact(group []*queue.Request) ([]answer, error) {
	ctx := context.Background() // a group is not one caller's to cancel
	e := s.engine
	if err := e.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	t := &transaction{statements: &e.apply, ctx: ctx, position: s.position, now: milliseconds(s.options.Now())}
	answers, err := s.judgeAll(t, group)
	if err == nil && len(t.commits) > 0 {
		err = t.finish(s.options)
	}
	if err != nil || len(t.commits) == 0 {
		e.rollback(ctx)
		return answers, err
	}
	if err := s.commit(ctx, e); err != nil {
		return nil, err
	}
	s.position = t.position
	if s.look() == nil { // else nobody may hear of the commit
		s.tail.append(t.commits)
	}
	return answers, nil
}

// commit commits. A full disk is known to have written nothing; after any
// other failure the log may hold the whole commit, synced or not.
func (s *Store) commit(ctx context.Context, e *engine) error {
	err := e.exec(ctx, "COMMIT")
	if err == nil {
		return nil
	}
	e.rollback(ctx)
	if err := classified(err); errors.Is(err, store.ErrFull) {
		return err
	}
	return &commitError{cause: err}
}

type answer struct {
	result store.Result
	err    error
}

// judgeAll does each request of the group within t. A conflict is that
// request's own answer; an error of the database is the group's.
func (s *Store) judgeAll(t *transaction, group []*queue.Request) ([]answer, error) {
	answers := make([]answer, len(group))
	for i, r := range group {
		result, err := t.do(r, s.ballast.full.Load())
		if errors.Is(err, errKeptForEssentials) {
			err = fmt.Errorf("%w; nothing was written", s.explained(store.ErrFull))
		} else if err != nil && store.AsConflict(err) == nil && !errors.Is(err, store.ErrInvalid) {
			return nil, err
		}
		answers[i] = answer{result: result, err: err}
	}
	return answers, nil
}

// errKeptForEssentials: the room that is left is not for this request.
var errKeptForEssentials = errors.New("the room left is for deletes and essential writes")

// settle finds out what became of a group whose COMMIT failed: it opens the
// database anew, makes one commit that reaches the disk, and looks the
// identities up. Only where that fails too is the answer unknown.
func (s *Store) settle(group []*queue.Request, failed *commitError) {
	cause := diagnosed(s.options.Path, failed.cause)
	s.torn = true
	s.options.Log.Error("a commit failed in the disk; the store is opened again to see what became of it", "path", s.options.Path, "error", cause)
	err := s.reopen()
	if err != nil {
		for _, r := range group {
			s.unknown(r, fmt.Errorf("%w (and then: %w)", cause, err))
		}
		return
	}
	t := &transaction{statements: &s.engine.apply, ctx: context.Background()}
	for _, r := range group {
		s.settleOne(t, r, cause)
	}
}

// settleOne answers r by what is on disk after the commit that failed by cause.
func (s *Store) settleOne(t *transaction, r *queue.Request, cause error) {
	result, found, err := t.find(r)
	if err == nil && found {
		err = s.look()
	}
	if err != nil && !errors.Is(err, store.ErrInvalid) {
		s.unknown(r, fmt.Errorf("%w (and then: %w)", cause, err))
		return
	}
	delete(s.doubtful, r.Apply.ID)
	if !found {
		s.refuse(r, cause)
		return
	}
	r.Answer(result, err)
}

// reopen exchanges the engine. The commit that it makes is on disk before
// anything is read, and thereby all that a reader can see from then on. While
// the disk cannot be written at all, the old engine stays, for the readers.
func (s *Store) reopen() error {
	if err := s.look(); err != nil {
		return err
	}
	err := classified(probe(s.options.Path))
	if errors.Is(err, store.ErrFull) {
		s.ballast.release()
	} else if err != nil {
		return err
	}
	s.connections.Lock()
	defer s.connections.Unlock()
	if s.engine != nil {
		// Its error tells nothing: this engine has failed.
		_ = s.engine.close()
		s.engine = nil
		s.files.log = nil
	}
	e, p, err := s.openEngine()
	if err != nil {
		return err
	}
	err = e.exec(context.Background(), "UPDATE head SET recoveries = recoveries + 1")
	if err == nil && p.incarnation != s.incarnation {
		err = fmt.Errorf("the database was exchanged for another one, of incarnation %s", p.incarnation)
	}
	if err != nil {
		s.files.log = nil
		return errors.Join(diagnosed(s.options.Path, err), e.close())
	}
	s.engine, s.position, s.torn = e, p, false
	s.tail.reset(p.sequence)
	return nil
}
