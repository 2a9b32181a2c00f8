// Package prommetrics shows how a resolver stands as Prometheus metrics. It reads
// the resolver's status when it is scraped and keeps nothing. Read [New] first.
package prommetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/resolver"
)

// one is a metric and how it is read.
type one struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*resolver.Status) float64
}

// each is a metric of every service.
type each struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*resolver.ServiceStatus) float64
}

// collector of one resolver.
type collector struct {
	r        *resolver.Resolver
	ones     []one
	services []each
}

// New makes a collector of r's metrics, named fairlead_resolver_…: see the help
// text of each. Series are one for each service that r subscribes to.
func New(r *resolver.Resolver) prometheus.Collector {
	c := &collector{r: r}
	c.add("connected", "Whether the plane is connected: 1, or 0.", prometheus.GaugeValue, func(s *resolver.Status) float64 { return flag(s.Connected) })
	c.add("age_seconds", "How long ago the plane was last heard; before it ever was, how long ago the newest view was written to disk.", prometheus.GaugeValue, func(s *resolver.Status) float64 { return s.Age.Seconds() })
	c.add("views_refused_total", "Views that were not taken: lower ones, and such as did not fit what is held.", prometheus.CounterValue, func(s *resolver.Status) float64 { return float64(s.RefusedViews) })
	c.add("outcomes_reported_total", "Rows of outcomes that were sent; one is of one endpoint and second.", prometheus.CounterValue, func(s *resolver.Status) float64 { return float64(s.Reported) })
	c.add("outcomes_dropped_total", "Rows of outcomes that reach nobody.", prometheus.CounterValue, func(s *resolver.Status) float64 { return float64(s.Dropped) })
	c.add("events_dropped_total", "Events that the observer did not take soon enough.", prometheus.CounterValue, func(s *resolver.Status) float64 { return float64(s.DroppedEvents) })
	c.add("panics_total", "Panics of the library or of its hooks that were caught.", prometheus.CounterValue, func(s *resolver.Status) float64 { return float64(s.Panics) })
	c.add("kept", "Whether what is held is on disk: 1, or 0 where it cannot be written.", prometheus.GaugeValue, func(s *resolver.Status) float64 { return flag(s.KeepError == "") })
	c.addEach("view_epoch", "Epoch of the view that is picked by; 0 where there is none.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return float64(s.Version.Epoch) })
	c.addEach("view_counter", "Counter of the view that is picked by, within its epoch.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return float64(s.Version.Counter) })
	c.addEach("view_from_disk", "Whether the view is still the one from disk: 1, or 0.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return flag(s.Source == resolver.SourceDisk) })
	c.addEach("view_guarded", "Whether a guard keeps endpoints that the plane took away without an explanation: 1, or 0.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return flag(s.Objection != "") })
	c.addEach("view_withheld", "Whether the plane refuses to give the view: 1, or 0.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return flag(s.Refused != "") })
	c.addEach("fallback", "Whether configured addresses are picked, for want of a view: 1, or 0.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return flag(s.Fallback) })
	c.addEach("endpoints", "Endpoints in rotation.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return float64(s.Endpoints) })
	c.addEach("degraded_confidence_zones", "Zones in which health is disregarded.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return float64(len(s.Marked)) })
	c.addEach("ejected", "Endpoints that this caller has set aside.", prometheus.GaugeValue, func(s *resolver.ServiceStatus) float64 { return float64(len(s.Ejected)) })
	c.addEach("ejections_total", "How often this caller set an endpoint aside.", prometheus.CounterValue, func(s *resolver.ServiceStatus) float64 { return float64(s.Ejections) })
	return c
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("fairlead", "resolver", name), help, labels, nil)
}

func (c *collector) add(name, help string, kind prometheus.ValueType, value func(*resolver.Status) float64) {
	c.ones = append(c.ones, one{desc(name, help), kind, value})
}

func (c *collector) addEach(name, help string, kind prometheus.ValueType, value func(*resolver.ServiceStatus) float64) {
	c.services = append(c.services, each{desc(name, help, "service"), kind, value})
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Describe sends the descriptions.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.ones {
		to <- m.desc
	}
	for _, m := range c.services {
		to <- m.desc
	}
}

// Collect sends the values as they are now.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.r.Status()
	for _, m := range c.ones {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s))
	}
	for i := range s.Services {
		for _, m := range c.services {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s.Services[i]), s.Services[i].Service)
		}
	}
}
