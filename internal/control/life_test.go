package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

func (r *rig) revision(name string) service.Revision {
	v, _ := get[service.Revision](r, service.KindRevision, name)
	return v
}

func TestAScaleUpIsReadyAndAScaleDownStopsTheRest(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.write("hello", func(d *service.Desired) { d.Instances = 4 })
		r.within(10*time.Second, "four are live and recorded", func() bool {
			return len(r.live("hello-00001")) == 4 && r.catalog("hello").ObservedGeneration == 2
		})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.within(60*time.Second, "two are left", func() bool {
			rev := r.revision("hello-00001")
			return len(r.live("hello-00001")) == 2 && len(rev.Slots) == 2 && len(rev.Leaving) == 0 && r.catalog("hello").ObservedGeneration == 3
		})
		hosts := map[string]bool{}
		for _, i := range r.live("hello-00001") {
			hosts[i.Host] = true
		}
		if len(hosts) != 2 {
			t.Errorf("what is left is not spread: %v", hosts)
		}
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(10*time.Second, "three are live", func() bool { return len(r.live("hello-00001")) == 3 })
		for _, s := range r.revision("hello-00001").Slots {
			if s.ID == "hello-00001.2" || s.ID == "hello-00001.3" {
				t.Errorf("slot %s is used again", s.ID)
			}
		}
		stop()
	})
}

func TestARestartReplacesSlotBySlot(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.serves(10*time.Second, "hello", "hello-00001")
		before := map[string]bool{}
		for _, i := range r.live("hello-00001") {
			before[i.ID] = true
		}
		stop := r.watched("hello", "g1")
		r.write("hello", func(d *service.Desired) { d.Round++ })
		old := func() (n int) {
			for _, i := range r.live("hello-00001") {
				if before[i.ID] {
					n++
				}
			}
			return n
		}
		r.within(6*time.Second, "one slot is replaced before the others", func() bool { return old() == 2 })
		r.within(60*time.Second, "all are replaced", func() bool {
			return old() == 0 && len(r.live("hello-00001")) == 3 && r.catalog("hello").ObservedGeneration == 2 && r.revision("hello-00001").Round == 1
		})
		stop()
		if n := len(list[service.Revision](r, service.KindRevision, "hello")); n != 1 {
			t.Errorf("there are %d revisions", n)
		}
	})
}

func TestChangedHostNamesArePublishedAndRecorded(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.put(store.Key{Kind: service.KindHostName, Name: "shop.example.com"}, 0, service.HostClaim{Service: "hello"})
		r.write("hello", func(d *service.Desired) { d.HostNames = []string{"shop.example.com"} })
		r.within(5*time.Second, "the name leads there", func() bool {
			route, _ := r.gateways.Gateway("g1").Table().Route("hello")
			return slices.Contains(route.Hosts, "shop.example.com") && slices.Contains(r.catalog("hello").Hosts, "shop.example.com")
		})
		r.write("hello", func(d *service.Desired) { d.HostNames = nil })
		r.within(10*time.Second, "the name is set free", func() bool {
			_, claimed := get[service.HostClaim](r, service.KindHostName, "shop.example.com")
			return !claimed
		})
	})
}

// delete writes a tombstone.
func (r *rig) delete(name string) {
	r.t.Helper()
	r.write(name, func(d *service.Desired) { d.Deleted = true })
}

// remains are the documents left of a service, its routes aside.
func (r *rig) remains(name string) (n int) {
	docs, _, _ := r.store.List(r.t.Context(), "")
	for _, d := range docs {
		if d.Kind == service.KindRoutes || d.Kind == service.KindLeader || d.Kind == service.KindGateway || d.Kind == service.KindHost {
			continue
		}
		if d.Name == name || len(d.Name) > len(name) && d.Name[:len(name)] == name && (d.Name[len(name)] == '.' || d.Name[len(name)] == '-') {
			n++
		}
	}
	return n
}

func TestADeletedServiceIsGoneAndMadeAgainWithEveryStepRun(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		first := r.deploySaga("hello").ID
		r.delete("hello")
		r.within(60*time.Second, "nothing is left", func() bool { return r.remains("hello") == 0 && len(r.live("hello-00001")) == 0 })
		if route, ok := r.gateways.Gateway("g1").Table().Route("hello"); ok && !route.Deleted {
			t.Errorf("the gateway still routes it: %+v", route)
		}
		began := time.Now()
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("the second life took %s: steps were skipped", took)
		}
		if s := r.deploySaga("hello"); s.ID == first || s.State != saga.Done {
			t.Errorf("the second life's saga is %+v", s)
		}
	})
}

