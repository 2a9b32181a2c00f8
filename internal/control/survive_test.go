package control_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

func neverTwo(r *rig) {
	r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
		return hosttest.Behaviour{NeverListens: runs(a, "two")}
	})
}

func TestAFinalizeThatFailsAfterPublicationLeavesAllOnTheOldRevisionAndIsResumed(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{from: writes(service.KindRevision, "hello-00002"), at: 7, mode: notLanded}
		r.killable(p)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.within(10*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		s := r.deploySaga("hello")
		if s.FailedStep != "finalize" || s.Effects["published"] == "" {
			t.Fatalf("it did not fail after publication: %+v", s)
		}
		for range 12 { // past the grace of collection
			if why := r.disagreement("hello"); why != "" || r.catalog("hello").Traffic[0].Revision != "hello-00001" {
				t.Fatalf("after the failure: %s", why)
			}
			time.Sleep(time.Second)
		}
		if n := len(r.live("hello-00002")); n != 0 {
			t.Errorf("%d instances of the new revision run on", n)
		}
		r.serves(time.Minute, "hello", "hello-00002")
		if s := r.deploySaga("hello"); s.Attempt != 2 || s.State != saga.Done {
			t.Errorf("the retry: %+v", s)
		}
		if n := len(list[service.Revision](r, service.KindRevision, "hello")); n != 2 {
			t.Errorf("a sibling was minted: %d revisions", n)
		}
		stop()
	})
}

func TestAFailedDeployKeepsRunningWhatACutOffGatewayRoutesTo(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		p := &pointStore{from: writes(service.KindRevision, "hello-00002"), at: 7, mode: notLanded}
		cut := false
		p.hook = func(n int, _ store.Apply) {
			if n == 6 && !cut { // the routes are acknowledged: the next write is the catalog's
				cut = true
				r.gateways.Gateway("g2").Cut()
			}
		}
		r.killable(p)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
		r.deploy("hello", "two")
		r.within(20*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if s := r.deploySaga("hello"); s.FailedStep != "finalize" {
			t.Fatalf("it did not fail after publication: %+v", s)
		}
		route, _ := r.gateways.Gateway("g2").Table().Route("hello")
		if route.Splits[0].Revision != "hello-00002" || len(r.live("hello-00002")) != 1 {
			t.Errorf("g2 routes to %s, of which %d are live", route.Splits[0].Revision, len(r.live("hello-00002")))
		}
		time.Sleep(15 * time.Second)
		r.gateways.Gateway("g2").Heal()
		r.serves(time.Minute, "hello", "hello-00002")
		one()
		two()
	})
}

func TestAnIntentThatComesWhilePublishedRoutesAreWaitedForEndsTheAttempt(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.gateways.Gateway("g1").Lag(3 * time.Second)
		r.deploy("hello", "two")
		r.within(10*time.Second, "it has published", func() bool {
			s := r.deploySaga("hello")
			return s.Subject == "hello-00002" && s.Effects["published"] != ""
		})
		r.deploy("hello", "three")
		r.serves(30*time.Second, "hello", "hello-00003")
		r.within(time.Minute, "nothing of the second is left", func() bool { return len(r.live("hello-00002")) == 0 })
		stop()
	})
}

// noRoutes refuses to write routes while it is told to.
type noRoutes struct {
	store.Store
	refuse atomic.Bool
}

func (n *noRoutes) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	catalog := writes(service.KindCatalog, "hello")(a) && !writes(service.KindDesired, "")(a) && len(a.Checks) > 1
	if n.refuse.Load() && (writes(service.KindRoutes, "")(a) || catalog && writes(service.KindRevision, "hello-00002")(a)) {
		return store.Result{}, errPoint
	}
	return n.Store.Apply(ctx, a)
}

func TestWhereTheRouteCannotBePutBackBothKeepRunning(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var n *noRoutes
		c := r.start(options{wrap: func(s store.Store) store.Store { n = &noRoutes{Store: s}; return n }})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.gateways.Gateway("g1").Lag(time.Second)
		r.deploy("hello", "two")
		r.within(10*time.Second, "it has published", func() bool {
			s := r.deploySaga("hello")
			return s.Subject == "hello-00002" && s.Effects["published"] != ""
		})
		n.refuse.Store(true)
		r.within(10*time.Second, "the undo failed", func() bool { return c.NeedsOperator("hello") != "" })
		time.Sleep(25 * time.Second)
		if len(r.live("hello-00001")) != 1 || len(r.live("hello-00002")) != 1 {
			t.Errorf("%d of the first and %d of the second are live", len(r.live("hello-00001")), len(r.live("hello-00002")))
		}
		n.refuse.Store(false)
		r.within(time.Minute, "they agree again", func() bool { return r.disagreement("hello") == "" && c.NeedsOperator("hello") == "" })
		r.serves(2*time.Minute, "hello", "hello-00002")
		stop()
	})
}

func TestADeletionEndsADeployInFlight(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		neverTwo(r)
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.within(10*time.Second, "it waits for readiness", func() bool { return r.deploySaga("hello").At() == "ready" })
		r.delete("hello")
		r.within(time.Minute, "nothing is left", func() bool {
			n := 0
			for _, h := range r.hosts.States() {
				n += len(h.Instances)
			}
			return r.remains("hello") == 0 && n == 0
		})
	})
}

func TestTwoServicesInMidDeployAreEachFinishedAfterADeath(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{}
		r.killable(p)
		for i := range 2 {
			r.deploy(fmt.Sprintf("s%d", i), fmt.Sprintf("r%d", i))
		}
		r.within(10*time.Second, "one of them is at its routes", func() bool { return r.deploySaga("s0").At() == "ready" })
		p.die()
		<-r.runs[0].done
		r.runs[0].port.Close()
		r.start(options{})
		for i := range 2 {
			r.serves(20*time.Second, fmt.Sprintf("s%d", i), fmt.Sprintf("s%d-00001", i))
		}
	})
}
