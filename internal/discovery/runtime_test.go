package discovery

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// differences as one line each, e.g. "a i1 held".
func (l *leading) differences() string {
	synctest.Wait()
	sources, differences, observing := l.Runtime()
	var out []string
	for _, s := range sources {
		out = append(out, fmt.Sprintf("%s %s: %d listed, %d registered, answers %t", s.Source, s.Name, s.Listed, s.Registered, s.Answers()))
	}
	for _, d := range differences {
		out = append(out, fmt.Sprintf("%s %s %s: %s %s", d.Name, d.Instance, d.What, d.Authority, d.Registry))
	}
	if !observing {
		out = append(out, "not observing")
	}
	return strings.Join(out, "\n")
}

func TestAuthorityAndRegistryAreComparedRowByRow(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		l := r.begin()
		defer l.stop()
		expect := func(want string) {
			t.Helper()
			if d := cmp.Diff(want, l.differences()); d != "" {
				t.Error(d)
			}
		}
		time.Sleep(3500 * time.Millisecond)
		expect("host a: 4 listed, 4 registered, answers true")
		r.hosts.edit(func() { // before the plane has looked again
			r.hosts.all[0].Address = "127.0.0.1:2"
			r.hosts.all[1].ID = "i9"
			r.hosts.all[2].State = service.InstanceExited
		})
		expect(`host a: 3 listed, 4 registered, answers true
a i1 address: 127.0.0.1:2 127.0.0.1:1
a i2 missing: - registered
a i3 listening: false true
a i3 gone: true false
a i9 unregistered: live -`)
		time.Sleep(3 * time.Second)
		expect("host a: 3 listed, 3 registered, answers true")
		r.hosts.edit(func() { r.hosts.all = r.hosts.all[:1] }) // far less than before, and nothing explains it
		time.Sleep(time.Second)
		expect("host a: 1 listed, 3 registered, answers true\na i4 held: - registered\na i9 held: - registered")
		l.peek(func(x *term) {
			if x.heldDrops != 2 {
				t.Errorf("%d held drops are counted, want 2", x.heldDrops)
			}
		})
		r.hosts.edit(func() { r.hosts.silent = lagging })
		if got := l.differences(); !strings.HasPrefix(got, "host a: 1 listed, 3 registered, answers false") {
			t.Errorf("a silent host is shown as\n%s", got)
		}
	})
}

func TestAHostThatWasNotHeardSinceThisControlLeadsIsShownAsOneThatDoesNotAnswer(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		first := r.begin()
		time.Sleep(3 * time.Second)
		first.stop()
		r.hosts.edit(func() { r.hosts.away = true })
		second := r.begin()
		defer second.stop()
		if got := second.differences(); got != "host a: 0 listed, 2 registered, answers false" {
			t.Errorf("it is shown as\n%s", got)
		}
	})
}

func TestFlapsShowWhoWasQuarantinedAndTheChangesThatEarnedIt(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		for range 3 {
			r.hosts.set("i2", service.InstanceStarting)
			time.Sleep(3 * time.Second)
			r.hosts.set("i2", service.InstanceLive)
			time.Sleep(40 * time.Second)
		}
		synctest.Wait()
		all := Quarantines(r.history())
		if len(all) != 1 || all[0].Instance != "i2" || all[0].Seconds != 60 {
			t.Fatalf("quarantines are %+v", all)
		}
		var rules []string
		for _, x := range all[0].EarnedBy {
			rules = append(rules, x.From.String()+" → "+x.To.String())
		}
		if d := cmp.Diff("eligible → ineligible, ineligible → eligible, eligible → ineligible, ineligible → eligible, eligible → ineligible", strings.Join(rules, ", ")); d != "" {
			t.Error(d)
		}
		l.peek(func(x *term) {
			if changes, quarantined := x.eval.Flapping("s"); quarantined != 1 || changes != 0 {
				t.Errorf("%d changes, %d quarantined", changes, quarantined)
			}
		})
		for range 5 {
			time.Sleep(100 * time.Second)
			r.hosts.set("i2", service.InstanceStarting)
			time.Sleep(3 * time.Second)
			r.hosts.set("i2", service.InstanceLive)
		}
		synctest.Wait()
		all = Quarantines(r.history())
		if len(all) != 2 || all[0].Seconds != 120 || len(all[0].EarnedBy) != 5 || !all[0].At.After(all[1].At) { // the count starts anew
			t.Errorf("after another: %+v", all)
		}
	})
}

func TestLagDifferencesAndFlapsAreMetrics(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r.hosts.edit(func() { r.hosts.all = r.hosts.all[:1]; r.hosts.silent = 2 * time.Second })
		reg := prometheus.NewRegistry()
		reg.MustRegister(newRuntimeCollector(l.Plane))
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{} // :: metric → value
		for _, f := range families {
			for _, m := range f.GetMetric() {
				got[strings.TrimPrefix(f.GetName(), "fairlead_discovery_")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		want := map[string]float64{"source_lag_seconds": 2, "runtime_differences": 3, "held_drops_total": 0, "changes": 0, "quarantined_instances": 0, "unsealed_transitions": 4, "unsealed_ticks": 3, "bucket_away_seconds": 0}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestLeasesAreComparedWithTheirRenewalsAndDeclarationsWithTheirRows(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.edit(func() { r.hosts.away = true })
		r.declareExternal("pay", ExternalEndpoint{ID: "e1", Address: "a.example:443"}, ExternalEndpoint{ID: "e2", Address: "b.example:443"})
		l := r.begin()
		defer l.stop()
		time.Sleep(2500 * time.Millisecond) // no tick is at one instant with what follows
		one, err := l.Register(t.Context(), Registration{Service: "lamp", Address: "10.0.0.1:80", By: "caller/x"})
		if err != nil {
			t.Fatal(err)
		}
		two, err := l.Register(t.Context(), Registration{Service: "lamp", Address: "10.0.0.2:80", By: "caller/x"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		expect := func(want string) {
			t.Helper()
			if d := cmp.Diff(want, l.differences()); d != "" {
				t.Error(d)
			}
		}
		expect("lease caller/x: 2 listed, 2 registered, answers true\nexternal pay: 2 listed, 2 registered, answers true")
		for range 4 {
			time.Sleep(10 * time.Second)
			if err := l.Renew("caller/x", one, service.Word{}); err != nil {
				t.Fatal(err)
			}
		}
		expect("lease caller/x: 1 listed, 2 registered, answers true\nexternal pay: 2 listed, 2 registered, answers true\ncaller/x " + two + " lapsed: renewed 41s ago registered")
		time.Sleep(31 * time.Second)
		if got := l.differences(); !strings.HasPrefix(got, "lease caller/x: 0 listed, 2 registered, answers false\n") {
			t.Errorf("nobody renews any more:\n%s", got)
		}
		l.peek(func(x *term) {
			e1, _ := x.reg.Get("e1")
			e1.Address = "elsewhere:443"
			x.reg.Put(e1)
			x.reg.Remove("e2")
		})
		if got := l.differences(); !strings.Contains(got, "external pay: 2 listed, 1 registered, answers true") || !strings.Contains(got, "pay e1 address: a.example:443 elsewhere:443\npay e2 unregistered: b.example:443 -") {
			t.Errorf("rows that are not as they are declared:\n%s", got)
		}
	})
}
