package discovery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// says has an instance say of a dependency that it is degraded.
func (h *hosts) says(id, dependency string, degraded int) {
	h.edit(func() {
		for i := range h.all {
			if h.all[i].ID == id {
				h.all[i].Word = service.Word{Dependencies: []service.DependencyWord{{Name: dependency, Degraded: degraded, Detail: "slow"}}}
			}
		}
	})
}

func depending(all ...eligibility.Dependency) eligibility.Contract {
	c := DefaultContract()
	c.Dependencies = all
	return c
}

func TestADependencyLowersItsUsersOnlyAsFarAsItsDeclaredAuthority(t *testing.T) {
	inRegion(t, func(r *rig) {
		own := false
		r.declare(depending(
			eligibility.Dependency{Name: "cache", Authority: eligibility.Informational},
			eligibility.Dependency{Name: "database"},
			eligibility.Dependency{Name: "disk", Authority: eligibility.Unready, Shared: &own},
		))
		r.hosts.run(5)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		r.hosts.says("i1", "database", 600)
		r.hosts.says("i2", "cache", 1000)
		r.hosts.says("i3", "disk", 1000)
		r.hosts.says("i4", "moon", 1000)
		time.Sleep(2 * time.Second)
		r.expect(l, "i1 degraded dependency, i2 eligible serving, i3 ineligible dependency-down, i4 eligible serving, i5 eligible serving")
		all, _ := l.Standings("s")
		var weights []int
		var said []string
		for _, s := range all {
			weights, said = append(weights, s.Weight), append(said, s.Said...)
		}
		if d := cmp.Diff([]int{400, 1000, 0, 1000, 1000}, weights); d != "" {
			t.Error(d)
		}
		want := []string{
			"self: database degraded by 60.0% (slow); authority weight",
			"self: cache degraded by 100.0% (slow); authority informational",
			"self: disk degraded by 100.0% (slow); authority unready",
			"self: moon degraded by 100.0% (slow); not declared in the contract, so it counts for nothing",
		}
		if d := cmp.Diff(want, said); d != "" {
			t.Error(d)
		}
	})
}

func TestWhyAHostDoesNotSeeAnInstanceLiveIsToldWithItsVerdict(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		r.hosts.edit(func() {
			r.hosts.all[0].State, r.hosts.all[0].Detail = service.InstanceStarting, "its process 7 is stopped"
		})
		time.Sleep(2 * time.Second)
		r.expect(l, "i1 ineligible says-unready, i2 eligible serving")
		all, _ := l.Standings("s")
		if d := cmp.Diff([]string{"self: its host says: its process 7 is stopped"}, all[0].Said); d != "" {
			t.Error(d)
		}
		r.hosts.edit(func() { r.hosts.all[0].State = service.InstanceLive })
		time.Sleep(40 * time.Second)
		r.expect(l, "i1 eligible serving, i2 eligible serving")
		if all, _ := l.Standings("s"); len(all[0].Said) != 0 {
			t.Errorf("it is live, and %v", all[0].Said)
		}
	})
}

func TestADatabaseThatFaltersForAllLowersEachAndRemovesNobody(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.declare(depending(eligibility.Dependency{Name: "database"}))
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		for _, id := range []string{"i1", "i2", "i3"} {
			r.hosts.says(id, "database", 1000)
		}
		time.Sleep(time.Minute)
		r.expect(l, "i1 degraded dependency, i2 degraded dependency, i3 degraded dependency")
		if v := l.View("s"); len(v.Endpoints) != 3 {
			t.Errorf("the view is %+v", v)
		}
	})
}

func TestAWorkloadTakesItselfOutAndComesBackByItsWord(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		r.hosts.edit(func() {
			r.hosts.all[0].Word = service.Word{Unready: true}
			r.hosts.all[1].Word = service.Word{Draining: true}
		})
		time.Sleep(2 * time.Second)
		r.expect(l, "i1 ineligible says-unready, i2 ineligible says-draining")
		r.hosts.edit(func() { r.hosts.all[0].Word = service.Word{} })
		time.Sleep(40 * time.Second)
		r.expect(l, "i1 eligible serving, i2 ineligible says-draining")
	})
}

// pair is two hosts, of which the second lists an instance of the first too.
type pair struct{ *hosts }

func (p pair) States() []service.HostState {
	all := p.hosts.States()
	lies := all[0]
	lies.Name = "b"
	lies.Instances = []service.Instance{lies.Instances[0]}
	lies.Instances[0].Host, lies.Instances[0].State, lies.Instances[0].Address = "b", service.InstanceDraining, "127.0.0.1:9"
	return append(all, lies)
}

func TestAHostSpeaksForItsOwnInstancesOnly(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		l.stop()
		r.hostsAre = pair{r.hosts}
		l = r.begin()
		defer l.stop()
		time.Sleep(30 * time.Second)
		r.expect(l, "i1 eligible serving, i2 eligible serving")
		if n := l.current().ingest.Discarded()[evidence.NotItself]; n < 20 {
			t.Errorf("%d words of another host are counted", n)
		}
		all, _ := l.Standings("s")
		if all[0].Host != "a" || all[0].Address != "127.0.0.1:1" || all[0].Terminating {
			t.Errorf("another host moved it: %+v", all[0].Instance)
		}
		if got := l.differences(); !strings.Contains(got, "b i1 host: b a") {
			t.Errorf("that another host claims it is not shown:\n%s", got)
		}
	})
}

func TestATrialReadsDependenciesByTheirNames(t *testing.T) {
	inRegion(t, func(r *rig) {
		own := false
		r.declare(depending(eligibility.Dependency{Name: "cache"}, eligibility.Dependency{Name: "database"}))
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(30 * time.Second)
		r.hosts.says("i1", "database", 1000)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		unready := func(name string) eligibility.Contract {
			return depending(eligibility.Dependency{Name: name, Authority: eligibility.Unready, Shared: &own})
		}
		if got := l.try(t, unready("database"), time.Hour); len(got.Removals) != 1 || got.Removals[0].Instance != "i1" {
			t.Errorf("with authority over readiness %+v would have been removed", got.Removals)
		}
		for _, name := range []string{"cache", "moon"} {
			if got := l.try(t, unready(name), time.Hour); len(got.Removals) != 0 {
				t.Errorf("by %s %+v would have been removed", name, got.Removals)
			}
		}
	})
}
