package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// lifeTests :: promise → its test
var lifeTests = map[string]func(*testing.T, Harness){
	"WhatWasAppliedIsThereAfterOpeningAgain": testReopen,
	"AClosedStoreAnswersClosed":              testClosed,
	"CloseAnswersEveryoneWhoWaits":           testCloseUnderLoad,
	"AnEndedContextAppliesNothing":           testEndedContext,
	"AnotherHandleSeesTheSame":               testHandles,
}

func testReopen(t *testing.T, h Harness) {
	f := open(t, h)
	incarnation := f.Incarnation()
	if len(incarnation) < 16 {
		t.Fatalf("incarnation %q is too short to be random", incarnation)
	}
	if g := f.Guarantee(); g.Engine == "" || g.Description == "" {
		t.Fatalf("guarantee %+v", g)
	}
	v := f.must(put("a", 0, `1`), put("b", 0, `1`))
	f.must(remove("b", v))
	want, at := f.list("")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, h)
	got, sequence := f.list("")
	same(t, got, want)
	same(t, sequence, at)
	same(t, f.Incarnation(), incarnation)
}

func testClosed(t *testing.T, h Harness) {
	f := open(t, h)
	f.must(put("a", 0, `1`))
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.try(put("b", 0, `1`))
	wantError(t, err, store.ErrClosed)
	_, err = f.Get(f.ctx, key("thing", "a"))
	wantError(t, err, store.ErrClosed)
	_, _, err = f.List(f.ctx, "")
	wantError(t, err, store.ErrClosed)
	_, err = f.Watch(f.ctx, 0)
	wantError(t, err, store.ErrClosed)
}

// testCloseUnderLoad: whoever was told done finds it, whoever was not does not.
func testCloseUnderLoad(t *testing.T, h Harness) {
	f := open(t, h)
	const writers = 16
	var all sync.WaitGroup
	var mu sync.Mutex
	done := map[string]bool{}
	some := make(chan struct{}, 1000)
	for i := range writers {
		all.Go(func() {
			for j := 0; ; j++ {
				name := fmt.Sprintf("w%d-%d", i, j)
				_, err := f.try(put(name, 0, `1`))
				if err != nil {
					wantErrorf(t, err, store.ErrClosed)
					return
				}
				mu.Lock()
				done[name] = true
				mu.Unlock()
				select {
				case some <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 50 {
		<-some
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	f = open(t, h)
	list, _ := f.list("thing")
	same(t, len(list), len(done))
	for _, d := range list {
		if !done[d.Name] {
			t.Errorf("%s is there, but was answered as closed", d.Name)
		}
	}
}

// wantErrorf is wantError for goroutines, which may not end a test.
func wantErrorf(t testing.TB, got, want error) {
	t.Helper()
	if got == nil || !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func testEndedContext(t *testing.T, h Harness) {
	f := open(t, h)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.Apply(ctx, store.Apply{ID: f.id(), Writes: []store.Write{put("a", 0, `1`)}})
	wantError(t, err, context.Canceled)
	f.must(put("b", 0, `1`))
	f.stands("a", 0, "")
	_, err = f.Get(ctx, key("thing", "b"))
	wantError(t, err, context.Canceled)
	_, _, err = f.List(ctx, "")
	wantError(t, err, context.Canceled)
	_, err = f.Watch(ctx, 0)
	wantError(t, err, context.Canceled)
}

// testHandles: an engine either shares its documents between handles, or
// refuses the second one while the first is open.
func testHandles(t *testing.T, h Harness) {
	one := open(t, h)
	v := one.must(put("a", 0, `1`))
	if !h.Shared {
		_, err := h.Second(t)
		wantError(t, err, store.ErrLocked)
		one.must(put("a", v, `2`))
		return
	}
	second, err := h.Second(t)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	two := &fixture{TB: t, Store: second, ctx: one.ctx, ids: one.ids}
	same(t, one.Incarnation(), two.Incarnation())
	w := two.watch(v)
	two.stands("a", v, `1`)
	v2 := one.must(put("a", v, `2`))
	same(t, two.next(w).Sequence, v2)
	two.conflict(put("a", v, `3`))
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	same(t, two.must(put("a", v2, `3`)), two.next(w).Sequence)
}
