package discovery

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/store"
)

const (
	// commitWait is how long a transition may keep a view waiting; one that
	// takes longer is in force first and marked as recorded late.
	commitWait = 50 * time.Millisecond
	// KeptTransitions of a service, beside the last one of each instance that
	// there is: a rebuild starts from it.
	KeptTransitions  = 500
	slackTransitions = 50
	// mostWaiting transitions wait for a store that does not answer.
	mostWaiting = 10_000
	retryAfter  = time.Second
	lastCommit  = time.Second // for what waits when the term ends
)

// records writes transitions to the store, in order, and with them the rows of
// the registry that changed; it knows which there are.
type records struct {
	lead   Lead
	log    *slog.Logger
	living func(instance string) bool

	mu       sync.Mutex
	waiting  []*waiting
	rows     map[string]rowWrite          // :: instance → its row as it is to be written
	sent     map[string]rowWrite          // :: instance → its row as it was sent
	posts    []store.Write                // to be written beside them
	posting  int                          // of posts, at its front
	staged   bool                         // a row changed since put was last called
	known    map[string]registry.Instance // :: instance → its row as it is, or is to be, on disk
	writing  int                          // of waiting, at its front
	written  chan struct{}                // closed when nothing waits
	wake     chan struct{}                // holds one
	kept     map[string][]entry           // :: service → its records, oldest first
	last     map[string]map[string]lastly // :: service → instance → its last record
	dropped  uint64
	lateness uint64
}

type waiting struct {
	Record
	saidLate bool // as it was sent
}

// lastly is when an instance's verdict or rule changed last.
type lastly struct {
	tick int64
	at   time.Time
	name string // of the record
}

// entry is one record in the store.
type entry struct {
	key      store.Key
	instance string
	tick     int64
}

func newRecords(l Lead, log *slog.Logger, living func(string) bool) *records {
	r := &records{
		lead: l, log: log, living: living, wake: make(chan struct{}, 1), written: make(chan struct{}),
		kept: map[string][]entry{}, last: map[string]map[string]lastly{}, rows: map[string]rowWrite{},
		known: map[string]registry.Instance{},
	}
	close(r.written)
	return r
}

// note enters a record that the store has.
func (r *records) note(x Record) {
	e := entry{x.key(), x.Instance, x.Tick}
	list := r.kept[x.Service]
	if i, found := slices.BinarySearchFunc(list, e, func(a, b entry) int { return strings.Compare(a.key.Name, b.key.Name) }); !found {
		r.kept[x.Service] = slices.Insert(list, i, e)
	}
	if r.last[x.Service] == nil {
		r.last[x.Service] = map[string]lastly{}
	}
	if old := r.last[x.Service][x.Instance]; old.tick <= x.Tick {
		r.last[x.Service][x.Instance] = lastly{x.Tick, x.At, e.key.Name}
	}
}

// at is when the instance's verdict or rule changed last.
func (r *records) at(service, instance string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[service][instance].at
}

// put has transitions recorded, and the rows that were staged, and waits for
// that, though not for long.
func (r *records) put(ctx context.Context, all []Record) {
	written, some := r.queue(all)
	if !some {
		return
	}
	timer := time.NewTimer(commitWait)
	defer timer.Stop()
	select { // on disk, or too late
	case <-written:
	case <-timer.C:
		r.late()
	case <-ctx.Done():
	}
}

// queue reports nothing where nothing is new: what waits from before waits on.
func (r *records) queue(all []Record) (written <-chan struct{}, some bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(all) == 0 && !r.staged {
		return nil, false
	}
	r.staged = false
	select {
	case <-r.written:
		r.written = make(chan struct{})
	default: // something waits from before
	}
	for _, x := range all {
		r.waiting = append(r.waiting, &waiting{Record: x})
	}
	if over := len(r.waiting) - mostWaiting; over > 0 && over <= len(r.waiting)-r.writing {
		r.waiting = slices.Delete(r.waiting, r.writing, r.writing+over)
		r.dropped += uint64(over)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return r.written, true
}

// late marks everything that waits: it is in force, and not on disk.
func (r *records) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		if !w.Late {
			w.Late = true
			r.lateness++
		}
	}
}

// run writes until ctx ends, and then once more what waits.
func (r *records) run(ctx context.Context) {
	for {
		select { // the end, or something to write
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCommit)
			defer cancel()
			r.write(last)
			return
		case <-r.wake:
		}
		for r.write(ctx) && ctx.Err() == nil {
		}
	}
}

// write writes what waits. It reports whether something waits still.
func (r *records) write(ctx context.Context) (more bool) {
	writes := r.take()
	if len(writes) == 0 {
		return r.settle(true)
	}
	err := r.lead.Commit(ctx, writes)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("transitions and rows are not recorded yet", "writes", len(writes), "error", err)
		r.late()
		pause(ctx, retryAfter)
	}
	return r.settle(err == nil)
}

// most writes of one commit.
const mostWrites = 500

func (r *records) take() (writes []store.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = min(len(r.waiting), mostWrites)
	for _, w := range r.waiting[:r.writing] {
		w.saidLate = w.Late
		writes = append(writes, w.write())
	}
	r.posting = min(len(r.posts), mostWrites-len(writes))
	writes = append(writes, r.posts[:r.posting]...)
	r.sent = map[string]rowWrite{}
	for id, w := range r.rows {
		if len(writes) == mostWrites {
			break
		}
		writes, r.sent[id] = append(writes, w.write(id)), w
	}
	return writes
}

func (r *records) settle(done bool) (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if done {
		again := r.waiting[:0:0]
		for _, w := range r.waiting[:r.writing] {
			r.note(w.Record)
			if w.Late != w.saidLate {
				again = append(again, w)
			}
		}
		r.waiting = append(again, r.waiting[r.writing:]...)
		r.posts = r.posts[r.posting:]
		for id, w := range r.sent {
			if r.rows[id] == w { // it did not change meanwhile
				delete(r.rows, id)
			}
		}
	}
	r.writing, r.posting = 0, 0
	left := len(r.waiting) + len(r.rows) + len(r.posts)
	if left == 0 && done {
		select {
		case <-r.written: // said already
		default:
			close(r.written)
		}
	}
	return left > 0
}

func (r *records) forget(over []entry) {
	gone := map[string]bool{} // :: name of a record
	for _, e := range over {
		gone[e.key.Name] = true
	}
	for name, list := range r.kept {
		if len(gone) == 0 {
			return
		}
		r.kept[name] = slices.DeleteFunc(list, func(e entry) bool { return gone[e.key.Name] })
		for instance, x := range r.last[name] {
			if gone[x.name] {
				delete(r.last[name], instance)
			}
		}
	}
}

// services that have records.
func (r *records) services() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.kept {
		names = append(names, name)
	}
	return names
}

func (r *records) counts() (late, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lateness, r.dropped
}

// pause waits for d or for ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
