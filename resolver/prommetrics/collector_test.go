package prommetrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/resolver/prommetrics"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
)

func TestAResolversStateIsInItsMetrics(t *testing.T) {
	plane := resolvertest.New(t)
	plane.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:1"), resolvertest.Endpoint("i2", "127.0.0.1:2"))
	r := plane.Open(t, "payments", "nobody-knows-it")
	if err := r.Await(t.Context(), "payments"); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(prommetrics.New(r)); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"fairlead_resolver_connected": 1, "fairlead_resolver_endpoints payments": 2, "fairlead_resolver_endpoints nobody-knows-it": 0,
		"fairlead_resolver_view_epoch payments": 1, "fairlead_resolver_panics_total": 0,
	} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, there, want)
		}
	}
}
