package prober

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

const (
	// gather is how long a batch waits for further looks.
	gather = 20 * time.Millisecond
	// mostWaiting looks wait for a stream that stalls; the oldest are dropped.
	mostWaiting = 20_000
	mostInBatch = 5_000
	mostDetail  = 200 // bytes
)

// outbox holds looks until they are told. Without names it holds none.
type outbox struct {
	some chan struct{} // holds one while something waits

	mu      sync.Mutex
	handles map[string]uint32 // :: instance → its handle on the stream in force; nil: there is none
	waiting []waiting
	dropped uint64 // looks that nobody was told of
}

type waiting struct {
	Look
	at time.Time
}

func newOutbox() *outbox { return &outbox{some: make(chan struct{}, 1)} }

// name sets by which handles instances are told of. What is not named is
// dropped: a handle means something on its own stream only.
func (o *outbox) name(handles map[string]uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if handles == nil {
		o.dropped += uint64(len(o.waiting))
		o.waiting = nil
	}
	o.handles = handles
}

func (o *outbox) add(l Look) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.handles == nil {
		o.dropped++
		return
	}
	if len(o.waiting) >= mostWaiting {
		o.dropped++
		o.waiting = o.waiting[1:]
	}
	o.waiting = append(o.waiting, waiting{l, time.Now()})
	select {
	case o.some <- struct{}{}:
	default:
	}
}

// take gives what is to be told next; nothing where nothing waits.
func (o *outbox) take() (looks []*pb.ProbeLook) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for len(o.waiting) > 0 && len(looks) < mostInBatch {
		w := o.waiting[0]
		o.waiting = o.waiting[1:]
		handle, named := o.handles[w.ID]
		if !named {
			o.dropped++
			continue
		}
		looks = append(looks, &pb.ProbeLook{
			Instance: handle, Result: results[w.Result], AgeMs: millis(now.Sub(w.at)), TookMs: millis(w.Took), Bytes: uint32(max(w.Bytes, 0)), Detail: short(w.Detail),
		})
	}
	if len(o.waiting) == 0 {
		o.waiting = nil
	}
	return looks
}

var results = [...]pb.ProbeResult{
	eligibility.Good: pb.ProbeResult_PROBE_RESULT_GOOD, eligibility.Failed: pb.ProbeResult_PROBE_RESULT_FAILED,
	eligibility.TimedOut: pb.ProbeResult_PROBE_RESULT_TIMED_OUT, eligibility.Refused: pb.ProbeResult_PROBE_RESULT_REFUSED,
}

func millis(d time.Duration) uint32 {
	return uint32(min(max(d.Milliseconds(), 0), int64(time.Hour/time.Millisecond)))
}

// short is a text that is fit for the wire.
func short(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= mostDetail {
		return text
	}
	at := mostDetail
	for !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at]
}

func (o *outbox) lost() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return float64(o.dropped)
}

type metrics struct{ looks *prometheus.CounterVec }

func newMetrics(name string, in *prometheus.Registry, out *outbox) *metrics {
	label := prometheus.Labels{"prober": name}
	m := &metrics{looks: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_prober_looks_total", Help: "Looks that were made, by what was seen.", ConstLabels: label,
	}, []string{"result"})}
	if in != nil {
		in.MustRegister(m.looks, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fairlead_prober_dropped_looks_total", Help: "Looks that no control was told of.", ConstLabels: label,
		}, out.lost))
	}
	return m
}
