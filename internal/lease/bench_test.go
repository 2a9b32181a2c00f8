package lease_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
)

func benchQueue(instances, credits int) *lease.Queue {
	q := lease.NewQueue()
	q.Govern(&lease.Rules{Table: view.Version{Incarnation: "7f", Counter: 1}, Splits: []view.Split{{Allowed: []string{"r"}}}, MaxWaiting: 1000, Open: true})
	for i := range instances {
		q.Offer(fmt.Sprintf("i%03d", i), "r", "", credits)
	}
	return q
}

// One request arrives, is granted and ends, with one mutex around the room.
func BenchmarkArriveGrantEnd(b *testing.B) {
	for _, n := range []int{1, 3, 100} {
		for _, load := range []string{"idle", "busy"} {
			b.Run(fmt.Sprintf("instances=%d/%s", n, load), func(b *testing.B) {
				q := benchQueue(n, 100)
				if load == "busy" {
					for range n * 50 {
						q.Arrive(&lease.Request{Deadline: time.Hour}, 0)
					}
				}
				var mu sync.Mutex
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					r := &lease.Request{Deadline: time.Hour}
					for pb.Next() {
						mu.Lock()
						in := q.Arrive(r, 0)[0].Instance
						mu.Unlock()
						mu.Lock()
						q.End(in)
						mu.Unlock()
					}
				})
			})
		}
	}
}

// As many wait as hold a lease: each end grants the first that waits.
func BenchmarkEndGrantsWhoWaits(b *testing.B) {
	q := benchQueue(1, 1)
	now := time.Duration(0)
	held := q.Arrive(&lease.Request{Deadline: time.Hour}, now)[0].Instance
	reqs := make([]lease.Request, 100)
	for i := range reqs {
		reqs[i].Deadline = time.Hour
		q.Arrive(&reqs[i], now)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := q.End(held)[0].Request
		now++
		r.Arrived = now
		q.Arrive(r, now)
	}
}

// One of the instances ramps: each pick looks at all.
func BenchmarkArriveGrantEndWhileOneRamps(b *testing.B) {
	for _, n := range []int{3, 100} {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) {
			q := benchQueue(n, 100)
			q.Consider(map[string]lease.Standing{"i000": {Weight: 100}})
			r := &lease.Request{Deadline: time.Hour}
			b.ReportAllocs()
			for b.Loop() {
				q.End(q.Arrive(r, 0)[0].Instance)
			}
		})
	}
}
