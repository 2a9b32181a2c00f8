package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// applyTests :: promise → its test
var applyTests = map[string]func(*testing.T, Harness){
	"AWriteIsBoundToTheVersionItRead":               testCompareAndSwap,
	"AnyWritesWhateverStands":                       testAny,
	"AnApplyIsDoneWholeOrNotAtAll":                  testWhole,
	"ACheckGuardsADocumentThatIsNotWritten":         testChecks,
	"AConflictTellsWhatStands":                      testConflict,
	"AConflictFailsItsOwnApplyAlone":                testGroups,
	"OfWritersBoundToOneVersionExactlyOneWins":      testRace,
	"AVersionIsNeverUsedAgainAfterDeletion":         testVersions,
	"ABodyIsKeptByteForByte":                        testBodies,
	"AnInvalidApplyIsRefusedAndChangesNothing":      testInvalid,
	"AListIsOrderedByNameAndTrueAtItsSequence":      testList,
	"AListIsTrueAtItsSequenceUnderConcurrentWrites": testListUnderWrites,
}

func testCompareAndSwap(t *testing.T, h Harness) {
	f := open(t, h)
	f.stands("a", 0, "")
	v1 := f.must(put("a", 0, `1`))
	f.stands("a", v1, `1`)
	v2 := f.must(put("a", v1, `2`))
	f.stands("a", v2, `2`)
	f.conflict(put("a", v1, `3`))
	f.conflict(put("a", 0, `3`))
	f.conflict(put("b", v2, `3`))
	f.conflict(remove("a", v1))
	f.conflict(remove("a", 0))
	f.stands("a", v2, `2`)
	f.must(remove("a", v2))
	f.stands("a", 0, "")
	f.conflict(remove("a", v2))
	f.conflict(remove("a", 0))
}

func testAny(t *testing.T, h Harness) {
	f := open(t, h)
	always := func(w store.Write) store.Write { w.Any = true; return w }
	f.stands("a", f.must(always(put("a", 0, `1`))), `1`)
	f.stands("a", f.must(always(put("a", 77, `2`))), `2`)
	f.must(always(remove("a", 0)))
	f.stands("a", 0, "")
	before := f.must(put("b", 0, `1`))
	nothing := f.must(always(remove("a", 0)))
	same(t, f.next(f.watch(before)), store.Commit{Sequence: nothing, ApplyID: fmt.Sprintf("apply-%d", f.ids.Load())})
}

func testWhole(t *testing.T, h Harness) {
	f := open(t, h)
	v := f.must(put("a", 0, `1`), put("b", 0, `1`), store.Write{Key: key("other", "a"), Body: []byte(`1`)})
	f.stands("a", v, `1`)
	f.stands("b", v, `1`)
	c := f.conflict(put("c", 0, `2`), put("a", v, `2`), put("b", v+1, `2`))
	same(t, c.Key, key("thing", "b"))
	f.stands("a", v, `1`)
	f.stands("b", v, `1`)
	f.stands("c", 0, "")
	_, sequence := f.list("")
	same(t, sequence, v)
}

func testChecks(t *testing.T, h Harness) {
	f := open(t, h)
	lease := f.must(put("lease", 0, `1`))
	try := func(name string, checks ...store.Check) error {
		_, err := f.Apply(f.ctx, store.Apply{ID: f.id(), Checks: checks, Writes: []store.Write{put(name, 0, `1`)}})
		return err
	}
	held := store.Check{Key: key("thing", "lease"), Version: lease}
	absent := store.Check{Key: key("thing", "nobody")}
	if err := try("a", held, absent); err != nil {
		t.Fatalf("with checks that hold: %v", err)
	}
	for _, c := range []store.Check{
		{Key: held.Key, Version: lease + 1}, {Key: held.Key}, {Key: absent.Key, Version: 1},
	} {
		got := store.AsConflict(try("b", held, c))
		if got == nil || got.Key != c.Key || got.Expected != c.Version {
			t.Fatalf("check %+v: got %v, want a conflict on it", c, got)
		}
	}
	f.stands("b", 0, "")
	if _, err := f.Apply(f.ctx, store.Apply{ID: f.id(), Checks: []store.Check{held}}); err != nil {
		t.Fatalf("checks alone: %v", err)
	}
}

