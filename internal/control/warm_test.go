package control_test

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// warmOnBoth has hello-00002 serve on both hosts and hello-00001 kept warm there.
func warmOnBoth(r *rig, window time.Duration) *running {
	c := r.start(options{warm: window})
	r.write("hello", func(d *service.Desired) { d.Template.Command, d.Instances = []string{"one"}, 2 })
	r.serves(10*time.Second, "hello", "hello-00001")
	r.deploy("hello", "two")
	r.serves(10*time.Second, "hello", "hello-00002")
	time.Sleep(30 * time.Second)
	return c
}

func (r *rig) liveOn(host, revision string) int {
	n := 0
	for _, i := range r.live(revision) {
		if i.Host == host {
			n++
		}
	}
	return n
}

func TestAWarmRevisionThatLosesAHostIsMadeWholeSoThatARollbackIsStillOneWrite(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		warmOnBoth(r, 10*time.Minute)
		r.hosts.Lose("b")
		r.within(time.Minute, "both are whole on the other host", func() bool {
			return r.liveOn("a", "hello-00001") == 2 && r.liveOn("a", "hello-00002") == 2
		})
		time.Sleep(10 * time.Second)
		stop := r.watched("hello", "g1")
		began := time.Now()
		if choice, err := r.rollback("hello", ""); err != nil || choice.Revision != "hello-00001" || !choice.Warm {
			t.Fatalf("%+v, %v", choice, err)
		}
		r.leads(time.Second, "hello", "hello-00001")
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		stop()
		r.hosts.Connect("b")
		r.within(time.Minute, "what the lost host starts again of it is stopped", func() bool {
			return r.liveOn("b", "hello-00001")+r.liveOn("b", "hello-00002") == 0 && len(r.revision("hello-00001").Leaving) == 0
		})
	})
}

func TestASlotOfTheWarmRevisionThatItsHostLostIsAssignedAgain(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := warmOnBoth(r, 10*time.Minute)
		r.loseSlot(c.Epoch(), "a", "hello-00001.0")
		r.within(10*time.Second, "it runs again", func() bool { return len(r.live("hello-00001")) == 2 })
	})
}

func TestWhatIsWarmNoMoreIsNotRepaired(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		warmOnBoth(r, 2*time.Minute)
		time.Sleep(70 * time.Second)
		r.hosts.Lose("b") // it is gone after 30 s, when the window has passed
		time.Sleep(5 * time.Minute)
		if n := r.liveOn("a", "hello-00001"); n != 0 || r.revision("hello-00001").State != service.RevisionRetired {
			t.Errorf("%d of it are live", n)
		}
		if r.liveOn("a", "hello-00002") != 2 {
			t.Error("what serves was not repaired")
		}
	})
}
