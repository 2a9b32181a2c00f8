package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
	"github.com/fairlead-platform/fairlead/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var b *memory.Backend
		return storetest.Harness{
			Shared: true,
			Open: func(_ testing.TB, o storetest.Options) store.Store {
				if b == nil {
					b = memory.New(memory.Options{Now: o.Now})
				}
				return b.Open()
			},
			Second: func(testing.TB) (store.Store, error) { return b.Open(), nil },
		}
	})
}

func TestAWatcherWaitsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		one, two := b.Open(), b.Open()
		w, err := two.Watch(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(24 * time.Hour)
			if _, err := one.Apply(context.Background(), write("late")); err != nil {
				t.Errorf("apply: %v", err)
			}
		}()
		start := time.Now()
		if _, err := w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != 24*time.Hour {
			t.Fatalf("waited %s", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestCommitsBeyondTheBoundAreTooOldAndIdentitiesStay(t *testing.T) {
	s := memory.Open(memory.Options{KeepCommits: 2})
	for _, id := range []string{"a", "b", "c", "d"} {
		if _, err := s.Apply(t.Context(), write(id)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Watch(t.Context(), 1); !errors.Is(err, store.ErrTooOld) {
		t.Fatalf("got %v", err)
	}
	if _, err := s.Watch(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r, err := s.Apply(t.Context(), write("a"))
	if err != nil || r != (store.Result{Sequence: 1, Repeated: true}) {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func write(id string) store.Apply {
	return store.Apply{ID: id, Writes: []store.Write{{Key: store.Key{Kind: "thing", Name: id}, Body: []byte(`1`)}}}
}
