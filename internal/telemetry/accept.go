package telemetry

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/outage"
)

// calm is how long nothing must have failed until all is said to be well: who
// lacks file descriptors accepts one connection whenever another ends.
const calm = 10 * time.Second

func newAcceptErrors() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_accept_errors_total", Help: "Times that a listener could not accept a connection, by listener.",
	}, []string{"listener"})
}

// Watch has what l cannot accept, for want of file descriptors or memory,
// counted under that name, and logged as a warning at growing intervals: its
// server waits such errors out and tells nobody. They are passed on.
func (o *Ops) Watch(l net.Listener, name string) net.Listener {
	return &watched{Listener: l, log: o.log.With("listener", name), failed: o.accepts.WithLabelValues(name), now: time.Now}
}

type watched struct {
	net.Listener
	log    *slog.Logger
	failed prometheus.Counter
	now    func() time.Time

	mu     sync.Mutex
	outage outage.Outage
	last   time.Time // of failures; zero: none since all was well
}

// Accept is part of net.Listener.
func (w *watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	switch {
	case err == nil:
		w.well()
	case !errors.Is(err, net.ErrClosed):
		w.ill(err)
	}
	return c, err
}

func (w *watched) ill(err error) {
	w.failed.Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = w.now()
	if w.outage.Failed(w.last) {
		w.log.Warn("cannot accept connections; they wait, and it is tried again", "error", err, "for", w.outage.For(w.last))
	}
}

func (w *watched) well() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.IsZero() || w.now().Sub(w.last) < calm {
		return
	}
	w.log.Info("connections are accepted again", "after", w.outage.Back(w.last))
	w.last = time.Time{}
}