func TestADeletionAskedForRightAfterARestartWaitsForTheHostsToReport(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		c.stop()
		hosts := r.hosts.States()
		for _, h := range hosts {
			r.hosts.Disconnect(h.Name)
		}
		r.start(options{})
		r.delete("hello")
		time.Sleep(2 * time.Second)
		for _, h := range hosts {
			r.hosts.Connect(h.Name)
		}
		r.within(10*time.Second, "nothing is left", func() bool { return r.remains("hello") == 0 && len(r.live("hello-00001")) == 0 })
	})
}

func TestADeletionWaitsForAGatewayThatKeepsTheRoutesOnItsDisk(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.gateways.Gateway("g2").FailKeeping(fmt.Errorf("no space left"))
		r.delete("hello")
		time.Sleep(2 * time.Minute)
		if len(r.live("hello-00001")) != 1 || r.remains("hello") == 0 {
			t.Error("it was torn down, and g2 would route to it after a restart")
		}
		waiting := false
		for _, s := range list[saga.Record](r, service.KindSaga, "hello") {
			waiting = waiting || s.Kind == service.WorkDelete && strings.Contains(s.Error, "gateway g2 may still route to it")
		}
		if !waiting {
			t.Error("the deletion does not name the gateway")
		}
		r.gateways.Gateway("g2").FailKeeping(nil)
		r.deploy("other", "one") // the next table is kept
		r.within(10*time.Minute, "nothing is left, not even its routes", func() bool {
			_, ok := get[service.Routes](r, service.KindRoutes, "hello")
			return !ok && r.remains("hello") == 0
		})
	})
}

func TestADocumentWrittenDuringATeardownOfALongHistorySurvivesIt(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		erased := 0
		p := &pointStore{}
		p.hook = func(_ int, a store.Apply) {
			if len(a.Writes) > 50 && a.OnlyDeletes() {
				if erased++; erased == 2 { // the history is being erased
					r.deploy("hello", "two")
				}
			}
		}
		r.killable(p)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		for i := range 500 {
			r.put(store.Key{Kind: service.KindEvent, Name: fmt.Sprintf("hello.0%025d", i)}, 0, service.Event{Service: "hello", Text: "padding"})
		}
		r.delete("hello")
		r.within(60*time.Second, "the newer document is applied", func() bool {
			s := r.deploySaga("hello")
			return s.State == saga.Done && s.Generation == 3 && r.disagreement("hello") == ""
		})
		d, ok := get[service.Desired](r, service.KindDesired, "hello")
		if !ok || d.Deleted || d.Generation != 3 {
			t.Errorf("the desired document is %+v", d)
		}
		if n := len(r.live("hello-00001")); n != 1 {
			t.Errorf("%d instances of the new life", n)
		}
	})
}

func TestThirtyDeploysLeaveABoundedNumberOfRecords(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "r0")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		for i := 1; i < 30; i++ {
			r.deploy("hello", fmt.Sprintf("r%d", i))
			r.serves(10*time.Second, "hello", service.RevisionName("hello", int32(i+1)))
			time.Sleep(12 * time.Second)
		}
		time.Sleep(time.Minute)
		stop()
		revs, sagas := list[service.Revision](r, service.KindRevision, "hello"), list[saga.Record](r, service.KindSaga, "hello")
		events := list[service.Event](r, service.KindEvent, "hello")
		if len(revs) > 26 || len(sagas) > 26 || len(events) > 550 {
			t.Errorf("%d revisions, %d sagas, %d events", len(revs), len(sagas), len(events))
		}
		n := 0
		for _, h := range r.hosts.States() {
			n += len(h.Instances)
		}
		if n != 1 {
			t.Errorf("%d instances are left", n)
		}
		routes, _ := get[service.Routes](r, service.KindRoutes, "hello")
		if len(routes.Earlier) > 2 {
			t.Errorf("%d earlier plans are kept", len(routes.Earlier))
		}
	})
}
