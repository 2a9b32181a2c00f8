package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, from uint64) (store.Watcher, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pruneLocked()
	if from < b.floor {
		return nil, b.tooOldLocked(from)
	}
	if from > b.sequence {
		return nil, fmt.Errorf("cannot watch from %d: %w, which is at %d", from, store.ErrFuture, b.sequence)
	}
	return &watcher{store: s, from: from, done: make(chan struct{})}, nil
}

func (b *Backend) tooOldLocked(from uint64) error {
	return fmt.Errorf("cannot watch from %d: %w, which begins after %d", from, store.ErrTooOld, b.floor)
}

type watcher struct {
	store *Store
	from  uint64 // the last sequence given
	err   error  // the final error, once there is one
	once  sync.Once
	done  chan struct{} // closed by Close
}

// Next implements store.Watcher.
func (w *watcher) Next(ctx context.Context) (store.Commit, error) {
	for w.err == nil {
		c, wake, err := w.take(ctx)
		if err != nil {
			w.err = err
			break
		}
		if wake == nil {
			w.from = c.Sequence
			return c, nil
		}
		// One of: a commit, the end of the watcher, of the store, of ctx.
		// Which it was is looked up by the next take.
		select {
		case <-wake:
		case <-w.done:
		case <-w.store.done:
		case <-ctx.Done():
		}
	}
	return store.Commit{}, w.err
}

// take returns the next commit, or the channel to wait on, or the final error.
func (w *watcher) take(ctx context.Context) (store.Commit, <-chan struct{}, error) {
	select {
	case <-w.done:
		return store.Commit{}, nil, store.ErrClosed
	default:
	}
	if err := w.store.usable(ctx); err != nil {
		return store.Commit{}, nil, err
	}
	b := w.store.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.from < b.floor {
		return store.Commit{}, nil, b.tooOldLocked(w.from)
	}
	if w.from == b.sequence {
		return store.Commit{}, b.wake, nil
	}
	c := b.log[w.from-b.floor].commit
	c.Changes = slices.Clone(c.Changes)
	for i := range c.Changes {
		c.Changes[i].Document = clone(c.Changes[i].Document)
	}
	return c, nil, nil
}

// Close implements store.Watcher. It may be called while Next waits.
func (w *watcher) Close() { w.once.Do(func() { close(w.done) }) }
