package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
	"github.com/fairlead-platform/fairlead/internal/store/storetest"
)

// patient repeats what fails while the server is gone, and notices an answer
// that was not true.
type patient struct {
	store.Store
	failed *atomic.Int64
}

func (s patient) Get(ctx context.Context, key store.Key) (store.Document, error) {
	for {
		d, err := s.Store.Get(ctx, key)
		if err == nil || errors.Is(err, store.ErrNotFound) || ctx.Err() != nil {
			return d, err
		}
	}
}

func (s patient) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	mayBeThere := false
	for {
		r, err := s.Store.Apply(ctx, a)
		if err == nil && r.Repeated && !mayBeThere {
			return r, fmt.Errorf("%s is there, after it was said that nothing was written", a.ID)
		}
		if err == nil || store.AsConflict(err) != nil || ctx.Err() != nil {
			return r, err
		}
		s.failed.Add(1)
		mayBeThere = mayBeThere || errors.Is(err, store.ErrUnknown)
	}
}

func TestWritersAndWatchersGoOnThroughRestartsAndCrashesOfTheServer(t *testing.T) {
	server := postgrestest.Start(t)
	o := Options{URL: server.URL}
	o.limits.settle = 500 * time.Millisecond
	var last, failed atomic.Uint64
	var misses atomic.Int64
	var following, writers sync.WaitGroup
	followers := make([]*follower, 4)
	one, two := mustOpen(t, o), mustOpen(t, o)
	for i := range followers {
		followers[i] = &follower{fold: storetest.NewFold(), seen: map[string]uint64{}}
		following.Go(func() {
			if err := followers[i].steadily(within(t), []*Store{one, two}[i%2], last.Load); err != nil {
				t.Errorf("watcher: %v", err)
			}
		})
	}
	var stop atomic.Bool
	var written atomic.Int64
	for i := range 6 {
		writers.Go(func() {
			n, r := 0, rand.New(rand.NewPCG(7, uint64(i)))
			id := func() string { n++; return fmt.Sprintf("%d-%d", i, n) }
			s := patient{Store: []*Store{one, two}[i%2], failed: &misses}
			for !stop.Load() {
				if err := storetest.WriteAtRandom(within(t), s, id, r, 1); err != nil {
					t.Errorf("writer: %v", err)
					failed.Add(1)
					return
				}
				written.Add(1)
			}
		})
	}
	for i := range 4 {
		goal := written.Load() + 100
		eventually(t, "the writers get on", func() bool { return written.Load() >= goal || failed.Load() > 0 })
		end := server.Stop
		if i%2 == 1 {
			end = server.Crash
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := server.StartAgain(); err != nil {
			t.Fatal(err)
		}
	}
	goal := written.Load() + 100
	eventually(t, "the writers get on", func() bool { return written.Load() >= goal || failed.Load() > 0 })
	stop.Store(true)
	writers.Wait()
	list, sequence, err := one.List(within(t), "")
	if err != nil {
		t.Fatal(err)
	}
	last.Store(sequence)
	isDone(t, applying(within(t), one, writing("wake")))
	following.Wait()
	for _, f := range followers {
		delete(f.fold.Documents, writing("wake").Writes[0].Key)
		sameDocuments(t, f.fold.Documents, list)
	}
	t.Logf("%d written, %d attempts failed meanwhile", written.Load(), misses.Load())
}

// steadily follows with one watcher, which outlives the server.
func (f *follower) steadily(ctx context.Context, s store.Store, last func() uint64) error {
	w, err := s.Watch(ctx, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	for last() == 0 || f.fold.Sequence < last() {
		c, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if err := f.fold.Add(c); err != nil {
			return err
		}
	}
	return nil
}

func TestAServerThatIsGoneIsSaidPlainlyAndNothingWasWritten(t *testing.T) {
	server := postgrestest.Start(t)
	s := mustOpen(t, Options{URL: server.URL})
	isDone(t, applying(within(t), s, writing("a")))
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	a := <-applying(within(t), s, writing("b"))
	if a.err == nil || errors.Is(a.err, store.ErrUnknown) || !strings.Contains(a.err.Error(), errNothingWritten.Error()) {
		t.Fatalf("got %v", a.err)
	}
	if _, err := s.Get(within(t), writing("a").Writes[0].Key); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	if _, err := Open(within(t), Options{URL: server.URL}); err == nil {
		t.Fatal("it was opened")
	}
	if err := server.StartAgain(); err != nil {
		t.Fatal(err)
	}
	// The first use after the return is no failure.
	if _, err := s.Get(within(t), writing("a").Writes[0].Key); err != nil {
		t.Fatal(err)
	}
	isDone(t, applying(within(t), s, writing("b")))
}

func TestSessionsThatTheServerHasEndedAreReplacedWithoutAFailure(t *testing.T) {
	o := fresh(t)
	s := mustOpen(t, o)
	isDone(t, applying(within(t), s, writing("a")))
	conn := raw(t, o.URL)
	for i := range 10 {
		if _, err := s.Get(within(t), writing("a").Writes[0].Key); err != nil {
			t.Fatal(err)
		}
		rawExec(t, conn, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'fairlead'")
		if _, err := s.Get(within(t), writing("a").Writes[0].Key); err != nil {
			t.Fatal(err)
		}
		isDone(t, applying(within(t), s, writing(fmt.Sprint("b", i))))
	}
}

func TestAServerThatFreezesDoesNotHoldUpClose(t *testing.T) {
	server := postgrestest.Start(t)
	s, err := Open(within(t), Options{URL: server.URL, limits: limits{connect: time.Second, lock: time.Second, read: time.Second, commit: time.Second, settle: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	first := applying(within(t), s, writing("a"))
	isDone(t, first)
	server.Signal(t, syscall.SIGSTOP)
	defer server.Signal(t, syscall.SIGCONT)
	frozen := applying(within(t), s, writing("b"))
	eventually(t, "the writer has taken it", func() bool { return s.queue.Len() == 0 })
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-frozen; a.err == nil {
		t.Fatal("a frozen server has committed")
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Fatalf("close took %s", took)
	}
}

func TestAStoreRestoredFromAnOlderCopyEndsItsWatchers(t *testing.T) {
	server := postgrestest.Start(t)
	o := Options{URL: server.URL}
	s := mustOpen(t, o)
	isDone(t, applying(within(t), s, writing("a")))
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	data, copied := filepath.Join(server.Folder, "data"), filepath.Join(server.Folder, "copy")
	if out, err := server.Command("cp", "-a", data, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := server.StartAgain(); err != nil {
		t.Fatal(err)
	}
	b := isDone(t, applying(within(t), s, writing("b")))
	w := watching(t, s, b.Sequence)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(data), os.Rename(copied, data), server.StartAgain()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(within(t)); !errors.Is(err, store.ErrFuture) {
		t.Fatalf("got %v", err)
	}
	if _, err := s.Watch(within(t), b.Sequence); !errors.Is(err, store.ErrFuture) {
		t.Fatalf("got %v", err)
	}
	c := isDone(t, applying(within(t), s, writing("c")))
	list, sequence, err := s.List(within(t), "")
	if err != nil || len(list) != 2 || sequence != c.Sequence {
		t.Fatalf("%v at %d: %v", list, sequence, err)
	}
}

func TestADatabaseThatWasExchangedIsRefused(t *testing.T) {
	server := postgrestest.Start(t)
	s := mustOpen(t, Options{URL: server.URL})
	isDone(t, applying(within(t), s, writing("a")))
	conn := raw(t, server.URL)
	eventually(t, "the schema is dropped, though the store may be at work in it", func() bool {
		_, err := conn.Exec(within(t), "DROP SCHEMA fairlead CASCADE")
		if err != nil && code(err) != "40P01" { // a deadlock, which the one of the two ends that PostgreSQL chooses
			t.Fatal(err)
		}
		return err == nil
	})
	other := mustOpen(t, Options{URL: server.URL})
	a := <-applying(within(t), s, writing("b"))
	if a.err == nil || !strings.Contains(a.err.Error(), other.Incarnation()) {
		t.Fatalf("got %v", a.err)
	}
	if list, _, err := other.List(within(t), ""); err != nil || len(list) != 0 {
		t.Fatalf("got %v, %v", list, err)
	}
}
