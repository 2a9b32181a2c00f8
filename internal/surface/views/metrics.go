package views

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/budget"
)

// collector reads the server when it is asked.
type collector struct {
	s                                        *Server
	latency, callers, behind, streams, waits *prometheus.Desc
}

// Collector has what is measured of propagation, for /metrics.
func (s *Server) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_views_"+name, help, labels, nil)
	}
	return &collector{
		s:       s,
		latency: desc("propagation_seconds", "From the publication of a view to its acknowledgement by each caller that held the one before, by kind of change.", "kind"),
		callers: desc("callers", "Callers that route by a service's view and are connected, here or at a relay.", "service"),
		behind:  desc("callers_behind", "Those of them that have not acknowledged the newest version.", "service"),
		streams: desc("streams", "Subscribers that are connected here."),
		waits:   desc("shed_window_seconds", "How long what takes no traffic from trouble waits, where that is longer than it should; 0 is not."),
	}
}

// Describe is part of prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.latency, c.callers, c.behind, c.streams, c.waits} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	all := c.s.past
	for name, t := range c.s.topics {
		for k := range all {
			all[k].Merge(&t.ledger.Latency[k])
		}
		if t.newest == nil {
			continue
		}
		held := t.tallyLocked()
		gauge(c.callers, float64(held.subscribers), name)
		gauge(c.behind, float64(held.subscribers-held.reached(budget.NumberOf(t.newest.Version))), name)
	}
	for _, k := range budget.Kinds() {
		ch <- constHistogram(c.latency, &all[k], k.String())
	}
	gauge(c.streams, float64(c.s.open))
	gauge(c.waits, c.s.shed.Seconds())
}

func constHistogram(d *prometheus.Desc, h *budget.Histogram, labels ...string) prometheus.Metric {
	buckets, count := map[float64]uint64{}, uint64(0)
	for i, b := range budget.Bounds {
		count += h.Counts[i]
		buckets[b.Seconds()] = count
	}
	return prometheus.MustNewConstHistogram(d, h.Count(), h.Sum.Seconds(), buckets, labels...)
}
