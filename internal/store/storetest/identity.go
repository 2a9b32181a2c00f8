package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// identityTests :: promise → its test
var identityTests = map[string]func(*testing.T, Harness){
	"ARepeatedApplyIsDoneOnce":                  testRepeated,
	"ARepeatedApplyIsDoneOnceAfterOpeningAgain": testRepeatedAfterReopen,
	"AnApplyRepeatedAtTheSameTimeIsDoneOnce":    testRepeatedConcurrently,
	"AnIdentityWithOtherContentIsRefused":       testOtherContent,
	"AnIdentityIsAnyText":                       testAnyIdentity,
	"AnApplyThatMetAConflictMayBeTriedAgain":    testRepeatedAfterConflict,
	"AnIdentityIsRememberedForAnHour":           testRemembered,
	"AnApplyThatItsCallerLeftIsToldTruly":       testLeft,
}

func testRepeated(t *testing.T, h Harness) {
	f := open(t, h)
	a := store.Apply{ID: "once", Writes: []store.Write{put("a", 0, `1`)}}
	first, err := f.Apply(f.ctx, a)
	if err != nil || first.Repeated {
		t.Fatalf("first: %+v, %v", first, err)
	}
	f.must(put("a", first.Sequence, `2`)) // what stands has moved on since
	second, err := f.Apply(f.ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	same(t, second, store.Result{Sequence: first.Sequence, Repeated: true})
	a.Essential = true
	if _, err := f.Apply(f.ctx, a); err != nil {
		t.Fatalf("repeated as essential: %v", err)
	}
	_, sequence := f.list("")
	same(t, sequence, first.Sequence+1)
}

func testRepeatedAfterReopen(t *testing.T, h Harness) {
	f := open(t, h)
	a := store.Apply{ID: "once", Writes: []store.Write{put("a", 0, `1`)}}
	first, err := f.Apply(f.ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, h)
	second, err := f.Apply(f.ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	same(t, second, store.Result{Sequence: first.Sequence, Repeated: true})
	a.Writes[0].Body = []byte(`2`)
	_, err = f.Apply(f.ctx, a)
	wantError(t, err, store.ErrInvalid)
}

func testRepeatedConcurrently(t *testing.T, h Harness) {
	f := open(t, h)
	var all sync.WaitGroup
	results := make([]store.Result, 16)
	for i := range results {
		all.Go(func() {
			var err error
			results[i], err = f.Apply(f.ctx, store.Apply{ID: "once", Writes: []store.Write{put("a", 0, `1`)}})
			if err != nil {
				t.Errorf("apply: %v", err)
			}
		})
	}
	all.Wait()
	done := 0
	for _, r := range results {
		same(t, r.Sequence, results[0].Sequence)
		if !r.Repeated {
			done++
		}
	}
	same(t, done, 1)
	_, sequence := f.list("")
	same(t, sequence, results[0].Sequence)
}

func testOtherContent(t *testing.T, h Harness) {
	f := open(t, h)
	base := store.Apply{ID: "once", Checks: []store.Check{{Key: key("thing", "none")}}, Writes: []store.Write{put("a", 0, `1`)}}
	if _, err := f.Apply(f.ctx, base); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]store.Apply{
		"other body":   {Checks: base.Checks, Writes: []store.Write{put("a", 0, `2`)}},
		"other name":   {Checks: base.Checks, Writes: []store.Write{put("b", 0, `1`)}},
		"other expect": {Checks: base.Checks, Writes: []store.Write{put("a", 1, `1`)}},
		"a deletion":   {Checks: base.Checks, Writes: []store.Write{remove("a", 0)}},
		"more writes":  {Checks: base.Checks, Writes: []store.Write{put("a", 0, `1`), put("b", 0, `1`)}},
		"no checks":    {Writes: base.Writes},
		"other check":  {Checks: []store.Check{{Key: key("thing", "none"), Version: 1}}, Writes: base.Writes},
	} {
		a.ID = base.ID
		if _, err := f.Apply(f.ctx, a); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, store.ErrInvalid)
		}
	}
	list, _ := f.list("")
	same(t, len(list), 1)
}

