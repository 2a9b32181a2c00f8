package control_test

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// silentInInstall deploys a second release on two hosts, and ends host a's
// process while it has the command to prepare it.
func silentInInstall(r *rig) {
	r.start(options{})
	r.write("hello", func(d *service.Desired) { d.Instances = 2 })
	r.serves(10*time.Second, "hello", "hello-00001")
	r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
		if a.Slot == "" && runs(a, "two") {
			return hosttest.Behaviour{CommandDelay: time.Second}
		}
		return hosttest.Behaviour{}
	})
	r.deploy("hello", "two")
	r.within(5*time.Second, "it installs", func() bool { return r.deploySaga("hello").At() == "install" })
	time.Sleep(300 * time.Millisecond)
	r.hosts.Crash("a")
}

func (r *rig) doneAtFirst(within time.Duration, revision string) {
	r.t.Helper()
	r.within(within, revision+" is deployed", func() bool { return r.catalog("hello").Latest == revision })
	if s := r.deploySaga("hello"); s.Subject != revision || s.Attempt != 1 || s.State != saga.Done {
		r.t.Errorf("attempt %d of %s: %s, %s", s.Attempt, s.Subject, s.State, s.Error)
	}
}

func TestAHostThatIsSilentForSomeSecondsFailsNoDeploy(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		silentInInstall(r)
		time.Sleep(3 * time.Second)
		if s := r.deploySaga("hello"); s.State != saga.Running || s.At() != "install" {
			t.Fatalf("it did not wait for the host: %s at %s, %s", s.State, s.At(), s.Error)
		}
		r.hosts.Connect("a")
		r.doneAtFirst(10*time.Second, "hello-00002")
		if slots := r.revision("hello-00002").Slots; slots[0].Host == slots[1].Host {
			t.Error("the host that was back was given nothing to run")
		}
	})
}

func TestAHostThatStaysSilentInInstallIsReplacedWithinTheAttempt(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		silentInInstall(r)
		r.doneAtFirst(25*time.Second, "hello-00002")
		for _, s := range r.revision("hello-00002").Slots {
			if s.Host != "b" {
				t.Errorf("slot %s is placed on a host that is gone", s.ID)
			}
		}
	})
}

func TestAnAssignmentThatMayHaveBeenDoneIsAskedForAgain(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			if a.Slot != "" {
				return hosttest.Behaviour{CommandDelay: time.Second}
			}
			return hosttest.Behaviour{}
		})
		r.deploy("hello", "one")
		r.within(5*time.Second, "it is assigned", func() bool { return r.deploySaga("hello").At() == "instances" })
		time.Sleep(300 * time.Millisecond)
		r.hosts.Crash("a")
		time.Sleep(3 * time.Second)
		r.hosts.Connect("a")
		r.doneAtFirst(15*time.Second, "hello-00001")
	})
}

func TestALaterIntentEndsAnAttemptThatWaitsForAHostsAnswer(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			if a.Slot == "" && runs(a, "two") {
				return hosttest.Behaviour{CommandDelay: time.Minute}
			}
			return hosttest.Behaviour{}
		})
		r.deploy("hello", "two")
		r.within(5*time.Second, "it installs", func() bool { return r.deploySaga("hello").At() == "install" })
		time.Sleep(time.Second)
		r.deploy("hello", "three")
		r.within(time.Second, "the older attempt has ended", func() bool {
			for _, s := range list[saga.Record](r, service.KindSaga, "hello") {
				if s.Subject == "hello-00002" {
					return s.State == saga.Superseded
				}
			}
			return false
		})
		r.serves(10*time.Second, "hello", "hello-00003")
	})
}

func TestAScaleDuringTheBackOffOfABrokenReleaseDoesNotTryItAgain(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{NeverListens: runs(a, "two")}
		})
		r.write("hello", func(d *service.Desired) {
			d.Template.Command, d.Template.ReadyTimeout = []string{"two"}, 5*time.Second
		})
		r.within(20*time.Second, "it waits", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		failed := r.deploySaga("hello")
		r.write("hello", func(d *service.Desired) {
			d.Instances, d.Asked = 2, d.Generation-1 // as a scale does
		})
		r.within(10*time.Second, "what serves is scaled", func() bool { return len(r.live("hello-00001")) == 2 })
		time.Sleep(10 * time.Second)
		s := r.deploySaga("hello")
		if s.Attempt != failed.Attempt || s.State != saga.Waiting || !s.RetryAt.Equal(failed.RetryAt) {
			t.Errorf("attempt %d, %s, tried again at %s: the scale changed it", s.Attempt, s.State, s.RetryAt)
		}
		if s.Generation != r.desired("hello").Generation {
			t.Errorf("it names generation %d", s.Generation)
		}
		r.within(40*time.Second, "it is tried again when its wait is over", func() bool { return r.deploySaga("hello").Attempt == failed.Attempt+1 })
		// Who asks for the same again has it tried at once.
		r.within(20*time.Second, "it waits", func() bool { return r.deploySaga("hello").State == saga.Waiting })
		if wait := r.deploySaga("hello").Backoff; wait != time.Minute {
			t.Errorf("its back-off is %s: the scale began it anew", wait)
		}
		again := r.deploySaga("hello").Attempt
		r.write("hello", func(d *service.Desired) { d.Asked = 0 })
		r.within(5*time.Second, "it is tried again at once", func() bool { return r.deploySaga("hello").Attempt == again+1 })
	})
}
