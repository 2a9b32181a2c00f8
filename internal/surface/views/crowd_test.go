package views_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

// follow applies and acknowledges what comes until the stream ends.
func (r *raw) follow() {
	held := map[string]*view.Service{}
	for {
		m, err := r.Recv()
		if err != nil {
			return
		}
		all := m.GetChanges().GetChanges()
		if m.GetChange() != nil {
			all = append(all, m.GetChange())
		}
		applied := &pb.ViewsApplied{}
		for _, p := range all {
			base := held[p.GetService()]
			if base != nil && p.GetBaseCounter() != base.Version.Counter || base == nil && p.GetBaseCounter() != 0 {
				r.t.Errorf("%v does not fit version %v", p, base)
			}
			held[p.GetService()] = &view.Service{Version: view.Version{Counter: p.GetCounter()}}
			applied.Views = append(applied.Views, &pb.AppliedView{Service: p.GetService(), Epoch: 1, Counter: p.GetCounter()})
		}
		if len(all) > 0 && r.Send(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Applied{Applied: applied}}) != nil {
			return
		}
	}
}

func TestManyTakeAndAcknowledgeWhileViewsArePublishedAndLookedAt(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	const subscribers, services, rounds = 20, 4, 150
	name := func(i int) string { return fmt.Sprint("s", i%services) }
	for i := range services {
		s.Publish(published(first, name(i), uint64(i+1), 3), view.Adds)
	}
	var followers sync.WaitGroup
	t.Cleanup(followers.Wait) // once their streams have ended, which are cleanups of later
	c := dial()
	for i := range subscribers {
		who := fmt.Sprintf("caller/c%02d", i)
		hello := knowing(who[len("caller/"):])
		if i%4 == 0 {
			hello.Features = views.Features()
		}
		r := subscribe(t, c, who, hello).welcome().add(name(0), name(1), name(2), name(3))
		followers.Go(r.follow)
	}
	eventually(t, "everyone owes what is published from now on", func() bool {
		for i := range services {
			if r, _ := s.Propagation(name(i)); r.Callers != subscribers {
				return false
			}
		}
		return true
	})
	looks := []func(string){
		func(of string) { s.Tally(of) }, func(of string) { s.MayPick(of, []string{"i0002"}) }, func(of string) { s.Propagation(of) },
		func(of string) { s.Holding(context.Background(), of, 0) }, func(string) { s.Load() }, func(string) { s.Subscribers() },
		func(string) { s.Missed() }, func(string) { s.Propagations() }, func(string) { s.Collector().Collect(make(chan prometheus.Metric, 100)) },
	}
	last := uint64(services)
	for n := range rounds {
		last++
		nature := view.Adds
		if n%2 == 0 {
			nature = view.Withdraws
		}
		s.Publish(published(first, name(n), last, 2+n%3), nature)
		looks[n%len(looks)](name(n))
	}
	eventually(t, "everyone has acknowledged the newest", func() bool {
		for i := range services {
			r, _ := s.Propagation(name(i))
			v := s.Tally(name(i)).GetVersions()
			if len(v) != 1 || v[0].GetCounter() != r.Published.Counter || v[0].GetSubscribers() != subscribers {
				return false
			}
		}
		return true
	})
	var acknowledged uint64
	for _, r := range s.Propagations() {
		for _, k := range budget.Kinds() {
			acknowledged += r.Latency[k].Count()
		}
	}
	if acknowledged != subscribers*rounds {
		t.Errorf("%d acknowledgements are accounted for, %d subscribers were owed %d views", acknowledged, subscribers, rounds)
	}
}
