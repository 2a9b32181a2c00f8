package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Bounds of one group.
const (
	groupRequests = 256
	groupBytes    = 4 << 20 // of bodies
)

// patience is how long an Apply whose context has ended still waits for a
// commit that has begun: most end by then, and their answer is known.
const patience = 100 * time.Millisecond

// request is one Apply on its way through the writing goroutine.
type request struct {
	apply  store.Apply
	digest store.Digest
	taken  atomic.Bool // by the writer, or by its caller who withdraws it
	left   atomic.Bool // its caller was told that the answer is unknown

	done   chan struct{} // closed when result and err are there
	result store.Result
	err    error
}

func (r *request) answer(result store.Result, err error) {
	r.result, r.err = result, err
	close(r.done)
}

func (r *request) bytes() int {
	n := 0
	for _, w := range r.apply.Writes {
		n += len(w.Body)
	}
	return n
}

// queue holds what waits for the writing goroutine.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	closed  bool
	filled  chan struct{} // has room for one: something waits, or it was closed
}

func newQueue() *queue { return &queue{filled: make(chan struct{}, 1)} }

func (q *queue) put(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return store.ErrClosed
	}
	q.waiting = append(q.waiting, r)
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// take waits for the next group, until idle fires at the longest: then the
// group is empty. Once the queue is closed it answers what still waited.
func (q *queue) take(idle <-chan time.Time) (group []*request, closed bool) {
	for {
		group, closed := q.next()
		if closed || len(group) > 0 {
			return group, closed
		}
		select {
		case <-q.filled:
		case <-idle:
			return nil, false
		}
	}
}

func (q *queue) next() (group []*request, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		for _, r := range q.waiting {
			if r.taken.CompareAndSwap(false, true) {
				r.answer(store.Result{}, store.ErrClosed)
			}
		}
		q.waiting = nil
		return nil, true
	}
	n, size := 0, 0
	for n < len(q.waiting) && len(group) < groupRequests && size < groupBytes {
		r := q.waiting[n]
		q.waiting[n] = nil
		n++
		if r.taken.CompareAndSwap(false, true) {
			group = append(group, r)
			size += r.bytes()
		}
	}
	q.waiting = q.waiting[n:]
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
	return group, false
}

// Apply implements store.Store. It answers store.ErrUnknown only when ctx ends
// while its commit hangs in the disk, when the disk fails within the commit
// and the database cannot be opened again to look, or, with store.ErrGone,
// when the files were lost within the commit; and to repetitions of those.
func (s *Store) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	if err := ctx.Err(); err != nil {
		return store.Result{}, err
	}
	if err := a.Validate(); err != nil {
		return store.Result{}, err
	}
	a.Checks, a.Writes = slices.Clone(a.Checks), slices.Clone(a.Writes)
	for i := range a.Writes { // a caller who gave up may use its memory again
		a.Writes[i].Body = bytes.Clone(a.Writes[i].Body)
	}
	r := &request{apply: a, digest: a.Digest(), done: make(chan struct{})}
	if err := s.queue.put(r); err != nil {
		return store.Result{}, err
	}
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
		return r.abandon(ctx)
	}
}

// abandon withdraws r after ctx has ended, or, when it is too late for that,
// waits a little for its answer.
func (r *request) abandon(ctx context.Context) (store.Result, error) {
	if r.taken.CompareAndSwap(false, true) {
		return store.Result{}, ctx.Err()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.result, r.err
	case <-timer.C:
	}
	r.left.Store(true) // before the last look: the writer looks after it has answered
	select {
	case <-r.done:
		return r.result, r.err
	default:
		return store.Result{}, fmt.Errorf("%w: its commit hung in the disk when its time was over: %w", store.ErrUnknown, ctx.Err())
	}
}
