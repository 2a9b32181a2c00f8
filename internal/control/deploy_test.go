package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestADeployServesAfterThreeSecondsOfReadiness(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		began := time.Now()
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		if took := time.Since(began); took < 3*time.Second || took > 3300*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		s := r.deploySaga("hello")
		if s.State != saga.Done || s.At() != "" {
			t.Errorf("the saga is %+v", s)
		}
		if c := r.catalog("hello"); c.ObservedGeneration != 1 || c.LastRevision != 1 || c.Hosts[0] != "hello.localhost" {
			t.Errorf("the catalog is %+v", c)
		}
		rev, _ := get[service.Revision](r, service.KindRevision, "hello-00001")
		if rev.State != service.RevisionServing {
			t.Errorf("the revision is %+v", rev)
		}
	})
}

func TestASecondDeployHandsOverWithoutAMomentUnanswered(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Template.Command, d.Instances = []string{"one"}, 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		r.within(60*time.Second, "the first revision is retired", func() bool {
			rev, _ := get[service.Revision](r, service.KindRevision, "hello-00001")
			return rev.State == service.RevisionRetired && len(r.live("hello-00001")) == 0
		})
		stop()
		hosts := map[string]bool{}
		for _, i := range r.live("hello-00002") {
			hosts[i.Host] = true
		}
		if len(hosts) != 2 {
			t.Errorf("the instances are not spread: %v", hosts)
		}
	})
}

func TestAReleaseThatExitsSoonAfterItsStartIsNeverPromoted(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			if runs(a, "two") {
				return hosttest.Behaviour{ExitAfter: 1500 * time.Millisecond, ExitStatus: "exit status 3"}
			}
			return hosttest.Behaviour{}
		})
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.within(70*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		s := r.deploySaga("hello")
		if s.FailedStep != "ready" || !strings.Contains(s.Error, "exit status 3") || s.RetryAt.IsZero() {
			t.Errorf("the saga does not say why: %+v", s)
		}
		if why := r.disagreement("hello"); why != "" || r.catalog("hello").Latest != "hello-00001" {
			t.Errorf("after the failure: %s", why)
		}
		if n := len(r.live("hello-00002")); n != 0 {
			t.Errorf("%d instances of the bad release live on", n)
		}
		r.within(2*time.Minute, "it is tried again", func() bool { return r.deploySaga("hello").Attempt == 2 })
		if revs := list[service.Revision](r, service.KindRevision, "hello"); len(revs) != 2 {
			t.Errorf("a sibling was minted: %+v", revs)
		}
		// A good release ends it.
		r.deploy("hello", "three")
		r.serves(10*time.Second, "hello", "hello-00003")
		stop()
		for _, s := range list[saga.Record](r, service.KindSaga, "hello") {
			if s.Subject == "hello-00002" && s.Kind == service.WorkDeploy && s.State != saga.Superseded {
				t.Errorf("the bad deploy is %s", s.State)
			}
		}
	})
}

func TestADeployThatNeverListensSaysWhatItListensOn(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{WrongPort: 9999} })
		r.start(options{})
		r.deploy("hello", "one")
		r.within(70*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if s := r.deploySaga("hello"); !strings.Contains(s.Error, "9999") {
			t.Errorf("the error is %q", s.Error)
		}
	})
}

func TestACommandThatDoesNotExistFailsAtInstall(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{Refuse: "command nosuch is not found"}
		})
		r.start(options{})
		r.deploy("hello", "nosuch")
		r.within(5*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if s := r.deploySaga("hello"); s.FailedStep != "install" || !strings.Contains(s.Error, "nosuch is not found") {
			t.Errorf("the saga is %+v", s)
		}
	})
}

func TestWithoutAGatewayTheRoutesStepFailsAtItsDeadlineAndSaysSo(t *testing.T) {
	inRegion(t, 0, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.within(40*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if s := r.deploySaga("hello"); s.FailedStep != "routes" || !strings.Contains(s.Error, "no gateway is known") {
			t.Errorf("the saga is %+v", s)
		}
		r.gateways.Add("g1")
		r.serves(time.Minute, "hello", "hello-00001")
	})
}

