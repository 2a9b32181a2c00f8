package storetest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// propertyTests :: promise → its test
var propertyTests = map[string]func(*testing.T, Harness){
	"AnyHistoryEndsAsInTheModel": testModel,
}

// model is the port's contract in its shortest form: every document, and
// every Apply that was done.
type model struct {
	documents map[store.Key]store.Document
	done      map[string]store.Apply
	sequences map[string]uint64
	sequence  uint64
}

// apply says what must happen: done, repeated, invalid or the conflict's key.
// next is the sequence that the engine gave, should it be done.
func (m *model) apply(a store.Apply, next uint64) (verdict string) {
	if earlier, ok := m.done[a.ID]; ok {
		if reflect.DeepEqual(earlier, a) {
			return "repeated"
		}
		return "invalid"
	}
	for _, c := range a.Checks {
		if m.documents[c.Key].Version != c.Version {
			return "conflict on " + c.Key.String()
		}
	}
	for _, w := range a.Writes {
		version := m.documents[w.Key].Version
		if !w.Any && (version != w.Expect || w.Delete && version == 0) {
			return "conflict on " + w.Key.String()
		}
	}
	m.sequence = next
	m.done[a.ID], m.sequences[a.ID] = a, m.sequence
	for _, w := range a.Writes {
		if w.Delete {
			delete(m.documents, w.Key)
		} else {
			m.documents[w.Key] = store.Document{Key: w.Key, Version: m.sequence, Body: w.Body}
		}
	}
	return "done"
}

func verdict(r store.Result, err error) string {
	c := store.AsConflict(err)
	switch {
	case c != nil:
		return "conflict on " + c.Key.String()
	case errors.Is(err, store.ErrInvalid):
		return "invalid"
	case err != nil:
		return err.Error()
	case r.Repeated:
		return "repeated"
	}
	return "done"
}

func testModel(t *testing.T, h Harness) {
	f := open(t, h)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		kind := fmt.Sprintf("run-%d", runs)
		_, start := f.list(kind)
		m := &model{documents: map[store.Key]store.Document{}, done: map[string]store.Apply{}, sequences: map[string]uint64{}, sequence: start}
		for range rapid.IntRange(1, 25).Draw(rt, "applies") {
			a := drawApply(rt, m, kind)
			before := m.sequence
			r, err := f.Apply(f.ctx, a)
			want := m.apply(a, r.Sequence)
			if got := verdict(r, err); got != want {
				rt.Fatalf("%+v: got %s, want %s", a, got, want)
			}
			if want == "done" && r.Sequence <= before || err == nil && r.Sequence != m.sequences[a.ID] {
				rt.Fatalf("%+v: %s at sequence %d, before it %d, at first %d", a, want, r.Sequence, before, m.sequences[a.ID])
			}
		}
		compare(rt, f, m, kind, start)
	})
}

func compare(rt *rapid.T, f *fixture, m *model, kind string, start uint64) {
	list, sequence, err := f.List(f.ctx, kind)
	if err != nil || sequence != m.sequence {
		rt.Fatalf("list at %d, want %d: %v", sequence, m.sequence, err)
	}
	equal := func(x, y store.Document) bool { return x.Version == y.Version && string(x.Body) == string(y.Body) }
	if !maps.EqualFunc(asMap(list), m.documents, equal) {
		rt.Fatalf("list is %v, want %v", list, m.documents)
	}
	w, err := f.Watch(f.ctx, start)
	if err != nil {
		rt.Fatal(err)
	}
	defer w.Close()
	got := NewFold()
	for got.Sequence = start; got.Sequence < m.sequence; {
		c, err := w.Next(f.ctx)
		if err != nil {
			rt.Fatal(err)
		}
		if err := got.Add(c); err != nil {
			rt.Fatal(err)
		}
	}
	if !maps.EqualFunc(got.Documents, m.documents, equal) {
		rt.Fatalf("the fold is %v, want %v", got.Documents, m.documents)
	}
}

// drawApply draws from few names and identities, mostly bound to what stands.
func drawApply(rt *rapid.T, m *model, kind string) store.Apply {
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	version := func(k store.Key) uint64 {
		if rapid.IntRange(0, 4).Draw(rt, "stale") == 0 {
			return rapid.Uint64Range(0, m.sequence+1).Draw(rt, "version")
		}
		return m.documents[k].Version
	}
	a := store.Apply{ID: fmt.Sprintf("%s-%d", kind, rapid.IntRange(0, 40).Draw(rt, "id"))}
	for _, name := range rapid.SliceOfNDistinct(names, 0, 2, rapid.ID[string]).Draw(rt, "checks") {
		k := key(kind, name)
		a.Checks = append(a.Checks, store.Check{Key: k, Version: version(k)})
	}
	for _, name := range rapid.SliceOfNDistinct(names, 1, 3, rapid.ID[string]).Draw(rt, "writes") {
		k := key(kind, name)
		w := store.Write{Key: k, Expect: version(k), Any: rapid.IntRange(0, 4).Draw(rt, "any") == 0}
		if w.Delete = rapid.IntRange(0, 3).Draw(rt, "delete") == 0; !w.Delete {
			w.Body = fmt.Append(nil, rapid.IntRange(0, 9).Draw(rt, "body"))
		}
		a.Writes = append(a.Writes, w)
	}
	return a
}
