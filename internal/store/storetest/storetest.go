// Package storetest is the suite that every implementation of store.Store
// passes: one subtest per promise. Read [Run] and [Harness] first.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Harness is one empty store, at a place of its own.
type Harness struct {
	// Open opens the store. After all handles are closed, another Open finds
	// what was there.
	Open func(t testing.TB, o Options) store.Store
	// Second opens another handle while one is open.
	Second func(t testing.TB) (store.Store, error)
	// Shared says that handles may be open at the same time, from other
	// processes too, and share the documents. Otherwise Second is refused.
	Shared bool
}

// Options that the suite gives to Open.
type Options struct {
	// Now is the clock by which commits age; nil is the engine's own.
	Now func() time.Time
}

// Run runs the suite; harness is called once for each subtest.
func Run(t *testing.T, harness func(t *testing.T) Harness) {
	groups := []map[string]func(*testing.T, Harness){applyTests, identityTests, watchTests, lifeTests, propertyTests}
	for _, group := range groups {
		for name, test := range group {
			t.Run(name, func(t *testing.T) { test(t, harness(t)) })
		}
	}
}

// deadline bounds every wait of the suite.
const deadline = 60 * time.Second

// fixture is an open store and what its tests do with it again and again.
type fixture struct {
	testing.TB
	store.Store
	ctx context.Context
	ids *atomic.Int64
}

func open(t testing.TB, h Harness) *fixture { return openWith(t, h, Options{}) }

func openWith(t testing.TB, h Harness, o Options) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	s := h.Open(t, o)
	t.Cleanup(func() { _ = s.Close() }) // most tests have closed it; a second Close is allowed
	return &fixture{TB: t, Store: s, ctx: ctx, ids: new(atomic.Int64)}
}

func key(kind, name string) store.Key { return store.Key{Kind: kind, Name: name} }

func put(name string, expect uint64, body string) store.Write {
	return store.Write{Key: key("thing", name), Expect: expect, Body: []byte(body)}
}

func remove(name string, expect uint64) store.Write {
	return store.Write{Key: key("thing", name), Expect: expect, Delete: true}
}

// id returns an identity that this fixture did not use before.
func (f *fixture) id() string { return fmt.Sprintf("apply-%d", f.ids.Add(1)) }

// try applies the writes under a new identity.
func (f *fixture) try(writes ...store.Write) (uint64, error) {
	r, err := f.Apply(f.ctx, store.Apply{ID: f.id(), Writes: writes})
	return r.Sequence, err
}

// must applies the writes, which must be done, and returns the sequence.
func (f *fixture) must(writes ...store.Write) uint64 {
	f.Helper()
	sequence, err := f.try(writes...)
	if err != nil {
		f.Fatalf("apply: %v", err)
	}
	return sequence
}

// conflict applies the writes, which must meet a conflict.
func (f *fixture) conflict(writes ...store.Write) *store.ConflictError {
	f.Helper()
	_, err := f.try(writes...)
	c := store.AsConflict(err)
	if c == nil {
		f.Fatalf("apply: got %v, want a conflict", err)
	}
	return c
}

// stands checks what stands under the name; an empty body is absence.
func (f *fixture) stands(name string, version uint64, body string) {
	f.Helper()
	d, err := f.Get(f.ctx, key("thing", name))
	if body == "" {
		wantError(f, err, store.ErrNotFound)
		return
	}
	if err != nil {
		f.Fatalf("get %s: %v", name, err)
	}
	same(f, d, store.Document{Key: key("thing", name), Version: version, Body: []byte(body)})
}

func (f *fixture) list(kind string) ([]store.Document, uint64) {
	f.Helper()
	list, sequence, err := f.List(f.ctx, kind)
	if err != nil {
		f.Fatalf("list: %v", err)
	}
	return list, sequence
}

func (f *fixture) watch(from uint64) store.Watcher {
	f.Helper()
	w, err := f.Watch(f.ctx, from)
	if err != nil {
		f.Fatalf("watch from %d: %v", from, err)
	}
	f.Cleanup(w.Close)
	return w
}

func (f *fixture) next(w store.Watcher) store.Commit {
	f.Helper()
	c, err := w.Next(f.ctx)
	if err != nil {
		f.Fatalf("next commit: %v", err)
	}
	return c
}

func wantError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got error %v, want %v", got, want)
	}
}

func same(t testing.TB, got, want any) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // much faster on large bodies
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
}
