package discovery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/view"
)

// collector reads the term in force when it is asked.
type collector struct {
	p                                                                                  *Plane
	instances, discarded, suspects, sealed, dropped, late, lost, sheds, waits, crowded *prometheus.Desc
}

func newCollector(p *Plane) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_discovery_"+name, help, labels, nil)
	}
	return &collector{
		p:         p,
		instances: desc("instances", "Instances by the verdict on them.", "service", "verdict"),
		discarded: desc("discarded_evidence_total", "Evidence that was not counted, by reason, since this control leads.", "reason"),
		crowded:   desc("crowded_callers_total", "How often callers of a zone or a revision were not told apart because there were too many names, since this control leads."),
		suspects:  desc("suspect_probers", "Probers that see most of their targets fail."),
		sealed:    desc("sealed_ticks_total", "Seconds of evidence that were sealed since this control leads."),
		dropped:   desc("dropped_ticks_total", "Sealed seconds that were given up because the bucket was out of reach."),
		late:      desc("late_transitions_total", "Transitions that were in force before they were recorded."),
		sheds:     desc("shed_episodes_total", "How often additions and planned removals began to wait longer than they should, since this control leads."),
		waits:     desc("rest_oldest_seconds", "How long the oldest change that takes no traffic from trouble waits to be published."),
		lost:      desc("lost_transitions_total", "Transitions that were never recorded because the store did not answer."),
	}
}

// Describe is part of prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.instances, c.discarded, c.suspects, c.sealed, c.dropped, c.late, c.lost, c.sheds, c.waits, c.crowded} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	t := c.p.current()
	if t == nil {
		return
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	t.mu.Lock()
	for name := range t.known {
		counts := t.eval.Counts(name)
		for _, v := range []view.Verdict{view.Eligible, view.Degraded, view.Ineligible, view.Unknown} {
			ch <- prometheus.MustNewConstMetric(c.instances, prometheus.GaugeValue, float64(counts[v]), name, string(v))
		}
	}
	sealed, sheds, oldest := t.sealed, t.tempo.Episodes(), t.rest.Oldest(time.Since(t.began))
	t.mu.Unlock()
	for reason, n := range t.ingest.Discarded() {
		counter(c.discarded, n, string(reason))
	}
	late, lost := t.records.counts()
	counter(c.sealed, sealed)
	counter(c.dropped, t.keeper.Dropped())
	counter(c.late, late)
	counter(c.lost, lost)
	counter(c.sheds, sheds)
	counter(c.crowded, t.ingest.Crowded())
	ch <- prometheus.MustNewConstMetric(c.waits, prometheus.GaugeValue, oldest.Seconds())
	ch <- prometheus.MustNewConstMetric(c.suspects, prometheus.GaugeValue, float64(len(t.ingest.Suspects())))
}
