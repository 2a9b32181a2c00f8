package control_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// ofLife are the running processes of one life of a revision's name.
func (r *rig) ofLife(minted string) []service.Instance {
	return slices.DeleteFunc(r.hosts.Running(), func(i service.Instance) bool { return i.Minted != minted })
}

// answersNobody fails the test when, until the returned function is called,
// the gateway may lease to a process of the life.
func (r *rig) answersNobody(service, gateway, minted string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			route, _ := r.gateways.Gateway(gateway).Table().Route(service)
			for _, i := range r.ofLife(minted) {
				if slices.ContainsFunc(route.Splits, func(s view.Split) bool { return !s.Hold && s.Allows(i.Revision, i.Minted) }) {
					r.t.Errorf("%s of the earlier life is leased to at %s", i.Slot, time.Now().Format(time.StampMilli))
					return
				}
			}
			select {
			case <-done:
				return
			case <-r.over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

// madeAgain deploys a service, deletes it while the hosts are away, and asks
// for it again of a controller that has not heard of them. It returns what
// identifies the earlier life.
func (r *rig) madeAgain(away ...string) (old string) {
	r.t.Helper()
	first := r.start(options{})
	r.write("hello", func(d *service.Desired) { d.Template.Command, d.Instances = []string{"one"}, 2 })
	r.serves(10*time.Second, "hello", "hello-00001")
	old = r.revision("hello-00001").Minted
	for _, h := range away {
		r.hosts.Disconnect(h)
	}
	time.Sleep(time.Second)
	r.delete("hello")
	r.within(5*time.Minute, "nothing is left", func() bool { return r.remains("hello") == 0 })
	first.stop()
	for _, h := range away {
		r.hosts.Forget(h)
	}
	r.start(options{})
	r.write("hello", func(d *service.Desired) { d.Template.Command, d.Instances = []string{"two"}, 2 })
	r.within(20*time.Second, "the name is given again", func() bool {
		rev, found := get[service.Revision](r, service.KindRevision, "hello-00001")
		return found && rev.Minted != old
	})
	if len(r.ofLife(old)) == 0 {
		r.t.Fatal("nothing of the earlier life runs any more")
	}
	return old
}

func (r *rig) newLifeAlone(old string) {
	r.t.Helper()
	r.serves(20*time.Second, "hello", "hello-00001") // by the first attempt
	r.within(3*time.Minute, "what the earlier life left is stopped", func() bool { return len(r.ofLife(old)) == 0 })
	minted := r.revision("hello-00001").Minted
	r.within(time.Minute, "the new life runs", func() bool { return len(r.ofLife(minted)) == 2 })
	if route, _ := r.gateways.Gateway("g1").Table().Route("hello"); len(route.Splits) != 1 || !route.Splits[0].Allows("hello-00001", minted) {
		r.t.Errorf("the gateway does not lease to the new life: %+v", route)
	}
}

func TestProcessesOfAnEarlierLifeOnAHostThatReturnsAnswerNobodyAndAreStopped(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		old := r.madeAgain("b")
		stop := r.answersNobody("hello", "g1", old)
		r.serves(time.Minute, "hello", "hello-00001")
		r.hosts.Connect("b")
		r.newLifeAlone(old)
		stop()
	})
}

// Every host was away when the name was given again: the new life's slots are
// placed where processes of the same slots' names run.
func TestADeployNeverTakesTheProcessesOfAnEarlierLifeForItsOwn(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		old := r.madeAgain("a", "b")
		stop := r.answersNobody("hello", "g1", old)
		r.hosts.Connect("a")
		r.hosts.Connect("b")
		r.newLifeAlone(old)
		stop()
	})
}

// A process of the earlier life drains for long in a slot that the present life
// has been assigned: it is nobody's, and its stop is no stop of the slot.
func TestTheStopOfAStrayNeverEndsThePresentLifeOfItsSlot(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			if runs(a, "one") {
				return hosttest.Behaviour{DrainFor: 10 * time.Minute}
			}
			return hosttest.Behaviour{}
		})
		first := r.start(options{})
		r.write("hello", func(d *service.Desired) {
			d.Template.Command, d.Template.Drain, d.Instances = []string{"one"}, 10*time.Minute, 2
		})
		r.serves(10*time.Second, "hello", "hello-00001")
		old := r.revision("hello-00001").Minted
		r.hosts.Disconnect("a")
		r.hosts.Disconnect("b")
		time.Sleep(time.Second)
		r.delete("hello")
		r.within(5*time.Minute, "nothing is left", func() bool { return r.remains("hello") == 0 })
		first.stop()
		r.hosts.Forget("a")
		r.hosts.Forget("b")
		c := r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Template.Command, d.Instances = []string{"two"}, 2 })
		r.within(20*time.Second, "the name is given again", func() bool { return r.revision("hello-00001").Minted != "" })
		r.hosts.Connect("a")
		r.hosts.Connect("b")
		r.serves(20*time.Second, "hello", "hello-00001")
		present := r.revision("hello-00001").Minted
		before := r.ofLife(present)
		if present == old || len(before) != 2 || len(r.ofLife(old)) == 0 {
			t.Fatalf("of the present life run %d, of the earlier %d", len(before), len(r.ofLife(old)))
		}
		time.Sleep(5 * time.Minute)
		stops := 0
		for _, c := range r.hosts.Commands() {
			if c.Kind == "stop" {
				stops++
			}
		}
		after := r.ofLife(present)
		if stops == 0 || len(after) != 2 || after[0].ID != before[0].ID || after[1].ID != before[1].ID {
			t.Errorf("after %d stops there run %+v, and before %+v", stops, after, before)
		}
		c.stop()
	})
}

func TestAnExclusiveRevisionWaitsForTheProcessesOfAnEarlierLifeOfItsOwnName(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.hosts.Behave(func(host string, a service.Assignment) hosttest.Behaviour {
			if host == "b" && a.Slot == "" { // it prepares slowly
				return hosttest.Behaviour{CommandDelay: 5 * time.Second}
			}
			return hosttest.Behaviour{}
		})
		first := r.start(options{})
		r.write("hello", func(d *service.Desired) {
			d.Template.Command, d.Template.Handover = []string{"one"}, service.HandoverExclusive
		})
		r.serves(10*time.Second, "hello", "hello-00001")
		old := r.revision("hello-00001").Minted
		r.hosts.Disconnect("a")
		time.Sleep(time.Second)
		r.delete("hello")
		r.within(5*time.Minute, "nothing is left", func() bool { return r.remains("hello") == 0 })
		first.stop()
		r.hosts.Forget("a")
		r.start(options{})
		r.write("hello", func(d *service.Desired) {
			d.Template.Command, d.Template.Handover = []string{"two"}, service.HandoverExclusive
		})
		r.within(4*time.Second, "it is being prepared", func() bool { return r.deploySaga("hello").At() == "install" })
		r.hosts.Connect("a")
		if len(r.ofLife(old)) != 1 {
			t.Fatal("nothing of the earlier life runs any more")
		}
		present := r.revision("hello-00001").Minted
		r.within(10*time.Minute, "the present life runs, and never beside the earlier", func() bool {
			if len(r.ofLife(old)) > 0 && len(r.ofLife(present)) > 0 {
				t.Error("both lives run")
				return true
			}
			return len(r.ofLife(present)) == 1
		})
		r.serves(time.Minute, "hello", "hello-00001")
	})
}
