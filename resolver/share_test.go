package resolver

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/view"
)

// shares are the chances that a draw gives its members, read from its slots.
func (d *draw) shares(times float64, into map[string]float64) {
	for _, s := range d.slots {
		own := (float64(s.cut) + 1) / (1 << 32)
		into[s.m.ID] += times * own / float64(len(d.slots))
		into[d.slots[s.other].m.ID] += times * (1 - own) / float64(len(d.slots))
	}
}

// shares of a table's picks, with nothing in flight.
func (t *table) shares(into map[string]float64, times float64) {
	stay := float64(t.stay) / stays
	if len(t.others.slots) == 0 {
		stay = 1
	}
	t.own.shares(times*stay, into)
	if stay < 1 {
		t.others.shares(times*(1-stay), into)
	}
}

// Whatever zones weigh: where their callers are even, each endpoint gets its
// share by weight of all requests, and no zone that could keep a request loses it.
func TestTheRuleOfZonesHoldsForAnyWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "zones")
		var endpoints []view.Endpoint
		total, weights := 0.0, map[string]float64{}
		for z := range n {
			for i := range rapid.IntRange(1, 5).Draw(t, "endpoints") {
				e := in(fmt.Sprintf("i%d-%d", z, i), fmt.Sprintf("z%d", z), rapid.IntRange(1, 1000).Draw(t, "weight"))
				endpoints = append(endpoints, e)
				total += float64(e.Weight)
				weights[e.Zone] += float64(e.Weight)
			}
		}
		got := map[string]float64{}
		for z := range n {
			zone := fmt.Sprintf("z%d", z)
			mine := map[string]float64{}
			newRig(zone, endpoints...).pool().table.Load().shares(mine, 1)
			stayed := 0.0
			for _, e := range endpoints {
				got[e.ID] += mine[e.ID] / float64(n)
				if e.Zone == zone {
					stayed += mine[e.ID]
				}
			}
			if want := min(1, weights[zone]*float64(n)/total); math.Abs(stayed-want) > 1e-6 {
				t.Fatalf("%.4f of the requests of %s stay, want %.4f", stayed, zone, want)
			}
		}
		for _, e := range endpoints {
			if want := float64(e.Weight) / total; math.Abs(got[e.ID]-want) > 1e-6 {
				t.Fatalf("%s gets %.4f of all, want %.4f", e.ID, got[e.ID], want)
			}
		}
	})
}

func TestPicksGoOnWhileViewsChangeAndEndpointsAreSetAside(t *testing.T) {
	r := newRig("z1", many(60)...)
	var stop atomic.Bool
	var picking sync.WaitGroup
	for g := range 8 {
		picking.Go(func() {
			for n := 0; !stop.Load(); n++ {
				p, err := r.Pick("a")
				if err != nil {
					t.Error(err)
					return
				}
				if p.ID() == "" || p.Endpoint().Weight == 0 {
					t.Errorf("picked %+v", p.Endpoint())
				}
				p.Done(Outcome((n + g) % int(Stale+1)))
			}
		})
	}
	for n := range 300 {
		all := many(60)
		r.set(all[n%30 : 30+n%30]...)
		r.pool().tick(r.now)
		r.pool().remake()
		r.pool().ejected()
	}
	stop.Store(true)
	picking.Wait()
	for _, m := range r.pool().members {
		if n := m.inflight.Load(); n != 0 {
			t.Errorf("%s has %d in flight at the end", m.ID, n)
		}
	}
}

func TestWhatRequestsTouchOfAnEndpointSharesItsLineOfMemoryWithNoOther(t *testing.T) {
	if size := unsafe.Sizeof(node{}); size != nodeSize {
		t.Errorf("a node has %d bytes, not two lines", size)
	}
	if end := unsafe.Offsetof(node{}.bytes) + 8; end > 64 {
		t.Errorf("what requests touch ends at %d", end)
	}
}