func testConflict(t *testing.T, h Harness) {
	f := open(t, h)
	v := f.must(put("a", 0, `{"is":"there"}`))
	there := store.Document{Key: key("thing", "a"), Version: v, Body: []byte(`{"is":"there"}`)}
	same(t, *f.conflict(put("a", 0, `2`)), store.ConflictError{Key: there.Key, Stands: there})
	same(t, *f.conflict(remove("a", v+5)), store.ConflictError{Key: there.Key, Expected: v + 5, Stands: there})
	same(t, *f.conflict(put("b", v, `2`)), store.ConflictError{Key: key("thing", "b"), Expected: v})
}

// testGroups writes from many goroutines at once, so that engines that group
// what waits do so. Every second Apply meets a conflict in its second write.
func testGroups(t *testing.T, h Harness) {
	f := open(t, h)
	taken := f.must(put("taken", 0, `1`))
	const n = 200
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			writes := []store.Write{put(fmt.Sprintf("w%03d", i), 0, `1`)}
			if i%2 == 1 {
				writes = append(writes, put("taken", taken+1, `2`))
			}
			_, errs[i] = f.try(writes...)
		})
	}
	all.Wait()
	for i, err := range errs {
		name := fmt.Sprintf("w%03d", i)
		if i%2 == 0 {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			continue
		}
		if store.AsConflict(err) == nil {
			t.Fatalf("%s: got %v, want a conflict", name, err)
		}
		f.stands(name, 0, "")
	}
	list, _ := f.list("thing")
	same(t, len(list), n/2+1)
	f.stands("taken", taken, `1`)
}

