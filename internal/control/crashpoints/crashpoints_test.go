package crashpoints_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
	"github.com/fairlead-platform/fairlead/internal/store/sqlite"
)

var (
	pairs = flag.String("pairs", "sample", "which pairs of faults are tried: none, sample, or all")
	only  = flag.String("case", "", "run this one case, as a failure names it")
)

// sampled of the pairs are tried, one in so many; and one case in so many is
// tried again over SQLite.
const (
	pairsSampled = 400
	onSQLite     = 50
)

// plan is a case: an operation and what fails in it, in order.
type plan struct {
	op     operation
	points []crashpoints.Point
	faults []crashpoints.Fault
}

// id names the case, so that it can be run again.
func (p plan) id() string {
	parts := []string{p.op.name}
	for i := range p.points {
		parts = append(parts, p.points[i].Name()+" = "+string(p.faults[i]))
	}
	return strings.Join(parts, " | ")
}

// unheard are the gateways of which a controller is told what is not so.
func (p plan) unheard() map[string]bool {
	out := map[string]bool{}
	for _, at := range p.points {
		if g, ok := strings.CutPrefix(at.Call, "report of gateway "); ok {
			out[g] = true
		}
	}
	return out
}

// parse reads what id wrote.
func parse(t *testing.T, id string) plan {
	parts := strings.Split(id, " | ")
	for _, o := range operations() {
		if o.name != parts[0] {
			continue
		}
		p := plan{op: o}
		for _, s := range parts[1:] {
			at, fault, ok := strings.Cut(s, " = ")
			var point crashpoints.Point
			lifeAndCall, n, _ := cutLast(at, "#")
			_, err := fmt.Sscanf(n, "%d", &point.N)
			life, call, found := strings.Cut(lifeAndCall, ":")
			if _, bad := fmt.Sscanf(life, "%d", &point.Life); bad != nil || err != nil || !ok || !found {
				t.Fatalf("%q is no point and fault", s)
			}
			point.Call = call
			p.points, p.faults = append(p.points, point), append(p.faults, crashpoints.Fault(fault))
		}
		return p
	}
	t.Fatalf("there is no operation %q", parts[0])
	return plan{}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func hash(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}

// result is what became of a case.
type result struct {
	seen []crashpoints.Point
	hit  int
}

// run runs a case, and fails the test where the oracle finds something wrong.
func run(t *testing.T, p plan, open func(t *testing.T) store.Store) (res result) {
	synctest.Test(t, func(t *testing.T) {
		faults := crashpoints.Plan{}
		for i := range p.points {
			faults[p.points[i].Name()] = p.faults[i]
		}
		points := crashpoints.New(faults)
		w := newWorld(t, open(t), points, p.op)
		defer w.end()
		if hash(p.id())%4 == 0 {
			w.pause = 45 * time.Second // beyond the grace of collection and a host's lease
		}
		w.unheard = p.unheard()
		p.op.prepare(w)
		w.watch(p.op)
		points.Begin()
		p.op.ask(w)
		w.holds(p, "it has settled", p.op.then)
		if p.op.end != nil {
			p.op.end(w)
			w.holds(p, "it has ended", p.op.last)
		}
		points.End()
		res = result{seen: points.Seen(), hit: len(points.Hit())}
	})
	return res
}

// holds waits until all is as expected, and looks whether it stays so.
func (w *world) holds(p plan, what string, e expected) {
	wrong := func() string { return w.wrong(e) }
	why := w.settles(30*time.Minute, wrong) // beyond the waits of five attempts and undos that fail in a row
	if why == "" && !e.waits {
		time.Sleep(15 * time.Second) // past the grace of collection
		synctest.Wait()
		w.revive()
		if why = w.settles(3*time.Minute, wrong); why != "" {
			why = "it did not stay so: " + why
		}
	}
	if answered := w.caller.Answered(); why == "" && !e.waits && len(answered) < len(e.traffic) {
		why = fmt.Sprintf("too few revisions answered: %v", answered)
	}
	if why == "" {
		why = w.history()
	}
	if broken := w.broken.String(); broken != "" {
		why += "\non the way:\n" + broken
	}
	if why != "" {
		w.t.Fatalf("%s: not so: %s\nrun it again by: go test ./internal/control/crashpoints -case %q\n%s", what, why, p.id(), w.state())
	}
}

func inMemory(*testing.T) store.Store { return memory.Open(memory.Options{}) }

func onDisk(t *testing.T) store.Store {
	folder := "/dev/shm"
	if _, err := os.Stat(folder); err != nil {
		folder = os.TempDir()
	}
	dir, err := os.MkdirTemp(folder, "crashpoints")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shard says whether a case is of this shard: FAIRLEAD_SHARD=i/n, i from 0.
func shard(t *testing.T) func(id string) bool {
	s := os.Getenv("FAIRLEAD_SHARD")
	if s == "" {
		return func(string) bool { return true }
	}
	var i, n uint32
	if _, err := fmt.Sscanf(s, "%d/%d", &i, &n); err != nil || n == 0 || i >= n {
		t.Fatalf("FAIRLEAD_SHARD=%q is not i/n", s)
	}
	return func(id string) bool { return hash(id)%n == i }
}

// TestCrashpoints tries every operation with every fault at every call of the
// controller, and pairs of faults, the second in what follows the first.
func TestCrashpoints(t *testing.T) {
	if *only != "" {
		run(t, parse(t, *only), inMemory)
		return
	}
	mine, began := shard(t), time.Now()
	var cases atomic.Int64
	t.Cleanup(func() {
		took := time.Since(began)
		t.Logf("%d cases in %s: %.0f per minute", cases.Load(), took.Round(time.Second), float64(cases.Load())/took.Minutes())
	})
	for _, o := range operations() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			calm := run(t, plan{op: o}, inMemory)
			if len(calm.seen) < 3 {
				t.Fatalf("only %d points were seen", len(calm.seen))
			}
			for _, point := range calm.seen {
				for _, f := range point.Faults {
					if o.exclusive && f == crashpoints.Disordered {
						continue // a host that starts what it was told to stop runs two at once
					}
					p := plan{o, []crashpoints.Point{point}, []crashpoints.Fault{f}}
					single(t, p, mine, &cases)
				}
			}
		})
	}
}

