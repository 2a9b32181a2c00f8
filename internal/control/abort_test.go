package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestAbortEndsAScaleAndTheNumberThatWasReachedIsKept(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		first := r.live("hello-00001")[0].ID
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{NeverListens: true} })
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(5*time.Second, "it waits for what was added", func() bool { return r.saga("hello", service.WorkScale).At() == "ready" })
		if err := r.abort("hello"); err != nil {
			t.Fatal(err)
		}
		r.within(time.Second, "the scale has ended", func() bool {
			for _, s := range list[saga.Record](r, service.KindSaga, "hello") {
				if s.Kind == service.WorkScale && s.Generation == 2 {
					return s.State == saga.Failed && strings.Contains(s.Error, "aborted")
				}
			}
			return false
		})
		r.within(10*time.Second, "what was added is stopped", func() bool {
			rev := r.revision("hello-00001")
			return len(rev.Slots) == 1 && len(rev.Leaving) == 0 && len(r.hosts.Running()) == 1 && r.catalog("hello").ObservedGeneration == 3
		})
		if live := r.live("hello-00001"); len(live) != 1 || live[0].ID != first {
			t.Errorf("what had served was stopped: %+v", live)
		}
		refused(t, r.abort("hello"), "nothing to abort")
		stop()
	})
}

func TestAbortEndsARestartAndItIsNotTriedAgain(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{NeverListens: true} })
		r.write("hello", func(d *service.Desired) { d.Round++ })
		r.within(5*time.Second, "it replaces the first", func() bool { return r.saga("hello", service.WorkRestart).At() == "replace" })
		time.Sleep(time.Second)
		if err := r.abort("hello"); err != nil {
			t.Fatal(err)
		}
		r.within(time.Second, "the restart has ended", func() bool { return r.saga("hello", service.WorkRestart).State == saga.Failed })
		time.Sleep(2 * time.Minute)
		n := 0
		for _, s := range list[saga.Record](r, service.KindSaga, "hello") {
			if s.Kind == service.WorkRestart {
				n++
			}
		}
		if n != 1 || len(r.live("hello-00001")) != 2 || r.catalog("hello").ObservedGeneration != 3 {
			t.Errorf("%d restarts, %d live, generation %d applied", n, len(r.live("hello-00001")), r.catalog("hello").ObservedGeneration)
		}
		stop()
	})
}