func testRace(t *testing.T, h Harness) {
	f := open(t, h)
	version := f.must(put("a", 0, `0`))
	for range 20 {
		var all sync.WaitGroup
		won := make(chan uint64, 8)
		for i := range 8 {
			all.Go(func() {
				v, err := f.try(put("a", version, fmt.Sprint(i)))
				if err == nil {
					won <- v
				} else if store.AsConflict(err) == nil {
					t.Errorf("got %v, want a conflict", err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("%d writers won, want one", len(won))
		}
		version = <-won
	}
}

func testVersions(t *testing.T, h Harness) {
	f := open(t, h)
	seen := map[uint64]bool{}
	last := uint64(0)
	for range 5 {
		v := f.must(put("a", 0, `1`))
		if seen[v] || v <= last {
			t.Fatalf("version %d after %d", v, last)
		}
		seen[v], last = true, v
		f.must(remove("a", v))
		f.conflict(remove("a", v))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, h)
	f.ids.Store(1000)
	if v := f.must(put("a", 0, `1`)); v <= last {
		t.Fatalf("version %d after opening again, %d before", v, last)
	}
}

func testBodies(t *testing.T, h Harness) {
	f := open(t, h)
	start := f.must(put("start", 0, `1`))
	bodies := []string{
		`null`, `""`, `0`, `{"b":1,"a":2,"b":3}`, " {\n\t\"spaced\" : 1e0 } ", `1.000000000000000000000001`,
		`"\u0000\ud800 \/"`, `"żółw 🐢 ` + "\u2028" + `"`, `12345678901234567890123`, `"` + strings.Repeat("x", 1<<20) + `"`,
	}
	w := f.watch(start)
	for i, body := range bodies {
		name := fmt.Sprintf("b%02d", i)
		mine := []byte(body)
		v := f.must(store.Write{Key: key("thing", name), Body: mine})
		mine[0] = '#' // the store must not keep the caller's memory
		f.stands(name, v, body)
		same(t, string(f.next(w).Changes[0].Body), body)
	}
	list, _ := f.list("thing")
	for i, body := range bodies {
		same(t, string(list[i].Body), body)
	}
	list[0].Body[0] = '#' // nor give its own
	d, err := f.Get(f.ctx, list[0].Key)
	if err != nil || string(d.Body) != bodies[0] {
		t.Fatalf("got %s, %v after a reader changed its copy", d.Body, err)
	}
}

func testInvalid(t *testing.T, h Harness) {
	f := open(t, h)
	good := put("a", 0, `1`)
	with := func(change func(*store.Write)) []store.Write {
		w := put("b", 0, `1`)
		change(&w)
		return []store.Write{good, w}
	}
	for name, a := range map[string]store.Apply{
		"no ID":             {Writes: []store.Write{good}},
		"a long ID":         {ID: strings.Repeat("x", store.MaxID+1), Writes: []store.Write{good}},
		"nothing to do":     {ID: "x"},
		"no kind":           {ID: "x", Writes: with(func(w *store.Write) { w.Kind = "" })},
		"a bad kind":        {ID: "x", Writes: with(func(w *store.Write) { w.Kind = "A/b" })},
		"no name":           {ID: "x", Writes: with(func(w *store.Write) { w.Name = "" })},
		"a control char":    {ID: "x", Writes: with(func(w *store.Write) { w.Name = "a\nb" })},
		"a name not UTF-8":  {ID: "x", Writes: with(func(w *store.Write) { w.Name = "a\xff" })},
		"no body":           {ID: "x", Writes: with(func(w *store.Write) { w.Body = nil })},
		"a body not JSON":   {ID: "x", Writes: with(func(w *store.Write) { w.Body = []byte("{") })},
		"a body not UTF-8":  {ID: "x", Writes: with(func(w *store.Write) { w.Body = []byte("\"\xff\"") })},
		"a key twice":       {ID: "x", Writes: with(func(w *store.Write) { w.Name = "a" })},
		"a check of no key": {ID: "x", Writes: []store.Write{good}, Checks: []store.Check{{}}},
	} {
		if _, err := f.Apply(f.ctx, a); err == nil {
			t.Errorf("%s: was done", name)
		} else {
			wantError(t, err, store.ErrInvalid)
		}
	}
	list, sequence := f.list("")
	if len(list) != 0 || sequence != 0 {
		t.Fatalf("got %d documents at %d, want none", len(list), sequence)
	}
}

func testList(t *testing.T, h Harness) {
	f := open(t, h)
	list, sequence := f.list("")
	if len(list) != 0 || sequence != 0 {
		t.Fatalf("a new store lists %v at %d", list, sequence)
	}
	names := []string{"b", "a-", "a", "B", "é", "ab", "a.b", "a/b", "z z"}
	for _, n := range names {
		f.must(put(n, 0, `1`))
	}
	other := f.must(store.Write{Key: key("another", "z"), Body: []byte(`1`)})
	list, sequence = f.list("thing")
	same(t, sequence, other)
	var got []string
	for _, d := range list {
		got = append(got, d.Name)
	}
	same(t, got, []string{"B", "a", "a-", "a.b", "a/b", "ab", "b", "z z", "é"})
	list, _ = f.list("")
	same(t, len(list), len(names)+1)
	same(t, list[0].Key, key("another", "z"))
	if list, _ = f.list("unknown"); len(list) != 0 {
		t.Fatalf("an unknown kind lists %v", list)
	}
}

// testListUnderWrites moves two documents together: a list that mixes two
// states, or is not true at its sequence, shows them apart.
func testListUnderWrites(t *testing.T, h Harness) {
	f := open(t, h)
	v := f.must(put("a", 0, `0`), put("b", 0, `0`))
	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			next, err := f.try(put("a", v, fmt.Sprint(i)), put("b", v, fmt.Sprint(i)))
			if err != nil {
				t.Errorf("apply: %v", err)
				return
			}
			v = next
		}
	})
	for range 100 {
		list, sequence := f.list("thing")
		if len(list) != 2 || list[0].Version != sequence || list[1].Version != sequence {
			t.Errorf("at %d: %v", sequence, list)
		}
	}
	close(stop)
	writer.Wait()
}
