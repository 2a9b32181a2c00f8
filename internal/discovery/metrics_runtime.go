package discovery

import "github.com/prometheus/client_golang/prometheus"

// runtimeCollector tells of the authorities beside the registry, and of who
// comes and goes.
type runtimeCollector struct {
	p                                                                            *Plane
	lag, differences, held, changes, quarantined, unsealed, alarms, away, unkept *prometheus.Desc
}

func newRuntimeCollector(p *Plane) *runtimeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_discovery_"+name, help, labels, nil)
	}
	return &runtimeCollector{
		p:           p,
		lag:         desc("source_lag_seconds", "How old the last word of an authority on instances is; none where it was not heard since this control leads.", "source", "name"),
		differences: desc("runtime_differences", "Rows in which an authority and the registry do not say the same.", "source", "name"),
		held:        desc("held_drops_total", "Instances that an authority dropped and that were held, since this control leads."),
		changes:     desc("changes", "Changes between in and out of rotation by evidence, in the last ten minutes.", "service"),
		unsealed:    desc("unsealed_transitions", "Recorded transitions that are in the store, and not sealed into the bucket."),
		away:        desc("bucket_away_seconds", "For how long the bucket has taken neither evidence nor history; 0 while it takes them."),
		unkept:      desc("unsealed_ticks", "Sealed seconds of evidence that are not in the bucket yet."),
		alarms:      desc("alarms", "1 for each alarm of a service that is in force.", "service", "alarm"),
		quarantined: desc("quarantined_instances", "Instances that are held out because they came and went too often.", "service"),
	}
}

// Describe is part of prometheus.Collector.
func (c *runtimeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lag, c.differences, c.held, c.changes, c.quarantined, c.unsealed, c.alarms, c.away, c.unkept} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *runtimeCollector) Collect(ch chan<- prometheus.Metric) {
	t := c.p.current()
	sources, differences, observing := c.p.Runtime()
	if t == nil || !observing {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	type authority struct{ source, name string }
	count := map[authority]int{} // :: authority → rows that differ
	for _, d := range differences {
		count[authority{string(d.Source), d.Name}]++
	}
	for _, s := range sources {
		if s.Heard {
			gauge(c.lag, s.Lag.Seconds(), string(s.Source), s.Name)
		}
		gauge(c.differences, float64(count[authority{string(s.Source), s.Name}]), string(s.Source), s.Name)
	}
	gauge(c.unsealed, float64(t.records.inStore()))
	gauge(c.unkept, float64(t.keeper.Pending()))
	t.mu.Lock()
	defer t.mu.Unlock()
	gauge(c.away, t.away.since().Seconds())
	for name := range t.known {
		changes, quarantined := t.eval.Flapping(name)
		for kind := range t.alarms[name] {
			gauge(c.alarms, 1, name, kind)
		}
		gauge(c.changes, float64(changes), name)
		gauge(c.quarantined, float64(quarantined), name)
	}
	ch <- prometheus.MustNewConstMetric(c.held, prometheus.CounterValue, float64(t.heldDrops))
}
