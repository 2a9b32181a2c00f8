package discovery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// episode is how long no bad sample may come for the next to be a first one.
const episode = 30 * time.Second

// detection measures how long it takes from the first bad sample of an
// instance to the verdict that takes it out, and from there to the view without
// it: for what is hard, which nothing damps, and for what is soft.
type detection struct {
	seconds *prometheus.HistogramVec // nil measures nothing

	// The rest is guarded by the term's mu, and begins anew with each.
	bad     map[uint32]badSamples // :: handle → since when something speaks against it
	decided map[string][]decided  // :: service → verdicts whose view is not published yet
}

type badSamples struct{ first, last time.Time }

type decided struct {
	at   time.Time
	path string
}

func newDetection(metrics *prometheus.Registry) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "fairlead_discovery_detection_seconds",
		Help:    "Time from the first bad sample of an instance to the verdict that takes it out (stage verdict), and from there to the view without it (stage published), by what is hard (a refused connection) and what is soft.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60},
	}, []string{"service", "path", "stage"})
	metrics.MustRegister(v)
	return v
}

func (d *detection) begin(v *prometheus.HistogramVec) {
	d.seconds, d.bad, d.decided = v, map[uint32]badSamples{}, map[string][]decided{}
}

// sample notes that something spoke against an instance.
func (d *detection) sample(handle uint32, at time.Time) {
	if d.seconds == nil || handle == 0 {
		return
	}
	b, is := d.bad[handle]
	if !is || at.Sub(b.last) > episode {
		b.first = at
	}
	if at.After(b.last) {
		b.last = at
	}
	d.bad[handle] = b
}

// verdict notes that evidence took an instance out.
func (d *detection) verdict(service string, handle uint32, c eligibility.Change, now time.Time) {
	b, is := d.bad[handle]
	if d.seconds == nil || !is || c.To != eligibility.Ineligible || c.From == eligibility.Ineligible || !c.Rule.ByEvidence() {
		return
	}
	delete(d.bad, handle)
	path := "soft"
	if c.Rule.Hard() {
		path = "hard"
	}
	d.seconds.WithLabelValues(service, path, "verdict").Observe(now.Sub(b.first).Seconds())
	d.decided[service] = append(d.decided[service], decided{now, path})
}

// published notes that a service's view was brought up to date.
func (d *detection) published(service string, changed bool, now time.Time) {
	for _, x := range d.decided[service] {
		if changed { // else the guard kept it in
			d.seconds.WithLabelValues(service, x.path, "published").Observe(now.Sub(x.at).Seconds())
		}
	}
	delete(d.decided, service)
}

// forget drops what is kept of a service that is no more, so that what is
// measured is bounded by the services that there are.
func (d *detection) forget(service string) {
	if d.seconds != nil {
		d.seconds.DeletePartialMatch(prometheus.Labels{"service": service})
	}
	delete(d.decided, service)
}

// sweep drops episodes that are over.
func (d *detection) sweep(now time.Time) {
	for h, b := range d.bad {
		if now.Sub(b.last) > episode {
			delete(d.bad, h)
		}
	}
}
