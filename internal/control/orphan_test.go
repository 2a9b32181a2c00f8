package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
)

// forgetStore puts an empty store in the place of the region's.
func (r *rig) forgetStore() {
	r.t.Helper()
	r.disk = memory.New(memory.Options{})
	r.store = r.disk.Open()
}

func TestAServiceThatOnlyAGatewayRemembersIsServedOnAndNamed(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		a.stop()
		r.forgetStore()
		stop := r.watched("hello", "g1")
		b := r.start(options{})
		r.within(10*time.Second, "it is named", func() bool {
			return strings.Contains(strings.Join(b.Alarms(), ";"), "service hello is served by gateway g1 and is not in the store")
		})
		time.Sleep(10 * time.Minute) // what nobody asked for is otherwise stopped within minutes
		if len(r.live("hello-00001")) != 1 {
			t.Error("what a gateway routes to was stopped")
		}
		stop()
	})
}

func TestATombstoneEndsAServiceThatOnlyAGatewayRemembers(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		a := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		a.stop()
		r.forgetStore()
		b := r.start(options{})
		r.within(10*time.Second, "it is named", func() bool { return strings.Contains(strings.Join(b.Alarms(), ";"), "hello") })
		r.write("hello", func(d *service.Desired) { d.Deleted = true })
		r.within(time.Minute, "the gateways know that it is gone", func() bool {
			for _, g := range []string{"g1", "g2"} {
				if route, ok := r.gateways.Gateway(g).Table().Route("hello"); ok && !route.Deleted {
					return false
				}
			}
			return true
		})
		r.within(5*time.Minute, "nothing is left, not even its routes", func() bool {
			_, routes := get[service.Routes](r, service.KindRoutes, "hello")
			return r.remains("hello") == 0 && !routes && len(r.hosts.Running()) == 0 && len(b.Alarms()) == 0
		})
	})
}

func TestAGatewayThatRefusesWhatIsPublishedIsNamed(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		one, two := r.watched("hello", "g1"), r.watched("hello", "g2")
		r.gateways.Gateway("g2").Refuse("hello", "not understood")
		r.deploy("hello", "two")
		r.within(20*time.Second, "the attempt failed", func() bool { return r.deploySaga("hello").FailedStep == "routes" })
		r.within(20*time.Second, "it is named", func() bool { return strings.Contains(c.NeedsOperator("hello"), "gateway g2 refuses") })
		r.gateways.Gateway("g2").Refuse("hello", "")
		r.serves(3*time.Minute, "hello", "hello-00002")
		r.within(5*time.Second, "it is not named any more", func() bool { return c.NeedsOperator("hello") == "" })
		one()
		two()
	})
}

func TestADeployUnderANewStoreNeverTakesAnOldProcessForItsOwn(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		a.stop()
		r.forgetStore()
		r.start(options{})
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.serves(20*time.Second, "hello", "hello-00002")
		for _, i := range r.live("hello-00002") {
			if i.Slot == "hello-00001.0" {
				t.Errorf("an old process serves: %+v", i)
			}
		}
		stop()
	})
}
