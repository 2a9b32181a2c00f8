package budget

import (
	"hash/fnv"
	"time"
)

// Rest knows of which services something waits, and since when.
type Rest struct {
	since map[string]time.Duration // :: service → when the first of what waits was known
}

// Wait says that something of a service waits, if it did not before.
func (r *Rest) Wait(service string, now time.Duration) {
	if r.since == nil {
		r.since = map[string]time.Duration{}
	}
	if _, is := r.since[service]; !is {
		r.since[service] = now
	}
}

// Done says that nothing of the service waits.
func (r *Rest) Done(service string) { delete(r.since, service) }

// Due says whether what waits of a service is to go now, where it is asked once
// in Steady: nothing waits longer than the window. Under a longer window the
// services are spread over its second half, so that they do not go together.
func (r *Rest) Due(service string, now, window time.Duration) bool {
	since, waits := r.since[service]
	if !waits {
		since = now
	}
	longest := window
	if window > Steady {
		longest = window/2 + time.Duration(float64(window/2)*place(service))
	}
	return now-since > longest-Steady-Steady/10 // it would be late a turn from now
}

// place spreads services over [0,1).
func place(service string) float64 {
	h := fnv.New32a()
	h.Write([]byte(service))
	return float64(h.Sum32()) / (1 << 32)
}

// Waiting are the services of which something waits.
func (r *Rest) Waiting() []string {
	out := make([]string, 0, len(r.since))
	for name := range r.since {
		out = append(out, name)
	}
	return out
}

// Oldest is how long the oldest has waited; zero where nothing waits.
func (r *Rest) Oldest(now time.Duration) (age time.Duration) {
	for _, since := range r.since {
		age = max(age, now-since)
	}
	return age
}
