package relay

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/evidence"
)

// Metrics tell of a relay when they are asked for.
type Metrics struct{ r *Relay }

// NewMetrics makes the metrics of a relay; they are to be registered.
func NewMetrics(r *Relay) Metrics { return Metrics{r} }

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("fairlead", "relay", name), help, labels, nil)
}

var (
	subscribersDesc = described("subscribers", "Subscribers that are connected.")
	admittedDesc    = described("admissions_total", "Subscribers that came, by class and by what was said to them.", "class", "answer")
	shareDesc       = described("admission_share", "How many are admitted in ten seconds.")
	ageDesc         = described("views_age_seconds", "How long ago control was heard; 0 while it is.")
	viewsDesc       = described("views", "Services whose views are held.")
	droppedDesc     = described("outcome_rows_dropped_total", "Merged rows of what callers saw that no control took.")
	discardedDesc   = described("outcome_rows_discarded_total", "Rows of what callers saw that cannot be attributed, by reason.", "reason")
)

// Describe implements prometheus.Collector.
func (m Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{subscribersDesc, admittedDesc, shareDesc, ageDesc, viewsDesc, droppedDesc, discardedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m Metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	r := m.r
	gauge(subscribersDesc, float64(r.server.Connected()))
	gauge(shareDesc, float64(r.server.Doors().Share))
	gauge(ageDesc, r.held.Age().Seconds())
	r.mu.Lock()
	wanted := len(r.wanted)
	r.mu.Unlock()
	gauge(viewsDesc, float64(wanted))
	in, refused := r.server.Admissions()
	for c, class := range []string{"first", "rest"} {
		count(admittedDesc, in[c], class, "admitted")
		count(admittedDesc, refused[c], class, "refused")
	}
	r.fan.mu.Lock()
	defer r.fan.mu.Unlock()
	count(droppedDesc, r.fan.dropped)
	count(discardedDesc, r.fan.forbidden, string(evidence.NotAllowed))
	for why, n := range r.fan.merger.Discarded() {
		count(discardedDesc, n, string(why))
	}
}
