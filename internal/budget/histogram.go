package budget

import "time"

// Bounds of a histogram's buckets; what took longer is in one more.
var Bounds = [...]time.Duration{
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 1500 * time.Millisecond, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute,
}

// Histogram counts durations in buckets. It has one size whatever it counted.
type Histogram struct {
	Counts [len(Bounds) + 1]uint64
	Sum    time.Duration
}

// Add counts a duration n times.
func (h *Histogram) Add(d time.Duration, n uint64) {
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h.Counts[i] += n
	h.Sum += d * time.Duration(n)
}

// Count is how many were counted.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Merge adds what another counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.Counts {
		h.Counts[i] += c
	}
	h.Sum += o.Sum
}

// Quantile is within what time the share of them was: the bound of the bucket,
// so never too little. Over says that it is beyond the last bound; nothing
// counted is zero.
func (h *Histogram) Quantile(share float64) (within time.Duration, over bool) {
	all := h.Count()
	if all == 0 {
		return 0, false
	}
	need, seen := share*float64(all), uint64(0)
	for i, b := range Bounds {
		if seen += h.Counts[i]; float64(seen) >= need {
			return b, false
		}
	}
	return Bounds[len(Bounds)-1], true
}
