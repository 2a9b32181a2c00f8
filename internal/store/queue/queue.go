// Package queue brings the Applies of many callers to the one goroutine of an
// engine that writes, in groups that share a commit. It knows no database: what
// a group becomes is the engine's. Read [Queue.Apply] first, then [Queue.Take].
package queue

import (
	"bytes"
	"context"
	"errors"
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

// Request is one Apply on its way through the writing goroutine.
type Request struct {
	Apply  store.Apply
	Digest store.Digest
	taken  atomic.Bool // by the writer, or by its caller who withdraws it
	left   atomic.Bool // its caller was told that the answer is unknown

	done   chan struct{} // closed when result and err are there
	result store.Result
	err    error
}

// NewRequest makes one that waits nowhere yet.
func NewRequest(a store.Apply) *Request {
	return &Request{Apply: a, Digest: a.Digest(), done: make(chan struct{})}
}

// Answer tells the caller; once.
func (r *Request) Answer(result store.Result, err error) {
	r.result, r.err = result, err
	close(r.done)
}

// Answered gives what Answer was given, once it was.
func (r *Request) Answered() (store.Result, error) {
	<-r.done
	return r.result, r.err
}

// InDoubt says, of a request that was answered, that its caller had left before,
// told that the answer is unknown, and that it may have been done.
func (r *Request) InDoubt() bool {
	return r.left.Load() && (r.err == nil || errors.Is(r.err, store.ErrUnknown))
}

// Bytes of its bodies.
func (r *Request) Bytes() int {
	n := 0
	for _, w := range r.Apply.Writes {
		n += len(w.Body)
	}
	return n
}

// Queue holds what waits for the writing goroutine.
type Queue struct {
	late string // where a commit is whose caller could not wait for it

	mu      sync.Mutex
	waiting []*Request
	closed  bool
	filled  chan struct{} // has room for one: something waits, or it was closed
}

// New makes an empty one. late ends "its commit ..." in the error of a caller
// whose time was over while a commit was under way.
func New(late string) *Queue { return &Queue{late: late, filled: make(chan struct{}, 1)} }

// Apply waits for a's turn and its answer. It answers store.ErrUnknown when ctx
// ends while the commit is under way; what was not yet taken is withdrawn.
func (q *Queue) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
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
	r := NewRequest(a)
	if err := q.put(r); err != nil {
		return store.Result{}, err
	}
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
		return q.abandon(ctx, r)
	}
}

// abandon withdraws r after ctx has ended, or, when it is too late for that,
// waits a little for its answer.
func (q *Queue) abandon(ctx context.Context, r *Request) (store.Result, error) {
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
		return store.Result{}, fmt.Errorf("%w: its commit %s when its time was over: %w", store.ErrUnknown, q.late, ctx.Err())
	}
}

func (q *Queue) put(r *Request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return store.ErrClosed
	}
	q.waiting = append(q.waiting, r)
	q.signal()
	return nil
}

func (q *Queue) signal() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// Len is how many wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Close ends it: what waits, and what comes, is answered store.ErrClosed.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// Take waits for the next group, until idle fires at the longest: then the
// group is empty. Once the queue is closed it answers what still waited.
func (q *Queue) Take(idle <-chan time.Time) (group []*Request, closed bool) {
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

func (q *Queue) next() (group []*Request, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		for _, r := range q.waiting {
			if r.taken.CompareAndSwap(false, true) {
				r.Answer(store.Result{}, store.ErrClosed)
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
			size += r.Bytes()
		}
	}
	q.waiting = q.waiting[n:]
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
	return group, false
}
