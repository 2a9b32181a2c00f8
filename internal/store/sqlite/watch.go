package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Bounds of one read of the log.
const (
	readCommits = 64
	readBytes   = 1 << 20
)

const queryLog = `SELECT h.floor, c.sequence, c.apply_id, x.kind, x.name, x.body
	FROM head h
	LEFT JOIN commits c ON c.sequence > ?1 AND c.sequence <= ?2
	LEFT JOIN changes x ON x.sequence = c.sequence
	ORDER BY c.sequence, x.position`

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, from uint64) (store.Watcher, error) {
	own := s.tail.own()
	var sequence, floor uint64
	// The file is asked, not the tail: a list may be ahead of the tail.
	err := s.reading(ctx, func(e *engine) error { return e.head.QueryRowContext(ctx).Scan(&sequence, &floor) })
	if lost := s.lostError(); err == nil && lost != nil {
		err = lost
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot watch from %d: %w", from, err)
	case from < floor:
		return nil, tooOld(from, floor)
	case from > sequence:
		return nil, fmt.Errorf("cannot watch from %d: %w, which is at %d", from, store.ErrFuture, sequence)
	}
	return &watcher{store: s, from: from, own: own, done: make(chan struct{})}, nil
}

func tooOld(from, floor uint64) error {
	return fmt.Errorf("cannot watch from %d: %w, which begins after %d", from, store.ErrTooOld, floor)
}

type watcher struct {
	store *Store
	from  uint64          // the last sequence given
	read  []store.Commit  // read from the file and not yet given
	err   error           // the final error, once there is one
	own   <-chan struct{} // closed once another program has written
	once  sync.Once
	done  chan struct{} // closed by Close
}

// Next implements store.Watcher.
func (w *watcher) Next(ctx context.Context) (store.Commit, error) {
	for w.err == nil {
		c, wake, err := w.take(ctx)
		switch {
		case err != nil:
			w.err = err
		case wake == nil:
			w.from = c.Sequence
			return c, nil
		default:
			// One of: a commit, the end of the watcher, of the store, of its
			// files, a foreign write, the end of ctx. Which it was is looked up by the next take.
			select {
			case <-wake:
			case <-w.done:
			case <-w.store.done:
			case <-w.store.lost:
			case <-w.own:
			case <-ctx.Done():
			}
		}
	}
	return store.Commit{}, w.err
}

// take returns the next commit, or the channel to wait on, or the final error.
func (w *watcher) take(ctx context.Context) (store.Commit, <-chan struct{}, error) {
	select {
	case <-w.done:
		return store.Commit{}, nil, store.ErrClosed
	case <-w.store.done:
		return store.Commit{}, nil, store.ErrClosed
	case <-w.store.lost:
		return store.Commit{}, nil, w.store.lostErr
	case <-w.own:
		return store.Commit{}, nil, errForeign(w.from)
	case <-ctx.Done():
		return store.Commit{}, nil, ctx.Err()
	default:
	}
	if len(w.read) == 0 {
		c, wake := w.store.tail.after(w.from)
		if wake != nil || c.Sequence != 0 {
			return c, wake, nil
		}
		var err error
		if w.read, err = w.store.readLog(ctx, w.from); err != nil {
			return store.Commit{}, nil, err
		}
	}
	if len(w.read) == 0 {
		return store.Commit{}, nil, fmt.Errorf("the log has nothing after %d, but should", w.from)
	}
	c := w.read[0]
	w.read = w.read[1:]
	return c, nil, nil
}

// Close implements store.Watcher. It may be called while Next waits.
func (w *watcher) Close() { w.once.Do(func() { close(w.done) }) }

// readLog reads the next commits after from out of the file.
func (s *Store) readLog(ctx context.Context, from uint64) (commits []store.Commit, err error) {
	err = s.reading(ctx, func(e *engine) error {
		commits, err = e.readLog(ctx, from)
		return err
	})
	return commits, err
}

func (e *engine) readLog(ctx context.Context, from uint64) (commits []store.Commit, err error) {
	rows, err := e.log.QueryContext(ctx, from, from+readCommits)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	size := 0
	for rows.Next() {
		r, err := scanLogged(rows)
		if err != nil {
			return nil, err
		}
		if from < r.floor {
			return nil, tooOld(from, r.floor)
		}
		n := len(commits)
		begins := n == 0 || commits[n-1].Sequence != r.sequence
		if r.sequence == 0 || begins && size > readBytes {
			break
		}
		if begins {
			commits = append(commits, store.Commit{Sequence: r.sequence, ApplyID: r.id})
		}
		if r.change != nil {
			size += len(r.change.Body)
			c := &commits[len(commits)-1]
			c.Changes = append(c.Changes, *r.change)
		}
	}
	return commits, rows.Err()
}

// logged is one row of queryLog.
type logged struct {
	floor, sequence uint64 // sequence is zero where there is no commit
	id              string
	change          *store.Change // nil where the commit changed nothing
}

func scanLogged(rows *sql.Rows) (logged, error) {
	var r logged
	var sequence sql.NullInt64
	var id, kind, name sql.NullString
	var body []byte
	if err := rows.Scan(&r.floor, &sequence, &id, &kind, &name, &body); err != nil {
		return r, err
	}
	r.sequence, r.id = uint64(sequence.Int64), id.String
	if kind.Valid {
		d := store.Document{Key: store.Key{Kind: kind.String, Name: name.String}, Version: r.sequence, Body: body}
		r.change = &store.Change{Document: d, Deleted: body == nil}
	}
	return r, nil
}
