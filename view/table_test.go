package view_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/view"
)

// step does one random thing to the plane's routes.
func step(t *rapid.T, w *world) {
	service := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "service")
	old, exists := w.routes[service]
	switch rapid.IntRange(0, 3).Draw(t, "step") {
	case 0:
		w.remove(service)
	case 1:
		if exists && old.Deleted {
			w.collect(service)
		}
	default:
		w.set(route(service, rapid.IntRange(1, 5).Draw(t, "revision")))
	}
}

func TestTheFoldOfDeltasEqualsTheFullTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld("i")
		w.set(route("a", 1))
		held, err := (*view.Table)(nil).Apply(w.table().Whole())
		if err != nil {
			t.Fatal(err)
		}
		sent := w.table()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for range rapid.IntRange(0, 4).Draw(t, "burst") {
				step(t, w)
			}
			now := w.table()
			d := now.DeltaFrom(sent)
			if rapid.Bool().Draw(t, "by sequence") {
				d = now.Delta(sent.Version, true)
			}
			if held, err = held.Apply(d); err != nil {
				t.Fatal(err)
			}
			sent = now
			same(t, held, now)
		}
	})
}

func same(t *rapid.T, got, want *view.Table) {
	if diff := cmp.Diff(want.Routes(), got.Routes()); diff != "" {
		t.Fatalf("tables differ:\n%s", diff)
	}
	if got.Digest != want.Digest || got.Version != want.Version || got.Len() != want.Len() {
		t.Fatalf("got %s %s %d, want %s %s %d", got.Version, got.Digest, got.Len(), want.Version, want.Digest, want.Len())
	}
}

func TestDigestsAreEqualIfAndOnlyIfTheContentIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newWorld("i"), newWorld("i")
		for range rapid.IntRange(0, 8).Draw(t, "a") {
			step(t, a)
		}
		for range rapid.IntRange(0, 8).Draw(t, "b") {
			step(t, b)
		}
		equal := cmp.Equal(a.table().Routes(), b.table().Routes())
		if got := a.table().Digest == b.table().Digest; got != equal {
			t.Fatalf("digests equal: %v, contents equal: %v", got, equal)
		}
	})
}

func TestApplyLeavesTheEarlierTableAsItWas(t *testing.T) {
	w := newWorld("i")
	for i := range 600 {
		w.set(route(fmt.Sprintf("s%d", i), 1))
	}
	before := w.table()
	routes, digest := before.Routes(), before.Digest
	w.set(route("s1", 2))
	w.remove("s2")
	w.set(route("new", 1))
	if _, err := before.Apply(w.table().DeltaFrom(before)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(routes, before.Routes()); diff != "" || before.Digest != digest || before.Len() != 600 {
		t.Errorf("the earlier table changed:\n%s", diff)
	}
}

func TestADeltaFromAnotherBaseIsNotApplied(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	one := w.table()
	w.set(route("a", 2))
	two := w.table()
	w.set(route("a", 3))
	if _, err := one.Apply(w.table().DeltaFrom(two)); !errors.Is(err, view.ErrBase) {
		t.Errorf("got %v, want %v", err, view.ErrBase)
	}
	if _, err := (*view.Table)(nil).Apply(two.DeltaFrom(one)); !errors.Is(err, view.ErrBase) {
		t.Errorf("got %v, want %v", err, view.ErrBase)
	}
}

func TestADeltaWhoseDigestDisagreesIsNotApplied(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	one := w.table()
	w.set(route("b", 1))
	d := w.table().DeltaFrom(one)
	d.Changed = nil
	if _, err := one.Apply(d); !errors.Is(err, view.ErrDigest) {
		t.Errorf("got %v, want %v", err, view.ErrDigest)
	}
}

func TestADeltaBySequenceIsFullWhereTheBaseCannotBeTrusted(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	w.remove("a")
	w.set(route("b", 1))
	w.collect("a")
	w.set(route("b", 2))
	now := w.table() // at 5, tombstones dropped at 4
	at := func(incarnation string, epoch, counter uint64) view.Version {
		return view.Version{Incarnation: incarnation, Epoch: epoch, Counter: counter}
	}
	for name, c := range map[string]struct {
		base  view.Version
		known bool
		full  bool
	}{
		"zero":            {view.Version{}, true, true},
		"not known":       {at("i", 1, 4), false, true},
		"foreign":         {at("j", 1, 4), true, true},
		"below the floor": {at("i", 1, 3), true, true},
		"ahead":           {at("i", 1, 6), true, true},
		"of a later term": {at("i", 2, 4), true, true},
		"at the floor":    {at("i", 1, 4), true, false},
		"current":         {at("i", 1, 5), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := now.Delta(c.base, c.known).Full(); got != c.full {
				t.Errorf("full is %v, want %v", got, c.full)
			}
		})
	}
}

