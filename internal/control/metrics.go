package control

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the control role. They work without a registry.
type metrics struct {
	pass     prometheus.Histogram
	services prometheus.Gauge
	workers  prometheus.Gauge
	failed   prometheus.Gauge
	needs    prometheus.Gauge
	leads    prometheus.Gauge
	sagas    *prometheus.CounterVec
	repairs  *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "fairlead", Subsystem: "control", Name: name, Help: help})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "fairlead", Subsystem: "control", Name: name, Help: help}, labels)
	}
	m := &metrics{
		pass: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "fairlead", Subsystem: "control", Name: "pass_seconds",
			Help: "Time of one reconcile pass.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
		services: gauge("services", "Services looked at by the last whole pass."),
		workers:  gauge("workers", "Services with work in hand."),
		failed:   gauge("failing_services", "Services whose work failed and waits to be tried again."),
		needs:    gauge("needs_operator_services", "Services in a state that only a person can settle."),
		leads:    gauge("leading", "1 while this control leads."),
		sagas:    counter("saga_attempts_total", "Attempts by the state that they ended in.", "kind", "state"),
		repairs:  counter("repairs_total", "Differences between records and world that were repaired.", "what"),
	}
	if r != nil {
		r.MustRegister(m.pass, m.services, m.workers, m.failed, m.needs, m.leads, m.sagas, m.repairs)
	}
	return m
}

func (m *metrics) leading(yes bool) {
	m.leads.Set(0)
	if yes {
		m.leads.Set(1)
	}
}

func (m *metrics) passed(took time.Duration, services int) {
	m.pass.Observe(took.Seconds())
	m.services.Set(float64(services))
}

func (m *metrics) failing(failed, needs int) {
	m.failed.Set(float64(failed))
	m.needs.Set(float64(needs))
}