// mayVary says that the call is one of those of which there are more or fewer
// by how many changes are seen as one: a report, and what the discovery plane
// makes of them in a second.
func mayVary(call string) bool {
	return strings.HasPrefix(call, "report ") || strings.Contains(call, service.KindTransition+" ") || strings.Contains(call, service.KindInstance+" ")
}

// single runs a case of one fault, and the pairs that begin with it.
func single(t *testing.T, p plan, mine func(string) bool, cases *atomic.Int64) {
	if *pairs != "all" && !mine(p.id()) {
		return
	}
	var res result
	ok := t.Run(p.id(), func(t *testing.T) {
		cases.Add(1)
		res = run(t, p, inMemory)
		if res.hit == 0 && !mayVary(p.points[0].Call) {
			t.Errorf("the point was not reached: the operation does not always do the same")
		}
		if hash(p.id())%onSQLite == 0 {
			run(t, p, onDisk)
		}
	})
	if !ok || *pairs == "none" {
		return
	}
	after := false
	for _, second := range res.seen {
		if second.Name() == p.points[0].Name() {
			after = true
			continue
		}
		if !after {
			continue
		}
		for _, f := range second.Faults {
			if p.op.exclusive && f == crashpoints.Disordered {
				continue
			}
			both := plan{p.op, []crashpoints.Point{p.points[0], second}, []crashpoints.Fault{p.faults[0], f}}
			if !mine(both.id()) || *pairs == "sample" && hash(both.id())%pairsSampled != 0 {
				continue
			}
			t.Run(both.id(), func(t *testing.T) {
				cases.Add(1)
				run(t, both, inMemory)
			})
		}
	}
}

// A command that lands after its revision was given up leaves a process that no
// slot asks for; under an exclusive handover nothing else starts beside it.
func TestAnExclusiveHandoverStopsAlsoWhatNoSlotAsksFor(t *testing.T) {
	run(t, parse(t, "exclusive deploy | 0:assign hello-00002.0#1 = late and out of order | 0:next revision hello-00002#2 = late"), inMemory)
}
