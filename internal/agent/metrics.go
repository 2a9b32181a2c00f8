package agent

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	outcomes *prometheus.CounterVec
}

func newMetrics(a *Agent, r *prometheus.Registry) metrics {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_agent_requests_total", Help: "Requests of local programs, by what was asked and the code of the answer.",
		}, []string{"what", "code"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_agent_outcomes_total", Help: "Outcomes that local programs told: taken, or discarded because the pick is not known or not theirs.",
		}, []string{"what"}),
	}
	for _, what := range []string{"taken", "discarded"} {
		m.outcomes.WithLabelValues(what)
	}
	if r == nil {
		return m
	}
	r.MustRegister(m.requests, m.outcomes,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_agent_picks_open", Help: "Picks whose end was not told yet.",
		}, func() float64 { return float64(a.picks.len()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fairlead_may_refused_total", Help: "Subscriptions and questions that the policy of a service does not allow the caller, by what was asked.",
			ConstLabels: prometheus.Labels{"what": "query"},
		}, func() float64 {
			a.mu.Lock()
			defer a.mu.Unlock()
			return float64(a.refused)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_agent_age_seconds", Help: "How long ago the plane was heard; before it ever was, how old the newest view on disk is.",
		}, func() float64 { return a.cfg.Resolver.Status().Age.Seconds() }))
	return m
}