func TestWhoIsCurrentIsSentOnlyTheNewNumber(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	held := w.table()
	w.epoch = view.Epoch{Incarnation: "i", Number: 2, Nonce: "n2"}
	for name, d := range map[string]view.Delta{"by content": w.table().DeltaFrom(held), "by sequence": w.table().Delta(held.Version, true)} {
		if d.Full() || len(d.Changed)+len(d.Dropped) != 0 {
			t.Errorf("%s: sent %+v", name, d)
		}
		if got, err := held.Apply(d); err != nil || got.Version != w.table().Version {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADiffNamesWhatChangedWhateverTheVersionsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newWorld("i"), newWorld("j")
		for range rapid.IntRange(0, 6).Draw(t, "a") {
			step(t, a)
		}
		for range rapid.IntRange(0, 6).Draw(t, "b") {
			step(t, b)
		}
		changed, dropped := b.table().Diff(a.table())
		for _, r := range changed {
			a.routes[r.Service] = r
		}
		for _, s := range dropped {
			delete(a.routes, s)
		}
		if diff := cmp.Diff(b.table().Routes(), a.table().Routes()); diff != "" {
			t.Fatalf("the difference does not lead from one to the other:\n%s", diff)
		}
	})
	w := newWorld("i")
	w.set(route("a", 1))
	if changed, dropped := w.table().Diff(nil); len(changed) != 1 || len(dropped) != 0 {
		t.Errorf("from nothing: %v %v", changed, dropped)
	}
	if changed, dropped := (*view.Table)(nil).Diff(w.table()); len(changed) != 0 || len(dropped) != 1 {
		t.Errorf("to nothing: %v %v", changed, dropped)
	}
}

func TestADigestIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := view.Digest{rapid.Uint64().Draw(t, "0"), rapid.Uint64().Draw(t, "1")}
		if got, err := view.ParseDigest(d.String()); err != nil || got != d {
			t.Fatalf("got %v, %v", got, err)
		}
	})
	for _, s := range []string{"x", "0123", "g0000000000000000000000000000000", "+000000000000001+000000000000001"} {
		if _, err := view.ParseDigest(s); err == nil {
			t.Errorf("read %q", s)
		}
	}
}

func TestAVersionIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := view.Version{
			Region:      rapid.StringMatching(`([a-z]{1,3}-[0-9])?`).Draw(t, "region"),
			Incarnation: rapid.StringMatching(`[0-9a-f]{6}`).Draw(t, "incarnation"),
			Epoch:       rapid.Uint64().Draw(t, "epoch"), Counter: rapid.Uint64().Draw(t, "counter"),
		}
		if got, err := view.ParseVersion(v.String()); err != nil || got != v {
			t.Fatalf("got %v, %v", got, err)
		}
	})
}

func TestARouteIsCheckedByName(t *testing.T) {
	good := func() view.Route { return route("a", 1) }
	for name, c := range map[string]struct {
		edit func(*view.Route)
		ok   bool
	}{
		"good":              {func(*view.Route) {}, true},
		"scaled to zero":    {func(r *view.Route) { r.Splits = nil }, true},
		"percent":           {func(r *view.Route) { r.Splits[0].Percent = 99 }, false},
		"negative":          {func(r *view.Route) { r.Splits[0].Percent = -1 }, false},
		"no group":          {func(r *view.Route) { r.Splits[0].Group = "" }, false},
		"nobody allowed":    {func(r *view.Route) { r.Splits[0].Allowed = nil }, false},
		"upper case":        {func(r *view.Route) { r.Hosts = []string{"A.localhost"} }, false},
		"host with a port":  {func(r *view.Route) { r.Hosts = []string{"a:80"} }, false},
		"negative limit":    {func(r *view.Route) { r.Limits.Drain = -1 }, false},
		"one tag twice":     {func(r *view.Route) { s := r.Splits[0]; s.Percent, s.Tag = 50, "x"; r.Splits = []view.Split{s, s} }, false},
		"by tag only":       {func(r *view.Route) { r.Splits[0].Percent, r.Splits[0].Tag = 0, "next" }, true},
		"two without a tag": {func(r *view.Route) { s := r.Splits[0]; s.Percent = 50; r.Splits = []view.Split{s, s} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := good()
			c.edit(&r)
			if err := r.Check(); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			w := newWorld("i")
			for i := range n {
				w.set(route(fmt.Sprintf("service-%d", i), 1))
			}
			before := w.table()
			w.set(route("service-7", 2))
			d := w.table().DeltaFrom(before)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := before.Apply(d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTake(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		w := newWorld("i")
		for i := range n {
			w.set(route(fmt.Sprintf("service-%d", i), 1))
		}
		before := w.table()
		held, _, err := (*view.Held)(nil).Take(before.Whole(), view.Rules{})
		if err != nil {
			b.Fatal(err)
		}
		w.set(route("service-7", 2))
		now := w.table()
		b.Run(fmt.Sprintf("one change/services=%d", n), func(b *testing.B) {
			d := now.DeltaFrom(before)
			for b.Loop() {
				if _, _, err := held.Take(d, view.Rules{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("full/services=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := held.Take(now.Whole(), view.Rules{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("delta from/services=%d", n), func(b *testing.B) {
			for b.Loop() {
				now.DeltaFrom(before)
			}
		})
	}
}
