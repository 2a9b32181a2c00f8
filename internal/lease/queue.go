package lease

import (
	"slices"
	"time"
)

// Queue is the waiting room of one request group: what waits, in order of
// arrival, and the instances that poll it. Whoever arrives is granted a credit
// of the least busy instance of an allowed revision, by the weights that its
// view gives, or waits for one. It is not safe for concurrent use. The commands that a method returns are valid
// until the next call.
type Queue struct {
	rules     *Rules // nil while no table leads here: nothing is granted
	instances map[string]*Instance
	open      []*Instance         // who may be leased
	free      int                 // idle credits of open
	turn      int                 // where the next search begins, so that ties rotate
	standings map[string]Standing // :: instance → what its view says; immutable, nil is no view
	uneven    bool                // weights or ranks of open differ
	relented  bool                // who is out is leased too
	records   map[string]*record  // :: instance → what became of its requests
	waiting   fifo
	told      int // the last reported demand
	out       []Command
}

// NewQueue makes an empty room that nothing leads to.
func NewQueue() *Queue { return &Queue{instances: map[string]*Instance{}} }

// Waiting counts what waits.
func (q *Queue) Waiting() int { return q.waiting.n }

// Free counts the idle credits that could be leased now.
func (q *Queue) Free() int { return q.free }

// Told is the demand that was last reported.
func (q *Queue) Told() int { return q.told }

// Rules in force; nil where no table leads here.
func (q *Queue) Rules() *Rules { return q.rules }

// Instance finds one by identity; nil when it is not known.
func (q *Queue) Instance(id string) *Instance { return q.instances[id] }

// Instances returns all, ordered by identity.
func (q *Queue) Instances() []*Instance {
	out := make([]*Instance, 0, len(q.instances))
	for _, in := range q.instances {
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b *Instance) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

// Idle says that the room can be given up: nobody waits, polls or leads here.
func (q *Queue) Idle() bool {
	return q.rules == nil && q.waiting.n == 0 && len(q.instances) == 0
}

// Govern puts a table's rules in force; nil when it does not lead here.
// Leases that were granted before are not touched.
func (q *Queue) Govern(r *Rules) []Command {
	q.begin()
	q.rules = r
	q.reopen()
	for w := q.waiting.head; w != nil; {
		next := w.next
		if r == nil || !r.Admits(w.Tag) {
			q.waiting.remove(w)
			q.do(Command{Verb: Displace, Request: w})
		}
		w = next
	}
	return q.settle()
}

// Arrive lets a newcomer in: granted, rejected, displaced, or waiting.
func (q *Queue) Arrive(r *Request, now time.Duration) []Command {
	return q.enter(r, now, false)
}

// Rejoin lets in what waited or was leased before: it keeps its place by its
// arrival, and the bound, which is for newcomers, does not turn it away.
func (q *Queue) Rejoin(r *Request, now time.Duration) []Command {
	return q.enter(r, now, true)
}

func (q *Queue) enter(r *Request, now time.Duration, again bool) []Command {
	q.begin()
	switch {
	case q.rules == nil || !q.rules.Admits(r.Tag):
		return q.do(Command{Verb: Displace, Request: r})
	case now >= r.Deadline:
		return q.do(Command{Verb: Reject, Reason: Late, Request: r})
	case q.free > 0 && q.waiting.n == 0:
		q.grant(r)
		return q.out
	case !again && q.waiting.n >= q.rules.MaxWaiting:
		return q.do(Command{Verb: Reject, Reason: Full, Request: r})
	}
	q.waiting.insert(r)
	return q.settle()
}

// Leave takes a caller that hung up out of the queue. It says whether the
// request was waiting; if not, it has been answered.
func (q *Queue) Leave(r *Request) (bool, []Command) {
	q.begin()
	if !r.waiting {
		return false, nil
	}
	q.waiting.remove(r)
	return true, q.settle()
}

// Expire rejects a request whose deadline has passed, if it still waits.
func (q *Queue) Expire(r *Request, now time.Duration) []Command {
	q.begin()
	if !r.waiting || now < r.Deadline {
		return nil
	}
	q.waiting.remove(r)
	q.do(Command{Verb: Reject, Reason: Late, Request: r})
	return q.settle()
}

// End gives up one lease on an instance. The caller has closed the exchange.
func (q *Queue) End(in *Instance) []Command {
	q.begin()
	in.inUse--
	switch {
	case in.state == Gone:
		return nil
	case in.state != Live:
		in.owned--
		q.do(Command{Verb: Return, Instance: in, N: 1})
	case in.owed > 0:
		in.owed--
		in.owned--
		q.do(Command{Verb: Return, Instance: in, N: 1})
	case in.open:
		q.free++
		if q.waiting.n == 0 {
			return nil
		}
	}
	return q.settle()
}

func (q *Queue) begin() { q.out = q.out[:0] }

func (q *Queue) do(c Command) []Command {
	q.out = append(q.out, c)
	return q.out
}

// settle grants what can be granted, first come first served, and reports the
// demand that is left.
func (q *Queue) settle() []Command {
	for q.free > 0 && q.waiting.n > 0 {
		r := q.waiting.head
		q.waiting.remove(r)
		q.grant(r)
	}
	if n := q.waiting.n; n != q.told && (n == 0 || q.told == 0 || n >= 2*q.told || 2*n <= q.told) {
		q.told = n
		q.do(Command{Verb: Demand, N: n})
	}
	return q.out
}

// grant leases the least busy open instance; one is free.
func (q *Queue) grant(r *Request) {
	var in *Instance
	if q.uneven {
		in = q.pickUneven(r.Avoid)
	} else {
		in = q.pick(r.Avoid)
	}
	in.inUse++
	q.free--
	q.do(Command{Verb: Grant, Request: r, Instance: in, Rules: q.rules})
}

func (q *Queue) pick(avoid *Instance) *Instance {
	var best, last *Instance
	n, at := len(q.open), 0
	for k := range n {
		i := q.turn + k
		if i >= n {
			i -= n
		}
		in := q.open[i]
		switch {
		case in.inUse >= in.owned:
			continue
		case in == avoid:
			last = in
			continue
		case best == nil || in.lessBusy(best):
			best, at = in, i
		}
		if in.inUse == 0 {
			break // none is less busy
		}
	}
	if best == nil {
		return last
	}
	if q.turn = at + 1; q.turn >= n {
		q.turn = 0
	}
	return best
}
