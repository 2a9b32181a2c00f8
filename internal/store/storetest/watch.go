package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// watchTests :: promise → its test
var watchTests = map[string]func(*testing.T, Harness){
	"AWatcherGetsWholeCommitsInOrderDeletionsIncluded": testWatch,
	"AWatcherWaitsForTheNextCommit":                    testWatchWaits,
	"AWatchResumesWithNothingSkippedOrDoubled":         testWatchResumes,
	"BelowWhatIsKeptAWatchIsTooOld":                    testTooOld,
	"AWatcherThatFellBehindWhatIsKeptIsToldTooOld":     testFellBehind,
	"AboveTheNewestSequenceAWatchIsOfTheFuture":        testFuture,
	"AWatchFromAListMissesNothing":                     testListThenWatch,
	"TheEndOfAWatcherIsFinal":                          testWatchEnds,
}

func testWatch(t *testing.T, h Harness) {
	f := open(t, h)
	w := f.watch(0)
	v1 := f.must(put("b", 0, `1`), put("a", 0, `1`))
	v2 := f.must(put("a", v1, `2`), remove("b", v1))
	doc := func(name string, v uint64, body string) store.Change {
		return store.Change{Document: store.Document{Key: key("thing", name), Version: v, Body: []byte(body)}}
	}
	gone := store.Change{Document: store.Document{Key: key("thing", "b"), Version: v2}, Deleted: true}
	first := store.Commit{Sequence: v1, ApplyID: "apply-1", Changes: []store.Change{doc("b", v1, `1`), doc("a", v1, `1`)}}
	second := store.Commit{Sequence: v2, ApplyID: "apply-2", Changes: []store.Change{doc("a", v2, `2`), gone}}
	same(t, f.next(w), first)
	same(t, f.next(w), second)
	same(t, f.next(f.watch(v1)), second)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, h)
	w = f.watch(0)
	same(t, f.next(w), first)
	same(t, f.next(w), second)
}

func testWatchWaits(t *testing.T, h Harness) {
	f := open(t, h)
	w := f.watch(0)
	got := make(chan store.Commit)
	go func() {
		defer close(got)
		for range 3 {
			c, err := w.Next(f.ctx)
			if err != nil {
				t.Errorf("next: %v", err)
				return
			}
			got <- c
		}
	}()
	for i := range 3 {
		v := f.must(put(fmt.Sprint(i), 0, `1`))
		same(t, (<-got).Sequence, v)
	}
	<-got
}

// testWatchResumes has 8 writers and 6 watchers. The watchers leave and come
// back at random, each folds what it sees, and all must end at the final list.
func testWatchResumes(t *testing.T, h Harness) {
	f := open(t, h)
	const writers, each = 8, 60
	var writing, watching sync.WaitGroup
	total := make(chan struct{}) // closed when the last sequence is known
	var last uint64
	for i := range writers {
		handle := f
		if h.Shared {
			handle = open(t, h)
			handle.ids.Store(int64(1_000_000 * (i + 1)))
		}
		writing.Go(func() { writeAtRandom(handle, rand.New(rand.NewPCG(1, uint64(i))), each) })
	}
	folds := make([]*Fold, 6)
	for i := range folds {
		folds[i] = NewFold()
		watching.Go(func() { folds[i].follow(f, rand.New(rand.NewPCG(2, uint64(i))), total, &last) })
	}
	writing.Wait()
	list, sequence := f.list("")
	last = sequence
	close(total)
	f.must(put("wake", 0, `1`)) // ends the watchers that wait
	watching.Wait()
	if t.Failed() {
		return
	}
	for _, got := range folds {
		same(t, got.Documents, asMap(list))
		same(t, got.Commits, writers*each)
	}
}

// writeAtRandom is WriteAtRandom with the fixture's identities.
func writeAtRandom(f *fixture, r *rand.Rand, n int) {
	if err := WriteAtRandom(f.ctx, f, f.id, r, n); err != nil {
		f.Errorf("writer: %v", err)
	}
}

// WriteAtRandom does n Applies on few keys of the kind "thing", with
// conflicts, creations and deletions. One that meets a conflict is built
// again; one whose answer is unknown is repeated until it is known. Each has
// an identity from id.
func WriteAtRandom(ctx context.Context, s store.Store, id func() string, r *rand.Rand, n int) error {
	for done := 0; done < n; {
		a := store.Apply{ID: id()}
		for _, i := range r.Perm(6)[:1+r.IntN(3)] {
			w, err := randomWrite(ctx, s, r, fmt.Sprint(i))
			if err != nil {
				return err
			}
			a.Writes = append(a.Writes, w)
		}
		_, err := s.Apply(ctx, a)
		for errors.Is(err, store.ErrUnknown) && ctx.Err() == nil {
			_, err = s.Apply(ctx, a)
		}
		if err == nil {
			done++
		} else if store.AsConflict(err) == nil {
			return err
		}
	}
	return nil
}

func randomWrite(ctx context.Context, s store.Store, r *rand.Rand, name string) (store.Write, error) {
	k := key("thing", name)
	d, err := s.Get(ctx, k)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Write{}, err
	}
	w := store.Write{Key: k, Expect: d.Version, Body: fmt.Appendf(nil, "%d", r.Int32())}
	if d.Version != 0 && r.IntN(3) == 0 {
		w.Delete, w.Body = true, nil
	}
	return w, nil
}

// Fold is what a watcher knows: what it listed, and each commit since.
type Fold struct {
	Documents map[store.Key]store.Document // :: key → document
	Sequence  uint64                       // of the last commit folded in
	Commits   int                          // folded in
}

