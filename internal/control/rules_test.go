package control_test

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// Rules that no other test tells apart.

// route publishes the revision behind the controller's back.
func (r *rig) route(name, revision string) {
	doc, err := r.store.Get(r.t.Context(), store.Key{Kind: service.KindRoutes, Name: name})
	if err != nil {
		r.t.Fatal(err)
	}
	var routes service.Routes
	decode(r.t, doc, &routes)
	minted := r.revision(revision).Minted
	routes.Plan.Splits = []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}, Minted: []string{minted}}}
	r.put(store.Key{Kind: service.KindRoutes, Name: name}, doc.Version, routes)
}

// recordedUnpublished fails the test where a commit has the catalog name
// another leader of the traffic than the routes do.
func (r *rig) recordedUnpublished(name string) {
	c, p := r.catalog(name), service.Routes{}
	p, _ = get[service.Routes](r, service.KindRoutes, name)
	if len(p.Plan.Splits) == 0 || p.Plan.Splits[0].Revision != service.Lead(c.Traffic) {
		r.t.Errorf("the catalog is written (%s) while published is %s", c.Serving(), service.PlanText(p.Plan))
	}
}

func TestFinalizePublishesWhatItIsAboutToRecord(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{from: writes(service.KindRevision, "hello-00002")}
		edited := false
		p.hook = func(n int, a store.Apply) {
			if n == 6 { // the routes are acknowledged: the next write is the catalog's
				edited = true
				r.route("hello", "hello-00001")
			} else if edited && writes(service.KindCatalog, "hello")(a) {
				r.recordedUnpublished("hello")
			}
		}
		r.killable(p)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(20*time.Second, "hello", "hello-00002")
		if s := r.deploySaga("hello"); !edited || s.Attempt != 1 {
			t.Errorf("edited %v: %+v", edited, s)
		}
	})
}

func TestAVerbRecordsOnlyWhatIsPublished(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var asked, edited bool
		p := &pointStore{from: func(a store.Apply) bool { return asked && writes(service.KindRoutes, "hello")(a) }}
		p.hook = func(n int, a store.Apply) {
			if n == 2 { // the routes are acknowledged: the next write is the catalog's
				edited = true
				r.route("hello", "hello-00002")
			} else if edited && writes(service.KindCatalog, "hello")(a) {
				r.recordedUnpublished("hello")
			}
		}
		c := r.start(options{warm: time.Hour, wrap: func(s store.Store) store.Store { p.Store = s; return p }})
		p.kill = c.cancel
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		asked = true
		if _, err := r.rollback("hello", ""); err != nil {
			t.Fatal(err)
		}
		r.leads(2*time.Minute, "hello", "hello-00001")
		if !edited {
			t.Error("nothing was edited")
		}
	})
}

func TestAFailedDeploySaysSoOnlyOnceTheGatewaysHaveTheEarlierRoutes(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{from: writes(service.KindRevision, "hello-00002"), at: 7, mode: notLanded}
		p.hook = func(n int, _ store.Apply) {
			if n == 6 { // the routes are acknowledged: the next write is the catalog's
				r.gateways.Gateway("g1").Lag(2 * time.Second)
			}
		}
		r.killable(p)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.within(10*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if why := r.disagreement("hello"); why != "" || r.deploySaga("hello").FailedStep != "finalize" {
			t.Errorf("after the failure: %s: %+v", why, r.deploySaga("hello"))
		}
		stop()
	})
}

func TestAHoldIsAcknowledgedByEveryGatewayBeforeTheOldOneIsStopped(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.start(options{})
		r.swap("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g2").Lag(2 * time.Second)
		r.swap("hello", "two")
		r.within(10*time.Second, "the old one is stopped", func() bool {
			if len(r.live("hello-00001")) > 0 {
				return false
			}
			for _, g := range []string{"g1", "g2"} {
				if route, _ := r.gateways.Gateway(g).Table().Route("hello"); !route.Splits[0].Hold {
					t.Errorf("gateway %s does not hold requests: %s", g, service.PlanText(route))
				}
			}
			return true
		})
		r.serves(30*time.Second, "hello", "hello-00002")
	})
}

func TestAResumedDeployAssignsAgainWhatItsHostLost(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		r.deploy("hello", "one")
		r.within(2*time.Second, "it is started", func() bool { return r.deploySaga("hello").At() == "ready" })
		e := a.Epoch()
		a.stop()
		r.loseSlot(e, "a", "hello-00001.0")
		if len(r.live("hello-00001")) != 0 {
			t.Fatal("the slot is not lost")
		}
		r.start(options{})
		r.serves(20*time.Second, "hello", "hello-00001")
		if s := r.deploySaga("hello"); s.Attempt != 1 {
			t.Errorf("it took another attempt: %+v", s)
		}
	})
}

// betweenStore calls before and after each Apply.
type betweenStore struct {
	store.Store
	before, after func(a store.Apply)
}

func (b *betweenStore) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	b.before(a)
	res, err := b.Store.Apply(ctx, a)
	b.after(a)
	return res, err
}

func TestWhatChangedBetweenReadAndWriteIsReadAgain(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		records := 0
		recorded := func(a store.Apply) bool {
			return writes(service.KindRevision, "hello-00002")(a) && writes(service.KindCatalog, "hello")(a)
		}
		b := &betweenStore{
			before: func(a store.Apply) {
				if recorded(a) {
					if records++; records == 2 { // the first mints it, the second finalizes it
						r.route("hello", "hello-00001")
					}
				}
			},
			after: func(a store.Apply) {
				if recorded(a) && records >= 2 {
					r.recordedUnpublished("hello")
				}
			},
		}
		r.start(options{wrap: func(s store.Store) store.Store { b.Store = s; return b }})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(20*time.Second, "hello", "hello-00002")
		if s := r.deploySaga("hello"); records < 3 || s.Attempt != 1 {
			t.Errorf("%d commits: %+v", records, s)
		}
	})
}

func TestAServiceThatIsNeverReadyDelaysNoOther(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		neverTwo(r)
		r.start(options{})
		r.deploy("bad", "two")
		r.within(2*time.Second, "it is waited for", func() bool { return r.deploySaga("bad").At() == "ready" })
		r.deploy("good", "one")
		r.serves(10*time.Second, "good", "good-00001")
		if s := r.deploySaga("bad"); s.At() != "ready" || s.State != saga.Running {
			t.Errorf("the other one is not in its wait: %+v", s)
		}
	})
}

func TestAScaleGoesOnOnlyOnceWhatWasAddedIsReady(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{ReadyAfter: 2 * time.Second}
		})
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(20*time.Second, "it waits no more", func() bool {
			at := r.saga("hello", service.WorkScale).At()
			return at != "place" && at != "ready"
		})
		for _, i := range r.live("hello-00001") {
			if i.LiveFor < 3*time.Second {
				t.Errorf("%s has been live for %s", i.Slot, i.LiveFor)
			}
		}
		if n := len(r.live("hello-00001")); n != 3 {
			t.Errorf("%d are live", n)
		}
	})
}
