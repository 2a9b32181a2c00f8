package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

func (r *rig) desired(name string) service.Desired {
	d, _ := get[service.Desired](r, service.KindDesired, name)
	return d
}

// verb writes what a verb makes of the desired document.
func (r *rig) verb(name string, f func(d service.Desired) (service.Desired, error)) service.Desired {
	r.t.Helper()
	next, err := f(r.desired(name))
	if err != nil {
		r.t.Fatal(err)
	}
	doc, _ := r.store.Get(r.t.Context(), store.Key{Kind: service.KindDesired, Name: name})
	r.put(doc.Key, doc.Version, next)
	return next
}

func (r *rig) rollback(name, to string) (service.RollbackChoice, error) {
	revs := list[service.Revision](r, service.KindRevision, name)
	choice, err := service.ChooseRollback(r.desired(name), r.catalog(name), revs, to)
	if err == nil {
		r.verb(name, func(d service.Desired) (service.Desired, error) { return service.Rollback(d, choice, revs), nil })
	}
	return choice, err
}

func (r *rig) abort(name string) error {
	next, err := service.Abort(r.desired(name), r.catalog(name), list[service.Revision](r, service.KindRevision, name), list[saga.Record](r, service.KindSaga, name))
	if err == nil {
		r.verb(name, func(service.Desired) (service.Desired, error) { return next, nil })
	}
	return err
}

func (r *rig) traffic(name string, parts ...service.Target) {
	r.t.Helper()
	r.verb(name, func(d service.Desired) (service.Desired, error) {
		return service.SetTraffic(d, parts, nil, list[service.Revision](r, service.KindRevision, name))
	})
}

// newest saga of the kind.
func (r *rig) saga(name, kind string) saga.Record {
	var newest saga.Record
	for _, s := range list[saga.Record](r, service.KindSaga, name) {
		if s.Kind == kind && !s.Started.Before(newest.Started) {
			newest = s
		}
	}
	return newest
}

// leads waits until the revision leads the traffic and everything agrees.
func (r *rig) leads(d time.Duration, name, revision string) {
	r.t.Helper()
	r.within(d, revision+" leads "+name, func() bool {
		return service.Lead(r.catalog(name).Traffic) == revision && r.disagreement(name) == "" && r.catalog(name).ObservedGeneration == r.desired(name).Generation
	})
}

func refused(t *testing.T, err error, words string) {
	t.Helper()
	var in *service.InputError
	if !errors.As(err, &in) || !strings.Contains(in.Problem, words) {
		t.Errorf("refused with %v, want %q", err, words)
	}
}

func TestARollbackToAWarmRevisionIsOneWriteBeforeTheGatewaysHaveIt(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		p := &pointStore{}
		c := r.start(options{warm: 10 * time.Minute, wrap: func(s store.Store) store.Store { p.Store = s; return p }})
		p.kill = c.cancel
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		time.Sleep(5 * time.Minute)
		if len(r.live("hello-00001")) != 1 || r.catalog("hello").Warm != "hello-00001" || r.catalog("hello").WarmUntil.IsZero() {
			t.Fatalf("the first is not kept warm: %+v", r.catalog("hello"))
		}
		one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
		before := p.count()
		published := 0
		p.hook = func(n int, a store.Apply) {
			if published == 0 && writes(service.KindRoutes, "hello")(a) {
				published = n - before
			}
		}
		began := time.Now()
		choice, err := r.rollback("hello", "")
		if err != nil || choice.Revision != "hello-00001" || !choice.Warm || !strings.Contains(choice.Reason, "before hello-00002") {
			t.Fatalf("%+v, %v", choice, err)
		}
		r.leads(time.Second, "hello", "hello-00001")
		if took := time.Since(began); took > 500*time.Millisecond || published != 1 {
			t.Errorf("it took %s, and published by write %d", took, published)
		}
		if cat := r.catalog("hello"); cat.Latest != "hello-00001" || cat.Warm != "hello-00002" || r.desired("hello").Template.Command[0] != "one" {
			t.Errorf("configuration did not come back: %+v", cat)
		}
		time.Sleep(time.Minute)
		if n := len(list[service.Revision](r, service.KindRevision, "hello")); n != 2 {
			t.Errorf("%d revisions: one was minted", n)
		}
		one()
		two()
	})
}

