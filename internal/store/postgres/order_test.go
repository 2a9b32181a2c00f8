package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/storetest"
)

type applied struct {
	result store.Result
	err    error
}

func applying(ctx context.Context, s store.Store, a store.Apply) <-chan applied {
	c := make(chan applied, 1)
	go func() {
		r, err := s.Apply(ctx, a)
		c <- applied{r, err}
	}()
	return c
}

// late is a store whose first commit rests once its sequence is taken.
type late struct {
	*Store
	resting, proceed chan struct{}
	release          func() // closes proceed
}

func openLate(t *testing.T, o Options) *late {
	l := &late{resting: make(chan struct{}), proceed: make(chan struct{})}
	l.release = sync.OnceFunc(func() { close(l.proceed) })
	var once sync.Once
	o.faults.beforeWrites = func() {
		once.Do(func() {
			close(l.resting)
			<-l.proceed
		})
	}
	l.Store = mustOpen(t, o)
	t.Cleanup(l.release) // before the store is closed, should the test have failed
	return l
}

func nextID(t *testing.T, w store.Watcher) string {
	t.Helper()
	c, err := w.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return c.ApplyID
}

func watching(t *testing.T, s store.Store, from uint64) store.Watcher {
	t.Helper()
	w, err := s.Watch(within(t), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func isDone(t *testing.T, c <-chan applied) store.Result {
	t.Helper()
	a := <-c
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.result
}

// Without the lock a commit that took its number early and comes late is
// skipped: this is what the lock is for.
func TestWithoutTheLockAWatcherSkipsACommitThatComesLate(t *testing.T) {
	o := fresh(t)
	o.faults.unlocked = true
	slow, fast, reader := openLate(t, o), mustOpen(t, o), mustOpen(t, o)
	w := watching(t, reader, 0)
	first := applying(within(t), slow, writing("late"))
	<-slow.resting
	early := isDone(t, applying(within(t), fast, writing("early")))
	if id := nextID(t, w); id != "early" {
		t.Fatalf("got %s", id)
	}
	slow.release()
	if r := isDone(t, first); r.Sequence >= early.Sequence {
		t.Fatalf("the late one has %d, the early one %d", r.Sequence, early.Sequence)
	}
	isDone(t, applying(within(t), fast, writing("last")))
	if id := nextID(t, w); id != "last" {
		t.Fatalf("got %s: the gap is closed without the lock, so nothing shows what the lock is for", id)
	}
}

func TestAWatcherNeverSkipsACommitThatComesLate(t *testing.T) {
	o := fresh(t)
	slow, fast, reader := openLate(t, o), mustOpen(t, o), mustOpen(t, o)
	w := watching(t, reader, 0)
	first := applying(within(t), slow, writing("late"))
	<-slow.resting
	second := applying(within(t), fast, writing("early"))
	conn := raw(t, o.URL)
	eventually(t, "the second writer waits for the lock", func() bool {
		return count(t, conn, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`) == 1
	})
	slow.release()
	if one, two := isDone(t, first), isDone(t, second); one.Sequence >= two.Sequence {
		t.Fatalf("the one that had the lock has %d, the one that waited %d", one.Sequence, two.Sequence)
	}
	if one, two := nextID(t, w), nextID(t, w); one != "late" || two != "early" {
		t.Fatalf("got %s, %s", one, two)
	}
}

func TestAWriterThatFreezesInItsTransactionDoesNotStopTheOthers(t *testing.T) {
	o := fresh(t)
	o.limits.idle = 200 * time.Millisecond
	frozen, other := openLate(t, o), mustOpen(t, o)
	first := applying(within(t), frozen, writing("frozen"))
	<-frozen.resting
	isDone(t, applying(within(t), other, writing("other")))
	frozen.release()
	a := <-first
	if a.err == nil {
		t.Fatalf("got %+v, though the server ended the transaction", a.result)
	}
	if _, err := other.Get(within(t), store.Key{Kind: "thing", Name: "frozen"}); err == nil {
		t.Fatalf("it is there, after: %v", a.err)
	}
	isDone(t, applying(within(t), frozen, writing("frozen")))
}

func TestALostWakeUpIsMadeUpForByThePoll(t *testing.T) {
	o := fresh(t)
	o.limits.poll = 20 * time.Millisecond
	reader := mustOpen(t, o)
	o.faults.mute = true
	writer := mustOpen(t, o)
	w := watching(t, reader, 0)
	for i := range 5 {
		name := fmt.Sprint("a", i)
		isDone(t, applying(within(t), writer, writing(name)))
		if id := nextID(t, w); id != name {
			t.Fatalf("got %s", id)
		}
	}
}

// follower folds all that it sees, and remembers each Apply.
type follower struct {
	fold *storetest.Fold
	seen map[string]uint64 // :: Apply ID → sequence
}

// follow folds until last gives a sequence that is reached, and leaves and
// comes back now and then.
func (f *follower) follow(ctx context.Context, s store.Store, last func() uint64) error {
	for {
		w, err := s.Watch(ctx, f.fold.Sequence)
		if err != nil {
			return err
		}
		for range 1 + rand.IntN(50) {
			if n := last(); n > 0 && f.fold.Sequence >= n {
				w.Close()
				return nil
			}
			c, err := w.Next(ctx)
			if err == nil {
				f.seen[c.ApplyID] = c.Sequence
				err = f.fold.Add(c)
			}
			if err != nil {
				w.Close()
				return err
			}
		}
		w.Close()
	}
}

func sameDocuments(t *testing.T, got map[store.Key]store.Document, list []store.Document) {
	t.Helper()
	if len(got) != len(list) {
		t.Errorf("the fold has %d documents, the list %d", len(got), len(list))
	}
	for _, d := range list {
		if x := got[d.Key]; x.Version != d.Version || string(x.Body) != string(d.Body) {
			t.Errorf("%s is %d %s in the fold, %d %s in the list", d.Key, x.Version, x.Body, d.Version, d.Body)
		}
	}
}

// The writing and the following goroutine both add to what watchers see:
// nothing may be left lying until the next poll.
func TestWatchersOfTwoStoresThatWriteAtOnceNeverWaitForThePoll(t *testing.T) {
	o := fresh(t)
	o.limits.poll = time.Hour
	stores := []*Store{mustOpen(t, o), mustOpen(t, o)}
	for round := range 100 {
		_, from, err := stores[0].List(within(t), "none")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i, s := range stores {
			w := watching(t, s, from)
			all.Go(func() {
				for range 2 {
					if _, err := w.Next(within(t)); err != nil {
						t.Errorf("watcher: %v", err)
					}
				}
			})
			all.Go(func() {
				if _, err := s.Apply(within(t), writing(fmt.Sprintf("%d-%d", round, i))); err != nil {
					t.Errorf("writer: %v", err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
	}
}