func TestWhereNoKnownGatewayIsHeardTheRoutesStepFailsAtItsDeadlineAndNamesThem(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
		for _, g := range []string{"g1", "g2"} {
			r.gateways.Gateway(g).Cut()
		}
		r.deploy("hello", "two")
		r.within(20*time.Second, "it is published", func() bool { return r.deploySaga("hello").At() == "routes" })
		published := time.Now()
		r.within(40*time.Second, "it fails", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if took := time.Since(published); took < 25*time.Second {
			t.Errorf("it was given up after %s: nobody could have acknowledged", took)
		}
		if s := r.deploySaga("hello"); !strings.Contains(s.Error, "no gateway is heard (g1, g2)") || len(r.live("hello-00001")) != 1 || r.catalog("hello").Latest != "hello-00001" {
			t.Errorf("%q, and %d of the first are live", s.Error, len(r.live("hello-00001")))
		}
		for _, g := range []string{"g1", "g2"} {
			r.gateways.Gateway(g).Heal()
		}
		r.serves(time.Minute, "hello", "hello-00002")
		one()
		two()
	})
}

func TestARefusedRouteFailsTheStepAndNamesIt(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.gateways.Gateway("g1").Refuse("hello", "no such thing")
		r.start(options{})
		r.deploy("hello", "one")
		r.within(10*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").FailedStep == "routes" })
		if s := r.deploySaga("hello"); !strings.Contains(s.Error, "no such thing") || !strings.Contains(s.Error, "g1") {
			t.Errorf("the error is %q", s.Error)
		}
	})
}

func TestALaterIntentEndsAnAttemptWithinASecond(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{NeverListens: runs(a, "one")}
		})
		r.start(options{})
		r.deploy("hello", "one")
		r.within(5*time.Second, "it waits for readiness", func() bool { return r.deploySaga("hello").At() == "ready" })
		r.deploy("hello", "two")
		r.within(time.Second, "the first is superseded", func() bool {
			for _, s := range list[saga.Record](r, service.KindSaga, "hello") {
				if s.Subject == "hello-00001" && s.State == saga.Superseded {
					return true
				}
			}
			return false
		})
		r.serves(10*time.Second, "hello", "hello-00002")
		r.within(time.Minute, "nothing of the first is left", func() bool {
			rev, _ := get[service.Revision](r, service.KindRevision, "hello-00001")
			return rev.State == service.RevisionRetired && len(rev.Slots)+len(rev.Leaving) == 0
		})
	})
}

func TestARevisionThatALaterIntentTookThePlaceOfIsRetiredAndDidNotFail(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{NeverListens: runs(a, "one")}
		})
		r.start(options{})
		r.deploy("hello", "one")
		r.within(5*time.Second, "it waits for readiness", func() bool { return r.deploySaga("hello").At() == "ready" })
		r.deploy("hello", "two")
		r.within(time.Second, "the first has ended", func() bool {
			rev := r.revision("hello-00001")
			if rev.State == service.RevisionFailed {
				r.t.Fatalf("it is said to have failed: %s", rev.Reason)
			}
			return rev.State == service.RevisionRetired && strings.Contains(rev.Reason, "superseded")
		})
	})
}

func TestADeployUnderPinnedTrafficEndsAtZeroAndSaysSo(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.write("hello", func(d *service.Desired) {
			d.Template.Command = []string{"two"}
			d.Traffic = []service.Target{{Revision: "hello-00001", Percent: 100}, {}}
		})
		r.within(10*time.Second, "it is done", func() bool { return r.catalog("hello").Latest == "hello-00002" })
		if s := r.deploySaga("hello"); !strings.Contains(s.Steps[4].Text, "gets 0%") {
			t.Errorf("the routes step says %q", s.Steps[4].Text)
		}
		if why := r.disagreement("hello"); why != "" || r.catalog("hello").Traffic[0].Revision != "hello-00001" {
			t.Errorf("%s: %+v", why, r.catalog("hello"))
		}
		time.Sleep(time.Minute) // past the grace of collection
		if len(r.live("hello-00002")) != 1 || len(r.live("hello-00001")) != 1 {
			t.Error("one of the two was collected")
		}
	})
}

func TestTheSameIntentAgainIsMetAndMintsNothing(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "one")
		r.within(3*time.Second, "the generation is observed", func() bool { return r.catalog("hello").ObservedGeneration == 2 })
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		r.deploy("hello", "one") // A, B, A makes a third
		r.serves(10*time.Second, "hello", "hello-00003")
	})
}