func TestOnlyTheOneRevisionBeforeIsKeptWarmAndOnlyForItsWindow(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{warm: 5 * time.Minute})
		for i, release := range []string{"one", "two", "three", "four"} {
			r.deploy("hello", release)
			r.serves(10*time.Second, "hello", service.RevisionName("hello", int32(i+1)))
			time.Sleep(30 * time.Second)
		}
		if n := len(r.hosts.Running()); n != 2 || len(r.live("hello-00003")) != 1 {
			t.Fatalf("%d processes run, of hello-00003 %d", n, len(r.live("hello-00003")))
		}
		time.Sleep(4 * time.Minute)
		if len(r.live("hello-00003")) != 1 {
			t.Error("it was let go within the window")
		}
		r.within(time.Minute, "it is let go after the window", func() bool {
			return len(r.hosts.Running()) == 1 && r.catalog("hello").Warm == "" && r.revision("hello-00003").State == service.RevisionRetired
		})
	})
}

func TestARollbackToACollectedRevisionStartsItBeforeTrafficIsMoved(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		r.within(time.Minute, "the first is retired", func() bool { return r.revision("hello-00001").State == service.RevisionRetired })
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(10*time.Second, "three are live", func() bool { return len(r.live("hello-00002")) == 3 })
		stop := r.watched("hello", "g1")
		choice, err := r.rollback("hello", "")
		if err != nil || choice.Warm {
			t.Fatalf("%+v, %v", choice, err)
		}
		r.within(2*time.Second, "it is started", func() bool { return len(r.live("hello-00001")) == 3 })
		if route, _ := r.gateways.Gateway("g1").Table().Route("hello"); route.Splits[0].Revision != "hello-00002" {
			t.Error("traffic was moved before it was ready")
		}
		r.leads(10*time.Second, "hello", "hello-00001")
		stop()
		// Past the grace of collection, it is the one that stays.
		time.Sleep(time.Minute)
		if len(r.live("hello-00001")) != 3 || len(r.live("hello-00002")) != 0 {
			t.Errorf("%d of the first and %d of the second run", len(r.live("hello-00001")), len(r.live("hello-00002")))
		}
	})
}

func TestARevisionThatCannotBeStartedAgainGetsNoTraffic(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		r.within(time.Minute, "the first is retired", func() bool { return r.revision("hello-00001").State == service.RevisionRetired })
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{NeverListens: runs(a, "one")}
		})
		stop := r.watched("hello", "g1")
		if _, err := r.rollback("hello", ""); err != nil {
			t.Fatal(err)
		}
		r.within(2*time.Minute, "the attempt failed", func() bool { return r.saga("hello", service.WorkTraffic).State == saga.Waiting })
		if s := r.saga("hello", service.WorkTraffic); s.FailedStep != "capacity" || !strings.Contains(s.Error, "no traffic is moved to hello-00001") || s.RetryAt.IsZero() {
			t.Errorf("the saga does not say why: %+v", s)
		}
		if why := r.disagreement("hello"); why != "" || service.Lead(r.catalog("hello").Traffic) != "hello-00002" {
			t.Errorf("after the failure: %s", why)
		}
		if err := r.abort("hello"); err != nil {
			t.Fatal(err)
		}
		r.within(2*time.Minute, "nothing of it is left", func() bool {
			return r.saga("hello", service.WorkTraffic).State == saga.Failed && len(r.hosts.Running()) == 1
		})
		stop()
	})
}

func TestARollbackWhoseRecordFailsIsTakenBackAndTheServingRevisionOutlivesTheCollector(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var asked bool
		p := &pointStore{mode: notLanded, from: func(a store.Apply) bool { return asked && writes(service.KindCatalog, "hello")(a) }, at: 1}
		c := r.start(options{warm: time.Hour, wrap: func(s store.Store) store.Store { p.Store = s; return p }})
		p.kill = c.cancel
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		stop := r.watched("hello", "g1")
		asked = true
		if _, err := r.rollback("hello", ""); err != nil {
			t.Fatal(err)
		}
		r.within(10*time.Second, "the attempt failed", func() bool { return r.saga("hello", service.WorkTraffic).State == saga.Waiting })
		if s := r.saga("hello", service.WorkTraffic); s.FailedStep != "record" || s.Effects["published"] == "" {
			t.Fatalf("it did not fail after publication: %+v", s)
		}
		for range 12 {
			if why := r.disagreement("hello"); why != "" || service.Lead(r.catalog("hello").Traffic) != "hello-00002" {
				t.Fatalf("after the failure: %s", why)
			}
			time.Sleep(time.Second)
		}
		r.leads(time.Minute, "hello", "hello-00001")
		stop()
	})
}

