package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a gateway. What is counted per request is looked up once per table.
type metrics struct {
	requests *prometheus.CounterVec // by service and class of the status
	latency  prometheus.Histogram
	resends  prometheus.Counter
	dropped  prometheus.Counter
	aside    prometheus.Counter
	// unanswered requests, whose callers gave up on what hangs.
	unanswered prometheus.Counter
	nowhere    *meter
	calls      calls

	mu     sync.Mutex
	meters map[string]*meter // :: service → meter
}

// meter holds the counters of one service, by status/100.
type meter struct{ class [6]prometheus.Counter }

var classes = [6]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_gateway_requests_total", Help: "Requests answered, by service and class of the status.",
		}, []string{"service", "code"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_gateway_request_seconds", Help: "Time from a request's arrival to its end.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		resends: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_gateway_resends_total", Help: "Requests sent again on another lease.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_gateway_dropped_outcomes_total", Help: "Seconds of an instance's outcomes that no control took.",
		}),
		aside: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_gateway_ejections_total", Help: "Instances set aside by what this gateway saw of them while no control was heard.",
		}),
		unanswered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_gateway_unanswered_total", Help: "Requests whose callers gave up on an instance that sent nobody a byte meanwhile.",
		}),
		meters: map[string]*meter{},
	}
	m.nowhere = m.of("")
	return m
}

// of returns the counters of a service; empty stands for requests that lead nowhere.
func (m *metrics) of(service string) *meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.meters[service]; k != nil {
		return k
	}
	k := &meter{}
	for i, class := range classes {
		k.class[i] = m.requests.WithLabelValues(service, class)
	}
	m.meters[service] = k
	return k
}

// calls since the gateway began.
type calls struct{ all, failed, unroutable atomic.Uint64 }

// Calls are how many requests led to a service, how many of them failed at an
// instance or on the way to it, and how many the gateway could send nowhere.
func (g *Gateway) Calls() (all, failed, unroutable uint64) {
	c := &g.metrics.calls
	return c.all.Load(), c.failed.Load(), c.unroutable.Load()
}

func (m *metrics) done(x *exchange, took time.Duration) {
	if x.svc != nil || x.nowhere {
		m.calls.all.Add(1)
		switch {
		case x.nowhere:
			m.calls.unroutable.Add(1)
		case x.status >= 500:
			m.calls.failed.Add(1)
		}
	}
	k := m.nowhere
	if x.svc != nil {
		k = x.svc.meter
	}
	class := x.status / 100
	if class < 1 || class > 5 {
		class = 0
	}
	k.class[class].Inc()
	m.latency.Observe(took.Seconds())
}

// gauges are read from the rooms when they are asked for.
type gauges struct {
	room                             *room
	waiting, leases, credits, served *prometheus.Desc
	views                            *prometheus.Desc
}

func newGauges(rm *room) *gauges {
	by := []string{"service", "group"}
	return &gauges{
		room:    rm,
		waiting: prometheus.NewDesc("fairlead_gateway_waiting", "Requests that wait for a lease.", by, nil),
		leases:  prometheus.NewDesc("fairlead_gateway_leases", "Leases held.", by, nil),
		credits: prometheus.NewDesc("fairlead_gateway_credits", "Credits owned, those in use included.", by, nil),
		views:   prometheus.NewDesc("fairlead_gateway_view", "The view that a service's instances are chosen by; its counter is the value.", []string{"service", "incarnation", "epoch"}, nil),
		served:  prometheus.NewDesc("fairlead_gateway_table", "The route table in force; its counter is the value.", []string{"incarnation", "epoch"}, nil),
	}
}

// Describe is part of prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.waiting, g.leases, g.credits, g.served, g.views} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	for _, s := range g.room.sums() {
		for d, v := range map[*prometheus.Desc]int{g.waiting: s.waiting, g.leases: s.leases, g.credits: s.credits} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), s.service, s.group)
		}
	}
	for _, s := range g.room.inForce() {
		v := s.Version
		ch <- prometheus.MustNewConstMetric(g.views, prometheus.GaugeValue, float64(v.Counter), s.Name, v.Incarnation, uitoa(v.Epoch))
	}
	if ix := g.room.index.Load(); ix != nil {
		v := ix.version
		ch <- prometheus.MustNewConstMetric(g.served, prometheus.GaugeValue, float64(v.Counter), v.Incarnation, uitoa(v.Epoch))
	}
}

func (m *metrics) register(r prometheus.Registerer, rm *room) error {
	for _, c := range []prometheus.Collector{m.requests, m.latency, m.resends, m.dropped, m.aside, m.unanswered, newGauges(rm)} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
