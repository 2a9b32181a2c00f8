package daemon

import "github.com/prometheus/client_golang/prometheus"

// refusals counts what the policies of services forbade. Reports are counted
// among the evidence that is discarded.
type refusals struct{ by *prometheus.CounterVec }

func newRefusals(r *prometheus.Registry) refusals {
	x := refusals{prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "fairlead", Subsystem: "may", Name: "refused_total",
		Help: "Subscriptions and questions that the policy of a service does not allow the caller, by what was asked.",
	}, []string{"what"})}
	for _, what := range []string{"subscription", "query"} {
		x.by.WithLabelValues(what)
	}
	r.MustRegister(x.by)
	return x
}

func (x refusals) subscription(error) { x.by.WithLabelValues("subscription").Inc() }

func (x refusals) query(error) { x.by.WithLabelValues("query").Inc() }
