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

// operation is something asked of a region in which hello-00001 serves, and
// what must hold once the world has settled.
type operation struct {
	name     string
	release  func(r *rig) // how programs behave
	ask      func(r *rig)
	settled  func(r *rig) bool
	finally  func(r *rig) // asked for after that, e.g. what ends a failing release
	ended    func(r *rig) bool
	unserved bool // the service may stop answering
}

func neverTwo(r *rig) {
	r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
		return hosttest.Behaviour{NeverListens: runs(a, "two")}
	})
}

func operations() []operation {
	only := func(r *rig, revision string, n int) bool {
		total := 0
		for _, h := range r.hosts.States() {
			for _, i := range h.Instances {
				if i.State != service.InstanceExited {
					total++
				}
			}
		}
		return r.catalog("hello").Latest == revision && r.disagreement("hello") == "" && len(r.live(revision)) == n && total == n
	}
	return []operation{
		{
			name: "a release that is never ready", release: neverTwo,
			ask: func(r *rig) {
				r.write("hello", func(d *service.Desired) {
					d.Template.Command, d.Template.ReadyTimeout = []string{"two"}, 5*time.Second
				})
			},
			settled: func(r *rig) bool { return only(r, "hello-00001", 1) && r.deploySaga("hello").State == saga.Waiting },
			finally: func(r *rig) { r.deploy("hello", "three") },
			ended: func(r *rig) bool {
				return only(r, r.catalog("hello").Latest, 1) && r.catalog("hello").ObservedGeneration == 3
			},
		},
		{
			name:    "a scale up",
			ask:     func(r *rig) { r.write("hello", func(d *service.Desired) { d.Instances = 3 }) },
			settled: func(r *rig) bool { return only(r, "hello-00001", 3) && r.catalog("hello").ObservedGeneration == 2 },
			finally: func(r *rig) { r.write("hello", func(d *service.Desired) { d.Instances = 1 }) },
			ended:   func(r *rig) bool { return only(r, "hello-00001", 1) && len(r.revision("hello-00001").Leaving) == 0 },
		},
		{
			name: "a restart",
			ask:  func(r *rig) { r.write("hello", func(d *service.Desired) { d.Round = 1 }) },
			settled: func(r *rig) bool {
				return only(r, "hello-00001", 1) && r.revision("hello-00001").Round == 1 && r.live("hello-00001")[0].Round == 1
			},
		},
		{
			name:    "a change of host names",
			ask:     func(r *rig) { r.write("hello", func(d *service.Desired) { d.HostNames = []string{"x.example"} }) },
			settled: func(r *rig) bool { return only(r, "hello-00001", 1) && len(r.catalog("hello").Hosts) == 2 },
		},
		{
			name: "a deletion", unserved: true,
			ask:     func(r *rig) { r.delete("hello") },
			settled: func(r *rig) bool { return r.remains("hello") == 0 && len(r.live("hello-00001")) == 0 },
			finally: func(r *rig) { r.deploy("hello", "one") },
			ended:   func(r *rig) bool { return only(r, "hello-00001", 1) },
		},
		{
			name: "a deploy and its collection",
			ask:  func(r *rig) { r.deploy("hello", "two") },
			settled: func(r *rig) bool {
				return only(r, "hello-00002", 1) && r.revision("hello-00001").State == service.RevisionRetired
			},
		},
	}
}

// failure is one at the write of a number.
type failure struct {
	at   int
	mode mode
}

func (f failure) String() string { return fmt.Sprintf("%s %d", f.mode, f.at) }

// survive runs an operation with a failure at one write, and says whether
// there was such a write. Further failures are those of the controllers that
// are started in the place of a dead one, each by its own count.
func survive(t *testing.T, o operation, first failure, further ...failure) (hit bool) {
	return endure(t, o, &pointHosts{}, first, further...)
}

// endure is survive with a failure at a command to a host beside.
func endure(t *testing.T, o operation, h *pointHosts, first failure, further ...failure) (hit bool) {
	inRegion(t, 1, func(r *rig) {
		if o.release != nil {
			o.release(r)
		}
		// Counted are the writes for the service, not those of memberships.
		var asked atomic.Bool
		p := &pointStore{at: first.at, mode: first.mode, from: func(a store.Apply) bool { return asked.Load() && !writes(service.KindGateway, "")(a) }}
		c := r.mortal(p, h)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := func() {}
		if !o.unserved {
			stop = r.watched("hello", "g1")
		}
		asked.Store(true)
		h.mu.Lock()
		h.on = true
		h.mu.Unlock()
		o.ask(r)
		// Whenever it dies, another controller is started in its place.
		holds := func(f func(r *rig) bool) func() bool {
			return func() bool {
				select {
				case <-c.done:
					c.port.Close()
					next := &pointStore{from: func(a store.Apply) bool {
						return !writes(service.KindGateway, "")(a) && !writes(service.KindLeader, "")(a)
					}}
					if len(further) > 0 {
						next.at, next.mode, further = further[0].at, further[0].mode, further[1:]
					}
					c = r.killable(next)
				default:
				}
				return f(r)
			}
		}
		r.within(5*time.Minute, "it is settled", holds(o.settled))
		if o.finally != nil {
			o.finally(r)
			r.within(5*time.Minute, "it has ended", holds(o.ended))
		}
		hit = p.count() >= first.at
		stop()
	})
	return hit
}

func TestEveryOperationSurvivesAFailureAtEveryWrite(t *testing.T) {
	for _, o := range operations() {
		for _, m := range []mode{crashBefore, crashAfter, notLanded, landed, unknown} {
			t.Run(o.name+", "+string(m), func(t *testing.T) {
				n := 0
				for at := 1; survive(t, o, failure{at, m}); at++ {
					n++
				}
				if n < 2 {
					t.Errorf("only %d points were seen", n)
				}
			})
		}
	}
}

func TestEveryOperationSurvivesAFailureAtEveryCommandToAHost(t *testing.T) {
	for _, o := range operations() {
		for _, m := range []mode{crashBefore, crashAfter, notLanded, landed, twice} {
			t.Run(o.name+", "+string(m), func(t *testing.T) {
				for at := 1; ; at++ {
					h := &pointHosts{first: failure{at, m}}
					endure(t, o, h, failure{})
					if h.n < at {
						break
					}
				}
			})
		}
	}
}

func TestEveryOperationSurvivesASecondFailureOnTheRecoveryFromTheFirst(t *testing.T) {
	modes := []mode{crashBefore, crashAfter, notLanded, landed}
	for _, o := range operations() {
		t.Run(o.name, func(t *testing.T) {
			// A fixed sample of the pairs.
			for at := 1; at <= 7; at++ {
				for then := 1; then <= 4; then++ {
					first, second := failure{at, modes[(at+then)%2]}, failure{then, modes[(at*then)%4]}
					if !survive(t, o, first, second) {
						return
					}
				}
			}
		})
	}
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
