package discovery

import "github.com/prometheus/client_golang/prometheus"

// What is weighed on the wire.
const (
	probeBytes   = "probes"   // looks at instances
	outcomeBytes = "outcomes" // reports of what became of calls
	callBytes    = "calls"    // the calls that were reported: what probes are held against
)

// proberCollector tells of who looks at instances, and what it costs.
type proberCollector struct {
	p                                *Plane
	probers, targets, unlooked, wire *prometheus.Desc
}

func newProberCollector(p *Plane) *proberCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_discovery_"+name, help, labels, nil)
	}
	return &proberCollector{
		p:        p,
		probers:  desc("probers", "Probers that are known, by what is to be thought of them: heard, silent or suspect.", "zone", "state"),
		targets:  desc("probe_targets", "Instances that are looked at."),
		unlooked: desc("unwatched_instances", "Instances that nobody has room to look at."),
		wire:     desc("wire_bytes_total", "Bytes on the wire since this control leads, by what for: probes, reports of outcomes, and the calls that were reported.", "class"),
	}
}

// Describe is part of prometheus.Collector.
func (c *proberCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.probers, c.targets, c.unlooked, c.wire} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *proberCollector) Collect(ch chan<- prometheus.Metric) {
	t := c.p.current()
	if t == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	bytes := t.ingest.Bytes()
	for _, class := range []string{probeBytes, outcomeBytes, callBytes} {
		ch <- prometheus.MustNewConstMetric(c.wire, prometheus.CounterValue, float64(bytes[class]), class)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	type kind struct{ zone, state string }
	count := map[kind]int{} // :: kind → probers
	for _, m := range t.probing.members {
		state := "heard"
		switch {
		case m.gone:
			state = "silent"
		case !m.suspect.IsZero():
			state = "suspect"
		}
		count[kind{m.Zone, state}]++
	}
	for k, n := range count {
		gauge(c.probers, n, k.zone, k.state)
	}
	looked := 0
	for _, x := range t.probing.targets {
		if !x.over && len(x.probers) > 0 {
			looked++
		}
	}
	gauge(c.targets, looked)
	gauge(c.unlooked, t.probing.unlooked)
}
