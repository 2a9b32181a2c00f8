package evaluate

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/bucket/dir"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

// estates are how many instances a region is tried with: the estate that is
// promised, and others, so that growth is seen.
var estates = []int{10_000, 60_000, 240_000}

// sizes of an estate's 450 services, as they are found: most small, one in
// fifty with thousands of instances.
func sizes(instances int) []int {
	out := make([]int, 450)
	for i := range out {
		per := 42 // of 60,000
		switch {
		case i < 9:
			per = 3000
		case i < 99:
			per = 200
		}
		out[i] = max(per*instances/60_000, 1)
	}
	for left := instances - total(out); left > 0; left-- {
		out[99+left%351]++
	}
	return out
}

func total(n []int) (sum int) {
	for _, x := range n {
		sum += x
	}
	return sum
}

// rowsOf an estate, in three zones.
func rowsOf(instances int) []registry.Instance {
	rows := make([]registry.Instance, 0, instances)
	for i, n := range sizes(instances) {
		name := fmt.Sprintf("service-%03d", i)
		for k := range n {
			h := uint32(len(rows) + 1)
			rows = append(rows, registry.Instance{
				ID: fmt.Sprintf("01M8N55113392MA30Q%08d", h), Handle: h, Service: name, Revision: name + "-00001",
				Slot: fmt.Sprintf("%s-00001.%d", name, k), Host: fmt.Sprintf("host-%d", h%2000), Zone: string(rune('a' + k%3)),
				Address: fmt.Sprintf("10.%d.%d.%d:8080", h>>16, h>>8&255, h&255), Source: registry.Host, Listening: true, EverReady: true,
			})
		}
	}
	return rows
}

// empty is an evaluator that knows the services and their routes.
func empty() *Evaluator {
	e := New(view.Version{Incarnation: "i", Epoch: 1}, view.Epoch{Incarnation: "i", Number: 1}, 0)
	c := eligibility.Default()
	c.Dependencies = []eligibility.Dependency{{Name: "database"}}
	for i := range 450 {
		name := fmt.Sprintf("service-%03d", i)
		e.SetService(name, c, view.GuardPolicy{})
		e.SetRoute(view.Route{Service: name, Splits: []view.Split{{Percent: 100, Group: name + "-00001", Allowed: []string{name + "-00001"}}}})
	}
	return e
}

// estate is an evaluator in which everything is eligible and published.
func estate(instances int) *Evaluator {
	e := empty()
	for _, row := range rowsOf(instances) {
		e.Enter(row, nil)
	}
	for n := int64(1); n <= 3; n++ {
		t := tickOf(n, instances, 1, 1, 0)
		for i := range t.Rows {
			t.Rows[i].Probes = []eligibility.Probe{{Prober: 1, Result: eligibility.Good, Count: 1}, {Prober: 2, Result: eligibility.Good, Count: 1}}
		}
		e.Fold(t)
	}
	e.publish()
	return e
}

// tickOf holds what is seen of each step-th instance from the first, and that
// its database is degraded by so much.
func tickOf(n int64, instances, first, step int, degraded eligibility.Permille) evidence.Tick {
	t := evidence.Tick{Number: n}
	for h := first; h <= instances; h += step {
		t.Rows = append(t.Rows, evidence.TickRow{Instance: uint32(h), Evidence: eligibility.Evidence{
			Outcomes: []eligibility.Outcomes{{OK: 99, Failed: 1, Compared: 100, Expected: 1000, Reporters: 0xffff, Span: 1}},
			Self:     &eligibility.Self{Ready: true, Dependencies: []eligibility.Permille{degraded}},
		}})
	}
	return t
}

func (e *Evaluator) publish() (changed int) {
	for _, name := range e.Touched() {
		if e.Publish(name, true).Changed {
			changed++
		}
	}
	return changed
}

