package discovery

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

func TestAGuardThatHoldsWaitsForAPersonWhoseDecisionOutlivesTheLeader(t *testing.T) {
	inRegion(t, func(r *rig) {
		p := service.DefaultPolicy()
		p.Guard.Mode = view.HoldForPerson
		r.decide(p)
		r.hosts.run(4)
		first := r.begin()
		time.Sleep(3 * time.Second)
		if _, err := first.Decide(context.Background(), "s", GuardDecision{Decision: view.Accepted}); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("a decision where nothing waits: %v", err)
		}
		r.hosts.set("i1", service.InstanceStarting)
		time.Sleep(3 * time.Second)
		r.hosts.set("i2", service.InstanceStarting)
		r.hosts.set("i3", service.InstanceStarting)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		in := func(l *leading) int { return l.View("s").InRotation() }
		if in(first) != 3 {
			t.Errorf("%d are served, want the 3 that were before", in(first))
		}
		alarms := first.ServiceAlarms("s")
		if len(alarms) != 1 || alarms[0].Kind != AlarmGuard || !strings.Contains(alarms[0].Text, "until a person decides: `fairlead guard accept s`") {
			t.Errorf("alarms are %+v", alarms)
		}
		first.stop()
		second := r.begin()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if in(second) != 3 {
			t.Errorf("%d are served by another leader", in(second))
		}
		got, err := second.Decide(context.Background(), "s", GuardDecision{Decision: view.Accepted, By: "ann"})
		if err != nil || len(got) != 1 || got[0].Decision != view.Accepted || got[0].By != "ann" {
			t.Fatalf("decided %+v, %v", got, err)
		}
		time.Sleep(window)
		synctest.Wait()
		if in(second) != 1 {
			t.Errorf("%d are served after health was accepted", in(second))
		}
		second.stop()
		third := r.begin()
		defer third.stop()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if in(third) != 1 || third.Guards("s")[0].By != "ann" {
			t.Errorf("%d are served by a third leader, guards %+v", in(third), third.Guards("s"))
		}
		for _, id := range []string{"i1", "i2", "i3"} {
			r.hosts.set(id, service.InstanceLive)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		docs, _, err := r.store.List(context.Background(), service.KindGuard)
		if err != nil || len(docs) != 0 || len(third.ServiceAlarms("s")) != 0 || in(third) != 4 {
			t.Errorf("after the trip: %v %v, alarms %v, %d served", docs, err, third.ServiceAlarms("s"), in(third))
		}
	})
}

func TestWhatAPersonDecidedAboutAGuardIsInTheHistory(t *testing.T) {
	inRegion(t, func(r *rig) {
		p := service.DefaultPolicy()
		p.Guard.Mode = view.HoldForPerson
		r.decide(p)
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		r.hosts.set("i1", service.InstanceStarting)
		r.hosts.set("i2", service.InstanceStarting)
		time.Sleep(3 * time.Second)
		if _, err := l.Decide(context.Background(), "s", GuardDecision{Decision: view.Declined, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		docs, _, err := r.store.List(context.Background(), service.KindPolicy)
		if err != nil || len(docs) != 1 {
			t.Fatalf("%d changes, %v", len(docs), err)
		}
		var c Policy
		if err := json.Unmarshal(docs[0].Body, &c); err != nil || c.What != "guard" || c.By != "ann" || strings.Join(c.Changes, "") != "s-00001 in z undecided → declined" {
			t.Errorf("the change is %+v, %v", c, err)
		}
	})
}

func TestADecisionAboutAGuardThatHoldsNothingIsRefused(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		if _, err := l.Decide(context.Background(), "s", GuardDecision{Decision: view.Accepted}); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "mode serve-all") {
			t.Errorf("got %v", err)
		}
	})
}
