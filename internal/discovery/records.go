package discovery

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

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

// records writes transitions to the store, in order, and knows which there
// are.
type records struct {
	lead   Lead
	log    *slog.Logger
	living func(instance string) bool

	mu       sync.Mutex
	waiting  []*waiting
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
}

func newRecords(l Lead, log *slog.Logger, living func(string) bool) *records {
	r := &records{
		lead: l, log: log, living: living, wake: make(chan struct{}, 1), written: make(chan struct{}),
		kept: map[string][]entry{}, last: map[string]map[string]lastly{},
	}
	close(r.written)
	return r
}

// note enters a record that the store has.
func (r *records) note(x Record) {
	e := entry{x.key(), x.Instance}
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

// put has transitions recorded, and waits for that, though not for long.
func (r *records) put(ctx context.Context, all []Record) {
	if len(all) == 0 {
		return
	}
	written := r.queue(all)
	timer := time.NewTimer(commitWait)
	defer timer.Stop()
	select { // on disk, or too late
	case <-written:
	case <-timer.C:
		r.late()
	case <-ctx.Done():
	}
}

func (r *records) queue(all []Record) (written <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.written = make(chan struct{})
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
	return r.written
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
	writes, over := r.take()
	if len(writes) == 0 {
		return false
	}
	err := r.lead.Commit(ctx, writes)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("transitions are not recorded yet", "transitions", len(writes)-len(over), "error", err)
		r.late()
		pause(ctx, retryAfter)
	}
	return r.settle(err == nil, over)
}

// most writes of one commit.
const mostWrites = 500

func (r *records) take() (writes []store.Write, over []entry) {
	r.mu.Lock()
	r.writing = min(len(r.waiting), mostWrites)
	services := map[string]int{} // :: service → new records
	for _, w := range r.waiting[:r.writing] {
		w.saidLate = w.Late
		writes = append(writes, w.write())
		services[w.Service]++
	}
	r.mu.Unlock()
	for name := range services {
		over = append(over, r.beyond(name)...)
	}
	for _, e := range over {
		writes = append(writes, erase(e.key))
	}
	return writes, over
}

// beyond are the service's records that are too many.
func (r *records) beyond(service string) (over []entry) {
	r.mu.Lock()
	list := slices.Clone(r.kept[service])
	last := map[string]string{} // :: instance → name of its last record
	for _, e := range list {
		last[e.instance] = e.key.Name
	}
	r.mu.Unlock()
	if len(list) <= KeptTransitions+slackTransitions {
		return nil
	}
	for _, e := range list[:len(list)-KeptTransitions] {
		if last[e.instance] != e.key.Name || !r.living(e.instance) {
			over = append(over, e)
		}
	}
	return over[:min(len(over), mostWrites)]
}

func (r *records) settle(done bool, over []entry) (more bool) {
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
		r.forget(over)
	}
	r.writing = 0
	if len(r.waiting) == 0 && done {
		close(r.written)
	}
	return len(r.waiting) > 0
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

// drop erases all records of a service that is no more.
func (r *records) drop(ctx context.Context, service string) error {
	r.mu.Lock()
	list := slices.Clone(r.kept[service])
	r.mu.Unlock()
	for part := range slices.Chunk(list, mostWrites) {
		var writes []store.Write
		for _, e := range part {
			writes = append(writes, erase(e.key))
		}
		if err := r.lead.Commit(ctx, writes); err != nil {
			return err
		}
		r.mu.Lock()
		r.forget(part)
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept[service]) == 0 {
		delete(r.kept, service)
		delete(r.last, service)
	}
	return nil
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