// clean adds what a second holds of those who run well: a row of each in ten.
func clean(t evidence.Tick, instances int) evidence.Tick {
	all := tickOf(t.Number, instances, 1+int(t.Number%10), 10, 0).Rows
	all = slices.DeleteFunc(all, func(r evidence.TickRow) bool {
		_, is := slices.BinarySearchFunc(t.Rows, r, rowByHandle)
		return is
	})
	t.Rows = append(t.Rows, all...)
	slices.SortFunc(t.Rows, rowByHandle)
	return t
}

func rowByHandle(a, b evidence.TickRow) int { return cmp.Compare(a.Instance, b.Instance) }

// passes measures ticks in which each step-th instance loses half of its weight,
// or has it again, with the views that follow.
func passes(b *testing.B, step int) {
	for _, n := range estates {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) {
			e := estate(n)
			b.ReportAllocs()
			round, moved := 0, 0
			for b.Loop() {
				round++
				b.StopTimer()
				t := clean(tickOf(e.Now()+1, n, 1+(round-1)/2%step, step, eligibility.Permille(round%2)*500), n)
				b.StartTimer()
				e.Fold(t)
				moved += e.publish()
			}
			if moved == 0 {
				b.Fatal("nothing changed")
			}
			b.ReportMetric(float64(moved)/float64(b.N), "views/op")
		})
	}
}

func BenchmarkPassOneInAHundred(b *testing.B) { passes(b, 100) }

func BenchmarkPassEverything(b *testing.B) { passes(b, 1) }

// BenchmarkOneFails is one instance's hard failure to its service's new view,
// beside the window and the commit: two callers were refused, and its row is
// folded before the second is over. Its service is one of the large ones.
func BenchmarkOneFails(b *testing.B) {
	for _, n := range estates {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) {
			e := estate(n)
			h := uint32(0)
			for b.Loop() {
				h++
				b.StopTimer()
				e.Fold(clean(evidence.Tick{Number: e.Now() + 1}, n)) // nobody else is silent
				e.publish()
				b.StartTimer()
				row := evidence.TickRow{Instance: h, Evidence: eligibility.Evidence{Outcomes: []eligibility.Outcomes{{Failed: 2, Compared: 2, Reporters: 3, Hurt: 3, Refusing: 3, Span: 1}}}}
				t, left := e.Early(row)
				if !left {
					b.Fatalf("it is in rotation: %+v", t.Change)
				}
				if p := e.Publish(t.Service, false); !p.Changed || !p.Nature.Urgent() {
					b.Fatal("no view is published")
				}
			}
		})
	}
}

// BenchmarkRebuild is the start of a leader: ten minutes of segments are read,
// and folded from each instance's recorded state.
func BenchmarkRebuild(b *testing.B) {
	for _, n := range estates {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) {
			store, err := dir.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			k := evidence.NewKeeper(store, "i")
			for t := int64(1); t <= 600; t++ { // a clean run is one row in ten seconds
				tick := tickOf(t, n, 1+int(t%10), 10, 0)
				if k.Add(tick, func(h uint32) (evidence.Named, bool) { return evidence.Named{Handle: h, ID: fmt.Sprint(h)}, true }) {
					if err := k.Flush(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			rows, recorded := rowsOf(n), map[uint32]*eligibility.State{}
			for _, r := range rows {
				recorded[r.Handle] = &eligibility.State{Born: 1, Judged: 1, Verdict: eligibility.Eligible, Weight: 1000, Ready: true}
			}
			for b.Loop() {
				kept, err := k.Load(b.Context(), 0)
				if err != nil || len(kept.Ticks) != 600 {
					b.Fatalf("%d ticks, %v", len(kept.Ticks), err)
				}
				e := empty()
				Rebuild(e, slices.Clone(rows), maps.Clone(recorded), kept.Ticks)
				if e.publish() != 450 {
					b.Fatal("not every service has a view")
				}
			}
		})
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, n := range estates {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) {
			rows := 0
			for b.Loop() {
				before := heap()
				e := estate(n)
				b.ReportMetric(float64(heap()-before)/float64(n), "B/instance")
				rows += e.instances.n
			}
			if rows == 0 {
				b.Fatal("nothing was held")
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