func TestAbortEndsADeployAtItsNextWaitAndItIsNotTriedAgain(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		neverTwo(r)
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		refused(t, r.abort("hello"), "nothing to abort")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.within(10*time.Second, "it waits for readiness", func() bool { return r.deploySaga("hello").At() == "ready" })
		if err := r.abort("hello"); err != nil {
			t.Fatal(err)
		}
		r.within(time.Second, "it has ended", func() bool {
			s := r.deploySaga("hello")
			return s.State == saga.Failed && strings.Contains(s.Error, "aborted") && s.RetryAt.IsZero()
		})
		refused(t, r.abort("hello"), "nothing to abort")
		time.Sleep(5 * time.Minute)
		if s := r.deploySaga("hello"); s.Attempt != 1 || s.State != saga.Failed || len(r.hosts.Running()) != 1 {
			t.Errorf("it was tried again: %+v", s)
		}
		r.leads(time.Second, "hello", "hello-00001")
		if rev := r.revision("hello-00002"); rev.State != service.RevisionRetired && rev.State != service.RevisionFailed {
			t.Errorf("its revision is %s", rev.State)
		}
		stop()
		// Asked for again, it is a new attempt of a new revision.
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{} })
		r.write("hello", func(d *service.Desired) { d.Template.Command, d.Aborted = []string{"two"}, 0 })
		r.serves(10*time.Second, "hello", "hello-00003")
	})
}

func TestAbortOfADeployInBackOffEndsItsRetries(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		neverTwo(r)
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Template.Command, d.Template.ReadyTimeout = []string{"two"}, 5*time.Second })
		r.within(20*time.Second, "it is in its back-off", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if err := r.abort("hello"); err != nil {
			t.Fatal(err)
		}
		r.within(time.Second, "it has ended", func() bool { return r.deploySaga("hello").State == saga.Failed })
		time.Sleep(10 * time.Minute)
		if s := r.deploySaga("hello"); s.Attempt != 1 || len(list[service.Revision](r, service.KindRevision, "hello")) != 1 {
			t.Errorf("the first deploy of all was tried again: %+v", s)
		}
	})
}

func TestAPausedDeployHoldsAtItsNextStepSaysSoAndGoesOnWhenResumed(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.within(10*time.Second, "it waits for readiness", func() bool { return r.deploySaga("hello").At() == "ready" })
		r.verb("hello", service.Pause)
		r.within(10*time.Second, "it holds", func() bool {
			s := r.deploySaga("hello")
			return s.State == saga.Running && s.At() == "routes" && strings.Contains(s.Held, "paused before routes")
		})
		time.Sleep(10 * time.Minute)
		c.stop() // a controller that starts anew holds it too
		r.start(options{})
		time.Sleep(time.Minute)
		if s := r.deploySaga("hello"); s.At() != "routes" || service.Lead(r.catalog("hello").Traffic) != "hello-00001" || len(r.live("hello-00002")) != 1 {
			t.Errorf("it went on: %+v", s)
		}
		r.verb("hello", service.Resume)
		r.leads(5*time.Second, "hello", "hello-00002")
		if s := r.deploySaga("hello"); s.Held != "" || s.Attempt != 1 {
			t.Errorf("%+v", s)
		}
		stop()
	})
}

func TestARollbackDuringTheBackOffWinsAndADeployAfterItEndsAtZeroAndSaysSo(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		for i, release := range []string{"one", "two"} {
			r.deploy("hello", release)
			r.serves(10*time.Second, "hello", service.RevisionName("hello", int32(i+1)))
		}
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{NeverListens: runs(a, "three")}
		})
		r.deploy("hello", "three")
		r.within(2*time.Minute, "it is in its back-off", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		stop := r.watched("hello", "g1")
		if _, err := r.rollback("hello", ""); err != nil {
			t.Fatal(err)
		}
		r.leads(20*time.Second, "hello", "hello-00001")
		if s := r.deploySaga("hello"); s.State != saga.Superseded {
			t.Errorf("the deploy in its back-off is %s", s.State)
		}
		r.deploy("hello", "four")
		r.within(20*time.Second, "the deploy is done", func() bool { return r.catalog("hello").Latest == "hello-00004" })
		if s := r.deploySaga("hello"); !strings.Contains(s.Steps[4].Text, "gets 0%") || !strings.Contains(s.Steps[4].Text, "fairlead traffic") {
			t.Errorf("the routes step says %q", s.Steps[4].Text)
		}
		if why := r.disagreement("hello"); why != "" || service.Lead(r.catalog("hello").Traffic) != "hello-00001" {
			t.Errorf("%s: %+v", why, r.catalog("hello"))
		}
		r.traffic("hello", service.Target{Percent: 100})
		r.leads(10*time.Second, "hello", "hello-00004")
		stop()
	})
}