func testAnyIdentity(t *testing.T, h Harness) {
	f := open(t, h)
	w := f.watch(0)
	for i, id := range []string{"\x00", `\0`, `\\0`, "\\\x00", "a\nb", " a", "a ", "A", "a", "żółw", "'", strings.Repeat("é", store.MaxID/2)} {
		a := store.Apply{ID: id, Writes: []store.Write{put(fmt.Sprint(i), 0, `1`)}}
		first, err := f.Apply(f.ctx, a)
		if err != nil || first.Repeated {
			t.Fatalf("%q: %+v, %v", id, first, err)
		}
		second, err := f.Apply(f.ctx, a)
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		same(t, second, store.Result{Sequence: first.Sequence, Repeated: true})
		same(t, f.next(w).ApplyID, id)
	}
}

func testRepeatedAfterConflict(t *testing.T, h Harness) {
	f := open(t, h)
	v := f.must(put("a", 0, `1`))
	a := store.Apply{ID: "again", Writes: []store.Write{put("a", 0, `2`)}}
	if _, err := f.Apply(f.ctx, a); store.AsConflict(err) == nil {
		t.Fatalf("got %v, want a conflict", err)
	}
	f.must(remove("a", v))
	r, err := f.Apply(f.ctx, a)
	if err != nil || r.Repeated {
		t.Fatalf("got %+v, %v, want it done now", r, err)
	}
}

func testRemembered(t *testing.T, h Harness) {
	clock := newClock()
	f := openWith(t, h, Options{Now: clock.now})
	a := store.Apply{ID: "once", Writes: []store.Write{put("a", 0, `1`)}}
	first, err := f.Apply(f.ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		clock.advance(6*time.Minute - time.Second)
		f.must(store.Write{Key: key("thing", "b"), Any: true, Body: []byte(`1`)})
		r, err := f.Apply(f.ctx, a)
		if err != nil {
			t.Fatal(err)
		}
		same(t, r, store.Result{Sequence: first.Sequence, Repeated: true})
	}
}

// testLeft: of an Apply whose context ends on the way, it is there if the
// answer was done, it is not there if the answer was any but unknown; and what
// is unknown is settled by repeating it, however often its caller left before.
func testLeft(t *testing.T, h Harness) {
	f := open(t, h)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25 {
				f.leaveUntilDone(fmt.Sprintf("w%d-%d", i, j), time.Duration(j*j)*20*time.Microsecond)
			}
		})
	}
	all.Wait()
	list, sequence := f.list("thing")
	same(t, len(list), 200)
	same(t, sequence, uint64(200)) // each was done once
}

// leaveUntilDone applies the named document under one identity, at first with
// little time and then with more.
func (f *fixture) leaveUntilDone(name string, patience time.Duration) {
	a := store.Apply{ID: "left-" + name, Writes: []store.Write{put(name, 0, `1`)}}
	unknown := false
	for ; ; patience = 2*patience + 10*time.Microsecond {
		ctx, cancel := context.WithTimeout(f.ctx, patience)
		r, err := f.Apply(ctx, a)
		cancel()
		_, getErr := f.Get(f.ctx, a.Writes[0].Key)
		there := getErr == nil
		if getErr != nil && !errors.Is(getErr, store.ErrNotFound) {
			f.Errorf("%s: %v", name, getErr)
			return
		}
		switch {
		case err == nil && there && (unknown || !r.Repeated):
			return
		case errors.Is(err, store.ErrUnknown):
			unknown = true
		case errors.Is(err, context.DeadlineExceeded) && (unknown || !there):
		default:
			f.Errorf("%s: it is there: %t, it was unknown before: %t, and the answer was %+v, %v", name, there, unknown, r, err)
			return
		}
		if f.ctx.Err() != nil {
			f.Errorf("%s: not done", name)
			return
		}
	}
}

// clock is moved by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
