package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// readCommits bounds the commits of one read of the log.
const readCommits = 64

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, from uint64) (store.Watcher, error) {
	var sequence, floor uint64
	// The era is taken first: a server that lost commits since then ends the watcher.
	_, era := s.tail.at()
	// The server is asked, not the tail: a list may be ahead of the tail.
	err := s.reading(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.queries.bounds).Scan(&sequence, &floor)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot watch from %d: %w", from, err)
	case from < floor:
		return nil, tooOld(from, floor)
	case from > sequence:
		return nil, future(from, sequence)
	}
	return &watcher{store: s, from: from, era: era, done: make(chan struct{})}, nil
}

func tooOld(from, floor uint64) error {
	return fmt.Errorf("cannot watch from %d: %w, which begins after %d", from, store.ErrTooOld, floor)
}

func future(from, sequence uint64) error {
	return fmt.Errorf("cannot watch from %d: %w, which is at %d", from, store.ErrFuture, sequence)
}

type watcher struct {
	store *Store
	from  uint64         // the last sequence given
	era   int            // of the tail when the watcher began
	read  []store.Commit // read from the server and not yet given
	err   error          // the final error, once there is one
	pause pauses         // while the server cannot be read
	once  sync.Once
	done  chan struct{} // closed by Close
}

// Next implements store.Watcher. While the server is gone it waits. Where the
// server comes back without what it had committed, it ends with ErrFuture.
func (w *watcher) Next(ctx context.Context) (store.Commit, error) {
	for w.err == nil {
		c, wake, err := w.take(ctx)
		switch {
		case err != nil:
			w.err = err
		case c.Sequence != 0:
			w.from = c.Sequence
			return c, nil
		case wake != nil:
			// One of: a commit, the end of the watcher, of the store, of
			// ctx. Which it was is looked up by the next take.
			select {
			case <-wake:
			case <-w.done:
			case <-w.store.alive.Done():
			case <-ctx.Done():
			}
		}
	}
	return store.Commit{}, w.err
}

// take returns the next commit, or the channel to wait on, or the final error;
// or neither, when it has waited for the server itself.
func (w *watcher) take(ctx context.Context) (store.Commit, <-chan struct{}, error) {
	select {
	case <-w.done:
		return store.Commit{}, nil, store.ErrClosed
	case <-w.store.alive.Done():
		return store.Commit{}, nil, store.ErrClosed
	case <-ctx.Done():
		return store.Commit{}, nil, ctx.Err()
	default:
	}
	if sequence, era := w.store.tail.at(); era != w.era {
		return store.Commit{}, nil, fmt.Errorf("the server has lost commits: %w", future(w.from, sequence))
	}
	if len(w.read) == 0 {
		c, wake := w.store.tail.after(w.from)
		if wake != nil || c.Sequence != 0 {
			return c, wake, nil
		}
		if err := w.readOn(ctx); err != nil || len(w.read) == 0 {
			return store.Commit{}, nil, err
		}
	}
	c := w.read[0]
	w.read = w.read[1:]
	return c, nil, nil
}

// readOn reads what the tail no longer has. A server that is gone is waited for.
func (w *watcher) readOn(ctx context.Context) error {
	err := w.store.reading(ctx, func(ctx context.Context) error {
		l, err := w.store.readLog(ctx, w.store.pool, w.from)
		w.read = l.commits
		return err
	})
	switch {
	case err == nil:
		w.pause = pauses{}
		return nil
	case ctx.Err() != nil, errors.Is(err, store.ErrTooOld), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrNewer):
		return err
	}
	stopped, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.store.alive, cancel)()
	go func() {
		select {
		case <-w.done:
			cancel()
		case <-stopped.Done():
		}
	}()
	w.pause.wait(stopped)
	return nil
}

// Close implements store.Watcher. It may be called while Next waits.
func (w *watcher) Close() { w.once.Do(func() { close(w.done) }) }

// portion is what one read of the log gives.
type portion struct {
	sequence uint64 // of the newest commit there is
	commits  []store.Commit
}

// readLog reads the next commits after from, at most readCommits.
func (s *Store) readLog(ctx context.Context, on querier, from uint64) (portion, error) {
	var p portion
	rows, err := on.Query(ctx, s.queries.log, int64(from), readCommits)
	if err != nil {
		return p, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanLogged(rows)
		if err != nil {
			return p, err
		}
		if from < r.floor {
			return p, tooOld(from, r.floor)
		}
		p.sequence = r.newest
		if r.sequence == 0 {
			break
		}
		if n := len(p.commits); n == 0 || p.commits[n-1].Sequence != r.sequence {
			p.commits = append(p.commits, store.Commit{Sequence: r.sequence, ApplyID: r.id})
		}
		if r.change != nil {
			c := &p.commits[len(p.commits)-1]
			c.Changes = append(c.Changes, *r.change)
		}
	}
	return p, rows.Err()
}

// logged is one row of the log.
type logged struct {
	newest, floor, sequence uint64 // sequence is zero where there is no commit
	id                      string
	change                  *store.Change // nil where the commit changed nothing
}

func scanLogged(rows pgx.Rows) (logged, error) {
	var r logged
	var sequence pgtype.Int8
	var id, kind, name pgtype.Text
	var body []byte
	if err := rows.Scan(&r.newest, &r.floor, &sequence, &id, &kind, &name, &body); err != nil {
		return r, err
	}
	r.sequence, r.id = uint64(sequence.Int64), decodeID(id.String)
	if kind.Valid {
		d := store.Document{Key: store.Key{Kind: kind.String, Name: name.String}, Version: r.sequence, Body: body}
		r.change = &store.Change{Document: d, Deleted: body == nil}
	}
	return r, nil
}
