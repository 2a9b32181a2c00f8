package discovery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

func TestTheCallersThatAPolicyAllowsAreInTheViewAndReportsOfOthersAreDiscardedAndCounted(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if v := l.View("s"); v == nil || v.Callers != nil {
			t.Fatalf("by the default everyone is allowed: %+v", v)
		}
		before := l.View("s").Version
		p := service.DefaultPolicy()
		p.AllowedCallers = []string{"service/web", "agent/m1/job"}
		r.decide(p)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if v := l.View("s"); !slices.Equal(v.Callers, p.AllowedCallers) || v.Version == before {
			t.Errorf("the view allows %v at %s, after %s", v.Callers, v.Version, before)
		}
		discarded := func() uint64 { return l.current().ingest.Discarded()[evidence.NotAllowed] }
		seen := []Outcome{{Instance: "i1", Failed: 3}, {Instance: "i2", OK: 3}}
		for identity, allowed := range map[string]bool{"service/web@h1": true, "agent/m1": true, "gateway/gw": true, "relay/r1": true, "caller/batch": false, "service/job@h1": false} {
			was := discarded()
			if !l.Reporter(identity).Take(1, seen) {
				t.Fatalf("nothing of %s was taken", identity)
			}
			if got := discarded() - was; allowed && got != 0 || !allowed && got != 2 {
				t.Errorf("of %s %d rows were discarded", identity, got)
			}
		}
		r.decide(service.DefaultPolicy())
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if v := l.View("s"); v.Callers != nil {
			t.Errorf("open again, it allows %v", v.Callers)
		}
	})
}

func TestAZonePolicyThatChangesReachesTheView(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		expect := func(any bool) view.Version {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			v := l.View("s")
			if v == nil || v.AnyZone != any {
				t.Fatalf("the view is %+v, want any zone: %v", v, any)
			}
			return v.Version
		}
		first := expect(false)
		p := service.DefaultPolicy()
		p.Zones = service.AnyZone
		r.decide(p)
		if second := expect(true); second == first {
			t.Error("it is told under the version that was told before")
		}
		r.decide(service.DefaultPolicy())
		expect(false)
	})
}
