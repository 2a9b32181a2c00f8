package resolver

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// bench is a resolver without a plane, whose clock the test turns.
type rig struct {
	*Resolver
	now time.Duration
}

func newRig(zone string, endpoints ...view.Endpoint) *rig {
	r := &rig{Resolver: &Resolver{stir: make(chan struct{}, 1)}}
	cfg := Config{Zone: zone}
	cfg.Ejection.fill()
	cfg.Retry.fill()
	p := newPool("a", &cfg, func() time.Duration { return r.now }, r.stirred, func(Event) {})
	r.pools.Store(&map[string]*pool{"a": p})
	r.set(endpoints...)
	return r
}

func (r *rig) pool() *pool { return (*r.pools.Load())["a"] }

func (r *rig) set(endpoints ...view.Endpoint) { r.publish(view.Service{Endpoints: endpoints}) }

func (r *rig) publish(v view.Service) {
	v.Name = "a"
	slices.SortFunc(v.Endpoints, func(a, b view.Endpoint) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	r.pool().take(&v)
}

// second passes: what keepTime does.
func (r *rig) second() {
	r.now += time.Second
	r.pool().tick(r.now)
}

func (r *rig) settle() { r.pool().remake() }

// picks counts who is picked, each with the outcome that of says.
func (r *rig) picks(t testing.TB, n int, of func(id string) Outcome, options ...Option) map[string]int {
	t.Helper()
	out := map[string]int{}
	for range n {
		p, err := r.Pick("a", options...)
		if err != nil {
			t.Fatal(err)
		}
		out[p.ID()]++
		p.Done(of(p.ID()))
		r.settle()
	}
	return out
}

func good(string) Outcome { return Good }

func in(id, zone string, weight int) view.Endpoint {
	return view.Endpoint{ID: id, Address: id + ":80", Zone: zone, Weight: weight, Verdict: view.Eligible}
}

// near says whether a count is as a share of n asks, by five times its deviation.
func near(got, n int, share float64) bool {
	return math.Abs(float64(got)-share*float64(n)) <= 5*math.Sqrt(float64(n)*share*(1-share))+1
}

func wantShares(t *testing.T, got map[string]int, want map[string]float64) {
	t.Helper()
	n := 0
	for _, c := range got {
		n += c
	}
	for id, share := range want {
		if !near(got[id], n, share) {
			t.Errorf("%s was picked %d times of %d, want a share of %.3f", id, got[id], n, share)
		}
	}
	for id := range got {
		if _, expected := want[id]; !expected {
			t.Errorf("%s was picked %d times", id, got[id])
		}
	}
}

func TestPicksAreByWeightAndNeverOfWeightZero(t *testing.T) {
	r := newRig("", in("a", "", 1000), in("b", "", 500), in("c", "", 1), in("d", "", 0))
	wantShares(t, r.picks(t, 60_000, good), map[string]float64{"a": 1000. / 1501, "b": 500. / 1501, "c": 1. / 1501})
}

func TestAZoneThatHasItsShareKeepsItsCallers(t *testing.T) {
	r := newRig("z1", in("a", "z1", 1000), in("b", "z2", 1000), in("c", "z3", 1000))
	wantShares(t, r.picks(t, 1000, good), map[string]float64{"a": 1})
}

func TestWhereThePolicySaysAnyAllZonesShareAlikeAndByDefaultTheOwnIsPreferred(t *testing.T) {
	v := view.Service{AnyZone: true, Endpoints: []view.Endpoint{in("a", "z1", 1000), in("b", "z2", 1000), in("c", "z3", 500)}}
	r := newRig("z1")
	r.publish(v)
	wantShares(t, r.picks(t, 60_000, good), map[string]float64{"a": .4, "b": .4, "c": .2})
	v.AnyZone = false
	r.publish(v)
	wantShares(t, r.picks(t, 1000, good), map[string]float64{"a": 1})
}

func TestAZoneThatLacksCapacitySpillsWhatItsEndpointsCannotTake(t *testing.T) {
	// z1 has a sixth of all and should have a third: half of its requests stay.
	// Only z2 has more than a third, so that all of the rest goes there.
	r := newRig("z1", in("a", "z1", 500), in("b", "z2", 1000), in("c", "z2", 500), in("d", "z3", 1000))
	wantShares(t, r.picks(t, 60_000, good), map[string]float64{"a": .5, "b": .5 * 2 / 3, "c": .5 / 3})
}

func TestWhereCallersAreEvenEachEndpointGetsTheSameForItsWeight(t *testing.T) {
	endpoints := []view.Endpoint{in("a", "z1", 1000), in("b", "z2", 1000), in("c", "z2", 1000), in("d", "z2", 1000), in("e", "z3", 500)}
	sum := map[string]int{}
	const each = 30_000
	for _, zone := range []string{"z1", "z2", "z3"} {
		for id, n := range newRig(zone, endpoints...).picks(t, each, good) {
			sum[id] += n
		}
	}
	wantShares(t, sum, map[string]float64{"a": 1 / 4.5, "b": 1 / 4.5, "c": 1 / 4.5, "d": 1 / 4.5, "e": .5 / 4.5})
}

func TestAMarkedZoneIsLeftForOneThatIsNot(t *testing.T) {
	v := view.Service{
		Endpoints: []view.Endpoint{in("a", "z1", 1000), in("b", "z2", 1000), in("c", "z3", 1000)},
		Marks:     []view.ZoneMark{{Group: "g", Zone: "z1", DegradedConfidence: true}, {Group: "g", Zone: "z2"}, {Group: "g", Zone: "z3"}},
	}
	r := newRig("z1")
	r.publish(v)
	wantShares(t, r.picks(t, 10_000, good), map[string]float64{"b": .5, "c": .5})
	r = newRig("z2")
	r.publish(v)
	wantShares(t, r.picks(t, 1000, good), map[string]float64{"b": 1})
	for i := range v.Marks {
		v.Marks[i].DegradedConfidence = true
	}
	r = newRig("z1")
	r.publish(v)
	wantShares(t, r.picks(t, 1000, good), map[string]float64{"a": 1})
}

func TestTheLessLoadedOfTwoIsPicked(t *testing.T) {
	r := newRig("", in("a", "", 1000), in("b", "", 1000), in("c", "", 1000))
	for range 300 { // none of them ends
		if _, err := r.Pick("a"); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range r.pool().members {
		if n := m.inflight.Load(); n < 95 || n > 105 {
			t.Errorf("%s has %d in flight", m.ID, n)
		}
	}
}

func TestCountersOutliveAViewByIdentity(t *testing.T) {
	r := newRig("", in("a", "", 1000), in("b", "", 1000))
	held, err := r.Pick("a", Exclude("b"))
	if err != nil {
		t.Fatal(err)
	}
	r.set(in("b", "", 1000), in("c", "", 1000)) // a has left, with its request in flight
	r.second()
	r.set(in("a", "", 500), in("b", "", 1000))
	if n := r.pool().members[0].inflight.Load(); n != 1 {
		t.Errorf("%d requests in flight at a", n)
	}
	held.Done(Good)
	held.Done(Failed) // it counts once
	rows := r.pool().tick(0)
	if len(rows) != 1 || rows[0].GetInstance() != "a" || rows[0].GetOk() != 1 || rows[0].GetFailed() != 0 {
		t.Errorf("reported %v", rows)
	}
}

func TestWhatEndedAfterItsEndpointLeftIsReportedAndForgotten(t *testing.T) {
	r := newRig("", in("a", "", 1000), in("b", "", 1000))
	held, err := r.Pick("a", Exclude("b"))
	if err != nil {
		t.Fatal(err)
	}
	r.set(in("b", "", 1000))
	r.second()
	if len(r.pool().ended) != 1 {
		t.Fatal("it was forgotten with a request in flight")
	}
	held.Done(Failed)
	if rows := r.pool().tick(0); len(rows) != 1 || rows[0].GetFailed() != 1 {
		t.Errorf("reported %v", rows)
	}
	if r.second(); len(r.pool().ended) != 0 {
		t.Error("it is remembered for ever")
	}
}

func TestOptionsNarrowAPickDown(t *testing.T) {
	unknown, silent := in("c", "", 1000), in("d", "", 1000)
	unknown.Verdict, silent.HealthUnknown = view.Unknown, true
	second := in("b", "", 10)
	second.Revision = "a-00002"
	r := newRig("", in("a", "", 1000), second, unknown, silent)
	for name, c := range map[string]struct {
		options []Option
		want    map[string]float64
		err     error
	}{
		"one excluded":       {[]Option{Exclude("a"), Exclude("d")}, map[string]float64{"b": 10. / 1010, "c": 1000. / 1010}, nil},
		"all excluded":       {[]Option{Exclude("a"), Exclude("b"), Exclude("c"), Exclude("d")}, nil, ErrNoMatch},
		"a revision":         {[]Option{Revision("a-00002")}, map[string]float64{"b": 1}, nil},
		"no such revision":   {[]Option{Revision("a-00003")}, nil, ErrNoMatch},
		"verified required":  {[]Option{RequireVerified()}, map[string]float64{"a": 1000. / 1010, "b": 10. / 1010}, nil},
		"verified preferred": {[]Option{PreferVerified(), Exclude("a"), Exclude("b")}, map[string]float64{"c": .5, "d": .5}, nil},
		"required, and none": {[]Option{RequireVerified(), Exclude("a"), Exclude("b")}, nil, ErrNoMatch},
	} {
		t.Run(name, func(t *testing.T) {
			if c.err != nil {
				if _, err := r.Pick("a", c.options...); !errors.Is(err, c.err) {
					t.Errorf("got %v", err)
				}
				return
			}
			wantShares(t, r.picks(t, 5000, good, c.options...), c.want)
		})
	}
}

func TestAPickAllocatesNothing(t *testing.T) {
	r := newRig("z1", many(3000)...)
	for name, options := range map[string][]Option{"plain": nil, "a retry": {Exclude("i0001"), PreferVerified()}} {
		if n := testing.AllocsPerRun(1000, func() {
			p, err := r.Pick("a", options...)
			if err != nil {
				t.Fatal(err)
			}
			p.Done(Good)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := r.Pick("a", Exclude("i0001"), Exclude("i0002"), Retry())
		p.Done(Good)
	}); n != 0 {
		t.Errorf("with options: %v allocations", n)
	}
}

func many(n int) (out []view.Endpoint) {
	for i := range n {
		out = append(out, in(fmt.Sprintf("i%04d", i), fmt.Sprintf("z%d", i%3), 1000))
	}
	return out
}
