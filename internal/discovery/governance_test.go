package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// decide writes the service's policy.
func (r *rig) decide(p service.Policy) {
	r.t.Helper()
	body, err := json.Marshal(p)
	if err != nil {
		r.t.Fatal(err)
	}
	r.applied++
	w := store.Write{Key: store.Key{Kind: service.KindGovernance, Name: "s"}, Any: true, Body: body}
	if _, err := r.store.Apply(context.Background(), store.Apply{ID: fmt.Sprint("policy ", r.applied), Writes: []store.Write{w}}); err != nil {
		r.t.Fatal(err)
	}
}

func TestAPolicyIsInForceASecondAfterItWasDeclared(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		for _, id := range []string{"i2", "i3", "i4"} {
			r.hosts.set(id, service.InstanceStarting)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if v := l.View("s"); v.InRotation() != 4 || !v.Disregarded("s-00001", "z") {
			t.Fatalf("by the default the guard returns all: %+v", v)
		}
		p := service.DefaultPolicy()
		p.Guard.Fraction = 0.1
		r.decide(p)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if v := l.View("s"); v.InRotation() != 1 || v.Disregarded("s-00001", "z") {
			t.Errorf("a quarter is more than the fraction that is declared now: %+v", v)
		}
		p.Guard = service.Guard{Fraction: 0.5, Mode: view.Honour}
		r.decide(p)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if v := l.View("s"); v.InRotation() != 1 {
			t.Errorf("health is honoured: %+v", v)
		}
		if got, known := l.Policy("s"); !known || got.Guard != p.Guard {
			t.Errorf("the policy in force is %+v, %v", got, known)
		}
	})
}

func TestTheRampIsThePolicysWhereItHasOne(t *testing.T) {
	inRegion(t, func(r *rig) {
		p := service.DefaultPolicy()
		p.Ramp = &service.Ramp{Seconds: 100, Steps: []float64{0.2, 1}}
		r.decide(p)
		r.hosts.run(2)
		r.hosts.set("i2", service.InstanceStarting)
		l := r.begin()
		defer l.stop()
		time.Sleep(110 * time.Second) // i1 is past its ramp
		r.hosts.set("i2", service.InstanceLive)
		time.Sleep(60 * time.Second) // by the contract it would have had three steps
		synctest.Wait()
		weight := func(id string) int {
			e, _ := l.View("s").Endpoint(id)
			return e.Weight
		}
		if weight("i1") != 1000 || weight("i2") != 200 {
			t.Errorf("weights %d and %d after 60 of 100 s", weight("i1"), weight("i2"))
		}
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if weight("i2") != 1000 {
			t.Errorf("weight %d after the ramp", weight("i2"))
		}
		p.Ramp.Steps = []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1}
		r.decide(p)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if weight("i1") != 1000 || weight("i2") != 1000 {
			t.Errorf("more steps took weight from who was past the ramp: %d, %d", weight("i1"), weight("i2"))
		}
	})
}

func TestAPolicyThatCannotBeReadLeavesTheOneInForce(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		p := service.DefaultPolicy()
		p.AllowedCallers = []string{"service/web"}
		r.decide(p)
		time.Sleep(3 * time.Second)
		r.applied++
		w := store.Write{Key: store.Key{Kind: service.KindGovernance, Name: "s"}, Any: true, Body: []byte(`{"zonePolicy": "near"}`)}
		if _, err := r.store.Apply(context.Background(), store.Apply{ID: fmt.Sprint("policy ", r.applied), Writes: []store.Write{w}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got, _ := l.Policy("s"); len(got.AllowedCallers) != 1 {
			t.Errorf("a damaged policy opened the service: %+v", got)
		}
	})
}

func TestAnInstanceOfASetThatIsAllNewIsToldToHaveItsWholeWeightAndWhy(t *testing.T) {
	const ramp = "it has 40% of its weight, step 1 of 2"
	for name, c := range map[string]struct {
		later bool // the second comes when the first is past its ramp
		want  string
	}{
		"two that are new together": {false, "1000: time: whole weight meanwhile, since all 2 are new together (by the ramp alone " + ramp + ")"},
		"one that comes to another": {true, "400: time: " + ramp},
	} {
		t.Run(name, func(t *testing.T) {
			inRegion(t, func(r *rig) {
				p := service.DefaultPolicy()
				p.Ramp = &service.Ramp{Seconds: 100, Steps: []float64{0.4, 1}}
				r.decide(p)
				r.hosts.run(2)
				if c.later {
					r.hosts.set("i2", service.InstanceStarting)
				}
				l := r.begin()
				defer l.stop()
				if c.later {
					time.Sleep(110 * time.Second)
					r.hosts.set("i2", service.InstanceLive)
				}
				time.Sleep(20 * time.Second)
				synctest.Wait()
				all, _ := l.Standings("s")
				if got := fmt.Sprintf("%d: %s", all[1].Served, all[1].Account.Next); got != c.want {
					t.Errorf("it is told:\n%s", got)
				}
			})
		})
	}
}
