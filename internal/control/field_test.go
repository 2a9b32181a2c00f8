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

// What went wrong elsewhere, tried here.

func TestTwentyCrashingGenerationsLeaveABoundedNumberOfProcessesAndRevisions(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			if runs(a, "good") {
				return hosttest.Behaviour{}
			}
			return hosttest.Behaviour{ExitAfter: 700 * time.Millisecond}
		})
		r.start(options{})
		r.deploy("hello", "good")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		for i := range 20 {
			r.write("hello", func(d *service.Desired) {
				d.Template.Command, d.Template.ReadyTimeout = []string{"bad", string(rune('a' + i))}, 5*time.Second
			})
			time.Sleep(50 * time.Second) // its attempt, its back-off, and the next attempt
			if n := len(r.hosts.Running()); n > 3 {
				t.Fatalf("after %d generations %d processes run", i+1, n)
			}
		}
		r.within(2*time.Minute, "all but the last are retired", func() bool {
			left := 0
			for _, rev := range list[service.Revision](r, service.KindRevision, "hello") {
				if rev.State != service.RevisionRetired {
					left++
				}
			}
			return left <= 2 && len(r.hosts.Running()) <= 2
		})
		if n := len(list[service.Revision](r, service.KindRevision, "hello")); n > service.KeptRevisions+7 {
			t.Errorf("%d revisions", n)
		}
		stop()
	})
}

func TestAGatewayThatAppliesRoutesLateIsWaitedForAndWhatItRoutesToOutlivesTheCollector(t *testing.T) {
	for _, lag := range []time.Duration{5 * time.Second, 15 * time.Second} {
		inRegion(t, 2, func(r *rig) {
			r.start(options{})
			r.deploy("hello", "one")
			r.serves(10*time.Second, "hello", "hello-00001")
			one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
			r.gateways.Gateway("g2").Lag(lag)
			r.deploy("hello", "two")
			r.within(5*time.Second, "it is published", func() bool {
				s := r.deploySaga("hello")
				return s.Subject == "hello-00002" && s.Effects["published"] != ""
			})
			time.Sleep(lag - time.Second)
			if r.catalog("hello").Latest != "hello-00001" || len(r.live("hello-00001")) != 1 {
				t.Errorf("with a lag of %s the gateway was not waited for", lag)
			}
			r.serves(10*time.Second, "hello", "hello-00002")
			r.within(time.Minute, "the first is collected", func() bool { return len(r.live("hello-00001")) == 0 })
			one()
			two()
		})
	}
}

func TestAnInstanceKilledInMidDeployIsReplacedByOneOfItsOwnRevision(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.within(5*time.Second, "it waits for readiness", func() bool { return r.deploySaga("hello").At() == "ready" })
		r.hosts.Kill(r.live("hello-00001")[0].ID)
		r.within(time.Second, "the first has two again", func() bool { return len(r.live("hello-00001")) == 2 })
		if len(r.live("hello-00002")) != 2 || r.catalog("hello").Latest != "hello-00001" {
			t.Error("the unproven revision was put in its place")
		}
		r.serves(10*time.Second, "hello", "hello-00002")
		stop()
	})
}

func TestAServiceDeletedAndMadeAgainWithinOnePassServes(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.delete("hello")
		r.deploy("hello", "two")
		r.within(2*time.Minute, "it is what is asked for", func() bool {
			c := r.catalog("hello")
			return c.ObservedGeneration == 3 && r.disagreement("hello") == "" && r.revision(c.Latest).Template.Command[0] == "two"
		})
		if d := r.desired("hello"); d.Deleted || d.Generation != 3 {
			t.Errorf("the newer document was lost: %+v", d)
		}
	})
}

func TestTheBackOffOfAFailedTeardownNeverTouchesTheNextLife(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g1").FailKeeping(errors.New("no space left"))
		r.delete("hello")
		r.within(2*time.Minute, "the teardown failed and waits", func() bool { return r.saga("hello", service.WorkDelete).State == saga.Waiting })
		r.gateways.Gateway("g1").FailKeeping(nil)
		r.deploy("hello", "two")
		r.within(2*time.Minute, "the next life serves", func() bool { return r.catalog("hello").ObservedGeneration == 3 && r.disagreement("hello") == "" })
		latest := r.catalog("hello").Latest
		stop := r.watched("hello", "g1")
		time.Sleep(15 * time.Minute) // longer than any back-off
		if d := r.desired("hello"); d.Generation != 3 || r.catalog("hello").Latest != latest || len(r.live(latest)) != 1 {
			t.Errorf("the next life was touched: %+v", d)
		}
		stop()
	})
}

// apart has hello-00002 published and answering, and a catalog that names
// hello-00001, which does not answer: put there behind the controller's back.
func apart(r *rig) {
	r.t.Helper()
	r.deploy("hello", "one")
	r.serves(10*time.Second, "hello", "hello-00001")
	r.deploy("hello", "two")
	r.serves(10*time.Second, "hello", "hello-00002")
	r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
		return hosttest.Behaviour{NeverListens: runs(a, "one")}
	})
	r.hosts.Kill(r.live("hello-00001")[0].ID)
	k := store.Key{Kind: service.KindCatalog, Name: "hello"}
	doc, _ := r.store.Get(r.t.Context(), k)
	cat := r.catalog("hello")
	cat.Traffic[0].Revision, cat.Traffic[0].Group, cat.Latest = "hello-00001", "hello-00001", "hello-00002"
	// In one commit, so that no traffic saga begins between the two.
	wanted := store.Key{Kind: service.KindDesired, Name: "hello"}
	standing, _ := r.store.Get(r.t.Context(), wanted)
	var d service.Desired
	decode(r.t, standing, &d)
	d.Generation++
	d.Traffic = []service.Target{{Revision: "hello-00001", Percent: 100}}
	r.puts(map[store.Key]versioned{wanted: {standing.Version, d}, k: {doc.Version, cat}})
}

func TestWhereTheCatalogsRevisionDoesNotAnswerWhatAnswersIsKeptAndAnOperatorNamed(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{warm: time.Hour})
		apart(r)
		stop := r.watched("hello", "g1")
		r.within(10*time.Second, "it is named", func() bool { return strings.Contains(c.NeedsOperator("hello"), "does not answer") })
		time.Sleep(time.Minute)
		if route, _ := r.gateways.Gateway("g1").Table().Route("hello"); route.Splits[0].Revision != "hello-00002" || len(r.live("hello-00002")) != 1 {
			t.Error("what answers was not kept")
		}
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{} })
		stop()
	})
}

func TestATrafficSagaOfTheFirstDefinitionIsMappedAndGoesOn(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		a.stop()
		d := r.write("hello", func(d *service.Desired) { d.HostNames = []string{"x.example"} })
		id := "hello.traffic.-.00VHNCZYH06KNN95XZSVXA8C7F"
		r.put(store.Key{Kind: service.KindSaga, Name: id}, 0, saga.Record{
			ID: id, Kind: service.WorkTraffic, Definition: 1, Owner: "hello", Generation: d.Generation, Attempt: 1, State: saga.Running,
			Steps: []saga.Step{{Name: "publish", State: "running"}, {Name: "record"}},
		})
		r.start(options{})
		r.within(10*time.Second, "it is done", func() bool {
			s, _ := get[saga.Record](r, service.KindSaga, id)
			return s.State == saga.Done && s.Definition == 2 && len(s.Steps) == 3 && len(r.catalog("hello").Hosts) == 2
		})
	})
}
