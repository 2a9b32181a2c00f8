package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// elsewhere leads the route to another revision.
func elsewhere(revision string) func(view.Route) view.Route {
	return func(r view.Route) view.Route {
		r.Splits = []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}}
		return r
	}
}

func repaired(t *testing.T, reg *prometheus.Registry, what string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "fairlead_control_repairs_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == what {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestAGatewayThatServesOtherRoutesUnderTheSameNumberIsRepairedByTheNextPass(t *testing.T) {
	inRegion(t, 2, func(r *rig) {
		reg := prometheus.NewRegistry()
		r.start(options{edit: func(c *control.Config) { c.Metrics = reg }})
		for _, name := range []string{"hello", "other"} {
			r.deploy(name, name)
			r.serves(10*time.Second, name, name+"-00001")
		}
		g := r.gateways.Gateway("g2")
		g.Tamper("hello", elsewhere("hello-00009"))
		if route, _ := g.Table().Route("hello"); route.Splits[0].Revision != "hello-00009" {
			t.Fatal("it was not edited")
		}
		r.within(2100*time.Millisecond, "it is repaired by the next pass", func() bool { return r.disagreement("hello") == "" })
		const says = "gateway g2 served other routes than were published"
		r.within(time.Second, "it is counted, and said in the history of each", func() bool {
			return repaired(t, reg, "gateway") == 1 && r.said("hello", "repair", says) == 1 && r.said("other", "repair", says) == 1
		})
		// On its disk only, while it does not run: its hello says so.
		g.Stop()
		g.Tamper("hello", elsewhere("hello-00009"))
		g.Start()
		r.within(2100*time.Millisecond, "it is repaired, and counted", func() bool { return r.disagreement("hello") == "" && repaired(t, reg, "gateway") == 2 })
		if r.said("hello", "repair", says) != 1 {
			t.Error("histories are filled by one gateway within a minute")
		}
		time.Sleep(time.Minute)
		if n := repaired(t, reg, "gateway"); n != 2 {
			t.Errorf("%v repairs: one that agrees was repaired", n)
		}
	})
}

func TestNothingIsCollectedOrTakenForAcknowledgedWhileAGatewayServesOtherRoutes(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		// It leads to the earlier revision again, and is slow to take anything.
		g := r.gateways.Gateway("g1")
		g.Lag(2 * time.Minute)
		g.Tamper("hello", elsewhere("hello-00001"))
		time.Sleep(90 * time.Second)
		if len(r.live("hello-00001")) != 1 {
			t.Error("what it may route to was collected")
		}
		if a := c.Alarms(); len(a) != 1 || !strings.Contains(a[0], "gateway g1 serves other routes") {
			t.Errorf("alarms: %q", a)
		}
		r.serves(time.Minute, "hello", "hello-00002")
		g.Lag(0)
		r.within(time.Minute, "then it is collected", func() bool {
			return len(r.live("hello-00001")) == 0 && len(c.Alarms()) == 0 && r.revision("hello-00001").State == service.RevisionRetired
		})
	})
}

func TestAGatewayThatNeverTakesWhatItIsSentIsSaidToBeOlderPerhaps(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		g := r.gateways.Gateway("g1")
		g.Lag(5 * time.Second) // for so long what is sent does not help
		older := func() bool { return strings.Contains(strings.Join(c.Alarms(), ";"), "is older than this control's") }
		for n := range 3 {
			g.Tamper("hello", elsewhere("hello-00009"))
			r.within(3*time.Second, "it is said", func() bool { return strings.Contains(strings.Join(c.Alarms(), ";"), "gateway g1 serves other routes") })
			if older() != (n == 2) {
				t.Errorf("found %d times, it is said: %q", n+1, c.Alarms())
			}
			r.within(20*time.Second, "it is repaired", func() bool { return r.disagreement("hello") == "" && len(c.Alarms()) == 0 })
		}
	})
}
