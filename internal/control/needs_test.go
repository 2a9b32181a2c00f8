package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// gauge is the value of a gauge of the registry.
func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// said counts the lines of the service's history that begin so.
func (r *rig) said(name, kind, begins string) int {
	n := 0
	for _, e := range list[service.Event](r, service.KindEvent, name) {
		if e.Kind == kind && strings.HasPrefix(e.Text, begins) {
			n++
		}
	}
	return n
}

func needsWhatToDo(r *rig) bool {
	needs := r.catalog("hello").NeedsOperator
	return strings.Contains(needs, "does not answer") && strings.Contains(needs, "fairlead traffic hello hello-00002=100")
}

func TestNeedsOperatorIsRecordedSurvivesALeaderAndEndsWhenTheOperatorHasActed(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{warm: time.Hour})
		apart(r)
		stop := r.watched("hello", "g1")
		r.within(10*time.Second, "it is recorded, with what to do", func() bool { return needsWhatToDo(r) })
		time.Sleep(5 * time.Minute)
		if n := r.said("hello", "needs-operator", "needs an operator: "); n != 1 {
			t.Errorf("it is said %d times in its history", n)
		}
		a.stop()
		// Of the next leader's hosts one is silent: it cannot tell who answers.
		r.hosts.Hush("a")
		r.hosts.Hush("b")
		reg := prometheus.NewRegistry()
		b := r.start(options{warm: time.Hour, edit: func(c *control.Config) { c.Metrics = reg }})
		r.within(5*time.Second, "it leads", b.Leading)
		if !needsWhatToDo(r) {
			t.Fatal("the next leader forgot it")
		}
		r.hosts.Connect("a")
		r.hosts.Connect("b")
		r.within(5*time.Second, "the next leader names and counts it", func() bool {
			return needsWhatToDo(r) && b.NeedsOperator("hello") == r.catalog("hello").NeedsOperator && gauge(t, reg, "fairlead_control_needs_operator_services") == 1
		})
		r.traffic("hello", service.Target{Revision: "hello-00002", Percent: 100})
		r.leads(5*time.Second, "hello", "hello-00002")
		r.within(5*time.Second, "it has ended, and history says so", func() bool {
			return r.catalog("hello").NeedsOperator == "" && b.NeedsOperator("hello") == "" &&
				r.said("hello", "needs-operator", "needs no operator any more") == 1 && gauge(t, reg, "fairlead_control_needs_operator_services") == 0
		})
		stop()
	})
}

func TestNeedsOperatorEndsByItselfWhenItsCauseIsGone(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{warm: time.Hour})
		apart(r)
		r.within(10*time.Second, "it is recorded", func() bool { return needsWhatToDo(r) })
		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{} })
		for _, i := range r.hosts.Running() {
			if i.Revision == "hello-00001" {
				r.hosts.Kill(i.ID)
			}
		}
		r.within(10*time.Second, "the catalog's revision answers, and wins", func() bool {
			return r.catalog("hello").NeedsOperator == "" && r.disagreement("hello") == "" && r.said("hello", "needs-operator", "needs no operator any more") == 1
		})
	})
}