// NewFold returns the fold of nothing, at sequence zero.
func NewFold() *Fold { return &Fold{Documents: map[store.Key]store.Document{}} }

// Add folds one commit in; it says what is wrong with its order.
func (f *Fold) Add(c store.Commit) error {
	if c.Sequence <= f.Sequence {
		return fmt.Errorf("commit %d came after %d", c.Sequence, f.Sequence)
	}
	f.Sequence = c.Sequence
	f.Commits++
	for _, x := range c.Changes {
		_, there := f.Documents[x.Key]
		switch {
		case x.Version != c.Sequence:
			return fmt.Errorf("commit %d has %s at version %d", c.Sequence, x.Key, x.Version)
		case x.Deleted && !there:
			return fmt.Errorf("commit %d deletes %s, which is not there", c.Sequence, x.Key)
		case x.Deleted:
			delete(f.Documents, x.Key)
		default:
			f.Documents[x.Key] = x.Document
		}
	}
	return nil
}

// follow watches until the last sequence, and resumes at random.
func (f *Fold) follow(s *fixture, r *rand.Rand, total <-chan struct{}, last *uint64) {
	for {
		w, err := s.Watch(s.ctx, f.Sequence)
		if err != nil {
			s.Errorf("watch from %d: %v", f.Sequence, err)
			return
		}
		for range 1 + r.IntN(30) {
			select {
			case <-total:
				if f.Sequence >= *last {
					w.Close()
					return
				}
			default:
			}
			c, err := w.Next(s.ctx)
			if err == nil {
				select {
				case <-total:
					if c.Sequence > *last { // the one that woke us
						w.Close()
						return
					}
				default:
				}
				err = f.Add(c)
			}
			if err != nil {
				s.Errorf("watcher: %v", err)
				return
			}
		}
		w.Close()
	}
}

func asMap(list []store.Document) map[store.Key]store.Document {
	m := map[store.Key]store.Document{} // :: key → document
	for _, d := range list {
		m[d.Key] = d
	}
	return m
}

func testTooOld(t *testing.T, h Harness) {
	clock := newClock()
	f := openWith(t, h, Options{Now: clock.now})
	first := f.must(put("a", 0, `1`))
	clock.advance(2 * time.Hour)
	f.must(put("b", 0, `1`))
	clock.advance(50 * time.Minute)
	last := f.must(put("c", 0, `1`))
	_, err := f.Watch(f.ctx, first-1)
	wantError(t, err, store.ErrTooOld)
	list, sequence := f.list("")
	same(t, len(list), 3)
	w := f.watch(sequence)
	next := f.must(put("d", 0, `1`))
	same(t, f.next(w).Sequence, next)
	same(t, f.next(f.watch(last-1)).Sequence, last)
}

func testFellBehind(t *testing.T, h Harness) {
	clock := newClock()
	f := openWith(t, h, Options{Now: clock.now})
	w := f.watch(0)
	first := f.must(put("a", 0, `1`))
	same(t, f.next(w).Sequence, first)
	f.must(put("b", 0, `1`))
	// Engines may keep the newest commits in memory: go far past that.
	for i := range 600 {
		f.must(store.Write{Key: key("thing", "c"), Any: true, Body: fmt.Append(nil, i)})
	}
	clock.advance(2 * time.Hour)
	f.must(put("d", 0, `1`))
	f.must(put("e", 0, `1`))
	_, err := w.Next(f.ctx)
	wantError(t, err, store.ErrTooOld)
	_, err = w.Next(f.ctx)
	wantError(t, err, store.ErrTooOld)
}

func testFuture(t *testing.T, h Harness) {
	f := open(t, h)
	_, err := f.Watch(f.ctx, 1)
	wantError(t, err, store.ErrFuture)
	v := f.must(put("a", 0, `1`))
	f.watch(v)
	_, err = f.Watch(f.ctx, v+1)
	wantError(t, err, store.ErrFuture)
}

// testListThenWatch lists and watches from the list again and again while
// others write: the watch must start, and go on where the list ends.
func testListThenWatch(t *testing.T, h Harness) {
	f := open(t, h)
	var writing sync.WaitGroup
	for i := range 4 {
		writing.Go(func() { writeAtRandom(f, rand.New(rand.NewPCG(3, uint64(i))), 100) })
	}
	var folds []*Fold
	var watchers []store.Watcher
	for range 50 {
		list, sequence := f.list("")
		folds = append(folds, &Fold{Documents: asMap(list), Sequence: sequence})
		watchers = append(watchers, f.watch(sequence))
	}
	writing.Wait()
	list, last := f.list("")
	for i, got := range folds {
		for got.Sequence < last {
			if err := got.Add(f.next(watchers[i])); err != nil {
				t.Fatal(err)
			}
		}
		same(t, got.Documents, asMap(list))
	}
}

func testWatchEnds(t *testing.T, h Harness) {
	f := open(t, h)
	first := f.must(put("a", 0, `1`))

	ctx, cancel := context.WithCancel(f.ctx)
	cancelled := f.watch(first)
	cancel()
	_, err := cancelled.Next(ctx)
	wantError(t, err, context.Canceled)
	_, err = cancelled.Next(f.ctx)
	wantError(t, err, context.Canceled)

	closed := f.watch(0)
	closed.Close()
	closed.Close()
	_, err = closed.Next(f.ctx)
	wantError(t, err, store.ErrClosed)

	waiting, idle := f.watch(first), f.watch(0)
	ended := make(chan error)
	go func() {
		_, err := waiting.Next(f.ctx)
		ended <- err
	}()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, <-ended, store.ErrClosed)
	_, err = idle.Next(f.ctx)
	wantError(t, err, store.ErrClosed)
}
