package lease

import "time"

// Request is one request's place. The caller allocates it, may reuse it once
// it was answered (granted, rejected, displaced or left), and fills the
// exported fields; the queue links it through the rest.
type Request struct {
	// Arrived and Deadline are by the caller's monotonic clock. Order in the
	// queue is by Arrived.
	Arrived, Deadline time.Duration
	// Tag that chose the split; empty when it was chosen by share.
	Tag string
	// Avoid is the instance that failed it before: taken only when no other is free.
	Avoid *Instance
	// Owner is the caller's own.
	Owner any

	waiting    bool
	prev, next *Request
}

// fifo is a doubly linked list in order of arrival.
type fifo struct {
	head, tail *Request
	n          int
}

// insert keeps the order of arrival; the newest, which is the usual case, is
// placed at once.
func (f *fifo) insert(r *Request) {
	after := f.tail
	for after != nil && after.Arrived > r.Arrived {
		after = after.prev
	}
	r.waiting, r.prev = true, after
	if after == nil {
		r.next, f.head = f.head, r
	} else {
		r.next, after.next = after.next, r
	}
	if r.next == nil {
		f.tail = r
	} else {
		r.next.prev = r
	}
	f.n++
}

func (f *fifo) remove(r *Request) {
	if r.prev == nil {
		f.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		f.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.waiting, r.prev, r.next = false, nil, nil
	f.n--
}