func TestARollbackTwiceGoesOnlyBack(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{warm: time.Hour})
		for i, release := range []string{"one", "two", "three"} {
			r.deploy("hello", release)
			r.serves(10*time.Second, "hello", service.RevisionName("hello", int32(i+1)))
		}
		stop := r.watched("hello", "g1")
		for _, want := range []string{"hello-00002", "hello-00001"} {
			if choice, err := r.rollback("hello", ""); err != nil || choice.Revision != want {
				t.Fatalf("%+v, %v", choice, err)
			}
			r.leads(20*time.Second, "hello", want)
		}
		_, err := r.rollback("hello", "")
		refused(t, err, "nothing to go back to")
		_, err = r.rollback("hello", "hello-00001")
		refused(t, err, "already")
		stop()
	})
}

func TestASplitIsPublishedWholeAndEachPartAnswers(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.start(options{warm: time.Hour})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
		r.traffic("hello", service.Target{Revision: "hello-00001", Percent: 90}, service.Target{Revision: "hello-00002", Percent: 10})
		r.leads(5*time.Second, "hello", "hello-00001")
		time.Sleep(2 * time.Minute)
		for _, g := range []string{"g1", "g2"} {
			if route, _ := r.gateways.Gateway(g).Table().Route("hello"); len(route.Splits) != 2 || route.Splits[0].Percent != 90 || route.Splits[1].Percent != 10 {
				t.Errorf("%s routes %+v", g, route.Splits)
			}
		}
		if choice, err := r.rollback("hello", ""); err != nil || choice.Revision != "hello-00001" {
			t.Errorf("from a canary: %+v, %v", choice, err)
		}
		r.leads(5*time.Second, "hello", "hello-00001")
		one()
		two()
	})
}

func TestAScaleOrAPauseDuringAChangeOfTrafficDoesNotTakeItBack(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{}
		c := r.start(options{warm: time.Hour, wrap: func(s store.Store) store.Store { p.Store = s; return p }})
		p.kill = c.cancel
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		var plans []string
		p.hook = func(_ int, a store.Apply) {
			if writes(service.KindRoutes, "hello")(a) {
				routes, _ := get[service.Routes](r, service.KindRoutes, "hello")
				plans = append(plans, service.PlanText(routes.Plan))
			}
		}
		stop := r.watched("hello", "g1")
		r.gateways.Gateway("g1").Lag(3 * time.Second)
		if _, err := r.rollback("hello", ""); err != nil {
			t.Fatal(err)
		}
		r.within(time.Second, "it waits for the gateway", func() bool { return r.saga("hello", service.WorkTraffic).At() == "publish" })
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.verb("hello", service.Pause)
		r.leads(30*time.Second, "hello", "hello-00001")
		if len(plans) != 1 {
			t.Errorf("the routes went %q", plans)
		}
		stop()
	})
}

func TestALaterRollbackWinsOverAChangeOfTrafficThatWaits(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		for i, release := range []string{"one", "two", "three"} {
			r.deploy("hello", release)
			r.serves(10*time.Second, "hello", service.RevisionName("hello", int32(i+1)))
		}
		r.within(time.Minute, "the others are retired", func() bool { return len(r.hosts.Running()) == 1 })
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{NeverListens: runs(a, "two")}
		})
		stop := r.watched("hello", "g1")
		if _, err := r.rollback("hello", "hello-00002"); err != nil {
			t.Fatal(err)
		}
		r.within(5*time.Second, "it waits for capacity", func() bool {
			return r.saga("hello", service.WorkTraffic).At() == "capacity" && len(r.hosts.Running()) == 2
		})
		if _, err := r.rollback("hello", "hello-00001"); err != nil {
			t.Fatal(err)
		}
		r.leads(6*time.Second, "hello", "hello-00001")
		r.within(time.Minute, "nothing of the other is left", func() bool { return len(r.hosts.Running()) == 1 })
		stop()
	})
}
