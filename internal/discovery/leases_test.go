package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

const ann = "spiffe://fairlead/operator/ann"

// register enters n instances of service m by leases.
func (l *leading) register(t *testing.T, n int) (ids []string) {
	t.Helper()
	for i := range n {
		id, err := l.Register(context.Background(), Registration{Service: "m", Address: fmt.Sprintf("10.0.0.%d:80", i+1), Zone: "z", By: ann})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// renewing renews leases each ten seconds for so long.
func (l *leading) renewing(t *testing.T, ids []string, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Second) {
		for _, id := range ids {
			if err := l.Renew(ann, id, service.Word{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	synctest.Wait()
}

// of shows a service's instances in the order of their registration.
func (l *leading) of(name string) string {
	all, _ := l.Standings(name)
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprint(s.Verdict, " ", s.Rule))
	}
	return strings.Join(out, ", ")
}

func TestALeasedInstanceServesWhileItIsRenewedAndIsOutAndThenGoneWhenNot(t *testing.T) {
	inRegion(t, func(r *rig) {
		l := r.begin()
		defer l.stop()
		time.Sleep(time.Second)
		ids := l.register(t, 3)
		if rows, _ := r.rows(); len(rows) != 3 || rows[0].By != ann { // acknowledged means on disk
			t.Fatalf("the rows are %+v", rows)
		}
		l.renewing(t, ids, 2*time.Minute)
		if got := l.of("m"); got != "eligible serving, eligible serving, eligible serving" {
			t.Fatalf("they are %s", got)
		}
		if v := l.View("m"); len(v.Endpoints) != 3 || v.Endpoints[0].Address != "10.0.0.1:80" {
			t.Errorf("the view is %+v", v)
		}
		l.renewing(t, ids[:2], 40*time.Second)
		if got := l.of("m"); got != "eligible serving, eligible serving, ineligible lease-ended" {
			t.Errorf("40 s after its last renewal: %s", got)
		}
		if v := l.View("m"); v.Endpoints[1].Weight == 0 || v.Endpoints[2].Weight != 0 {
			t.Errorf("the view is %+v", v)
		}
		if err := l.Renew(ann, ids[2], service.Word{}); err != nil { // late, and not too late
			t.Fatal(err)
		}
		l.renewing(t, ids, 20*time.Second)
		if got := l.of("m"); got != "eligible serving, eligible serving, eligible serving" {
			t.Errorf("renewed again: %s", got)
		}
		l.renewing(t, ids[:2], (LeaseFor+lapsed+20)*time.Second)
		if got := l.of("m"); got != "eligible serving, eligible serving" {
			t.Errorf("long after: %s", got)
		}
		if err := l.Renew(ann, ids[2], service.Word{}); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("a renewal of one that is gone: %v", err)
		}
	})
}

func TestAfterAnInterruptionOfOursEachLeaseHasItsFullTermAnew(t *testing.T) {
	inRegion(t, func(r *rig) {
		first := r.begin()
		time.Sleep(time.Second)
		ids := first.register(t, 3)
		first.renewing(t, ids, 40*time.Second)
		time.Sleep(19 * time.Second)
		first.stop()
		time.Sleep(10 * time.Minute) // nobody could renew
		second := r.begin()
		defer second.stop()
		time.Sleep((LeaseFor - 1) * time.Second)
		synctest.Wait()
		if got := second.of("m"); strings.Contains(got, "ineligible") || got == "" {
			t.Errorf("within their term: %s", got)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := second.of("m"); got != "ineligible lease-ended, ineligible lease-ended, ineligible lease-ended" {
			t.Errorf("after it: %s", got)
		}
	})
}

func TestManyLeasesThatEndTogetherAreHealthAndEmptyNothing(t *testing.T) {
	inRegion(t, func(r *rig) {
		l := r.begin()
		defer l.stop()
		time.Sleep(time.Second)
		ids := l.register(t, 10)
		l.renewing(t, ids, time.Minute)
		l.renewing(t, ids[:1], (LeaseFor+lapsed+60)*time.Second)
		v := l.View("m")
		if len(v.Endpoints) != 10 || !v.Marks[0].DegradedConfidence {
			t.Errorf("%d of 10 are served; marks %+v", len(v.Endpoints), v.Marks)
		}
		if got := l.of("m"); strings.Count(got, "ineligible lease-ended") != 9 {
			t.Errorf("verdicts are not what they are: %s", got)
		}
	})
}

func TestADeregisteredInstanceLeavesByPlan(t *testing.T) {
	inRegion(t, func(r *rig) {
		l := r.begin()
		defer l.stop()
		time.Sleep(time.Second)
		ids := l.register(t, 2)
		l.renewing(t, ids, 20*time.Second)
		if err := l.Deregister(ann, ids[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if v := l.View("m"); len(v.Endpoints) != 1 || v.Marks[0].DegradedConfidence {
			t.Errorf("the view is %+v", v)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := l.of("m"); got != "eligible serving" {
			t.Errorf("it is still there: %s", got)
		}
		if a := l.ServiceAlarms("m"); len(a) != 0 {
			t.Errorf("alarms are %+v", a)
		}
	})
}

func TestALeaseIsRenewedByWhomRegisteredItOnly(t *testing.T) {
	inRegion(t, func(r *rig) {
		l := r.begin()
		defer l.stop()
		time.Sleep(time.Second)
		ids := l.register(t, 1)
		const eve = "spiffe://fairlead/operator/eve"
		if err := l.Renew(eve, ids[0], service.Word{Unready: true}); fault.CodeOf(err) != fault.Forbidden {
			t.Errorf("another's renewal: %v", err)
		}
		if err := l.Deregister(eve, ids[0]); fault.CodeOf(err) != fault.Forbidden {
			t.Errorf("another's deregistration: %v", err)
		}
		if n := l.current().ingest.Discarded()[evidence.NotItself]; n != 2 {
			t.Errorf("%d are counted, want 2", n)
		}
		if err := l.Renew(ann, ids[0], service.Word{Unready: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := l.of("m"); got != "unknown starting" { // its word is heard: it never was ready
			t.Errorf("it is %s", got)
		}
	})
}

func TestWhatASourceWatchesIsNotRegisteredAndTheSourceIsNamed(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		r.declareExternal("pay", ExternalEndpoint{ID: "e1", Address: "pay.example:443"})
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		for _, c := range []struct{ service, address, source string }{
			{"s", "10.0.0.1:80", "source host"}, // deployed here
			{"m", "127.0.0.1:1", "source host"}, // the address of an instance of it
			{"pay", "10.0.0.1:80", "source external"},
		} {
			_, err := l.Register(context.Background(), Registration{Service: c.service, Address: c.address, By: ann})
			if fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.source) {
				t.Errorf("%s at %s: %v", c.service, c.address, err)
			}
		}
		l.register(t, 1)
		if _, err := l.Register(context.Background(), Registration{Service: "m", Address: "10.0.0.1:80", By: ann}); fault.CodeOf(err) != fault.Exists {
			t.Errorf("the same address twice: %v", err)
		}
	})
}

func (r *rig) declareExternal(name string, endpoints ...ExternalEndpoint) {
	r.t.Helper()
	body, err := json.Marshal(External{Service: name, Endpoints: endpoints})
	if err != nil {
		r.t.Fatal(err)
	}
	r.applied++
	w := store.Write{Key: store.Key{Kind: service.KindExternal, Name: name}, Any: true, Body: body}
	if _, err := r.store.Apply(context.Background(), store.Apply{ID: fmt.Sprint("external", r.applied), Writes: []store.Write{w}}); err != nil {
		r.t.Fatal(err)
	}
}

func TestAThirdPartysEndpointsAreServedWithHealthUnknownAndLeaveByOutcomesAlone(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.declareExternal("pay", ExternalEndpoint{ID: "e1", Address: "a.example:443"}, ExternalEndpoint{ID: "e2", Address: "b.example:443"}, ExternalEndpoint{ID: "e3", Address: "https://c.example/"})
		l := r.begin()
		defer l.stop()
		time.Sleep(10 * time.Minute) // nobody calls: no traffic is no silence
		synctest.Wait()
		if got := l.of("pay"); got != "eligible serving, eligible serving, eligible serving" {
			t.Errorf("without traffic they are %s", got)
		}
		for _, e := range l.View("pay").Endpoints {
			if !e.HealthUnknown || e.Verdict != view.Eligible {
				t.Errorf("the view has %+v", e)
			}
		}
		callers := []*Reporter{l.Reporter("gateway/1"), l.Reporter("gateway/2")}
		for n := range uint64(30) {
			time.Sleep(time.Second)
			for _, c := range callers {
				c.Take(n+1, []Outcome{{Instance: "e1", OK: 10, Failed: 10}, {Instance: "e2", OK: 20}, {Instance: "e3", OK: 20}})
			}
		}
		synctest.Wait()
		if got := l.of("pay"); got != "ineligible failing-callers, eligible serving, eligible serving" {
			t.Errorf("under calls they are %s", got)
		}
		r.declareExternal("pay", ExternalEndpoint{ID: "e2", Address: "b.example:443"})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := l.of("pay"); got != "eligible serving" {
			t.Errorf("what was taken back is not gone: %s", got)
		}
		if v := l.View("pay"); len(v.Endpoints) != 1 {
			t.Errorf("the view is %+v", v)
		}
	})
}
