package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// MetricPrefix begins the name of every metric of ours.
	MetricPrefix = "fairlead_"
	// checkTimeout is how long /readyz waits for one check.
	checkTimeout = 2 * time.Second
)

// Ops is the plain port of a process. It has a registry of its own. All
// methods are safe for concurrent use.
type Ops struct {
	log      *slog.Logger
	registry *prometheus.Registry
	server   *http.Server
	accepts  *prometheus.CounterVec
	running  sync.WaitGroup

	mu      sync.Mutex
	checks  []*check
	profile bool // whatever it listens on
}

// NewOps makes the port, not yet listening. log is slog.Default when nil.
func NewOps(log *slog.Logger) *Ops {
	if log == nil {
		log = slog.Default()
	}
	o := &Ops{log: log, registry: prometheus.NewRegistry(), accepts: newAcceptErrors()}
	o.registry.MustRegister(o.accepts, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	o.server = &http.Server{ReadHeaderTimeout: 5 * time.Second}
	return o
}

// Profile serves /debug/pprof/ wherever the port listens; without it, only on a
// loopback address, because a profile tells more than a stranger should know and
// costs what it measures. It must be called before Listen.
func (o *Ops) Profile() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.profile = true
}

// Metrics is where a role registers its metrics: it puts MetricPrefix before
// their names.
func (o *Ops) Metrics() prometheus.Registerer {
	return prometheus.WrapRegistererWithPrefix(MetricPrefix, o.registry)
}

// Registry is what /metrics shows.
func (o *Ops) Registry() *prometheus.Registry { return o.registry }

// Check makes readiness depend on run, which says why not. The checks run at
// each request of /readyz, side by side, never twice at once for one name;
// one that takes longer than two seconds counts as not passed. A later check
// of the same name replaces the earlier one.
func (o *Ops) Check(name string, run func() error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &check{name: name, run: run}
	for i, old := range o.checks {
		if old.name == name {
			o.checks[i] = c
			return
		}
	}
	o.checks = append(o.checks, c)
}

// Ready runs the checks, and gives the reasons of those that did not pass.
func (o *Ops) Ready() error {
	var failed []error
	for _, r := range o.results() {
		if r.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.name, r.err))
		}
	}
	return errors.Join(failed...)
}

// handler serves the three paths, and where profiles is set those of pprof.
func (o *Ops) handler(profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", o.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{Registry: o.registry}))
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// profiles says whether they are served to who can reach the address.
func (o *Ops) profiles(at net.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	tcp, ok := at.(*net.TCPAddr)
	return o.profile || ok && tcp.IP.IsLoopback()
}

func (o *Ops) readyz(w http.ResponseWriter, _ *http.Request) {
	var body strings.Builder
	status := http.StatusOK
	for _, r := range o.results() {
		if r.err != nil {
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&body, "%s: not ready: %s\n", r.name, oneLine(r.err.Error()))
		} else {
			fmt.Fprintf(&body, "%s: ok\n", r.name)
		}
	}
	if status == http.StatusOK {
		body.WriteString("ready\n")
	} else {
		body.WriteString("not ready\n")
	}
	answer(w, status, body.String())
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A client that went away cannot be told.
	_, _ = w.Write([]byte(body))
}

// Listen begins to serve on addr; a port of 0 picks one. It returns the address.
func (o *Ops) Listen(addr string) (net.Addr, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for health and metrics: %w", err)
	}
	o.server.Handler = o.handler(o.profiles(ln.Addr()))
	o.running.Go(func() {
		if err := o.server.Serve(o.Watch(ln, "ops")); !errors.Is(err, http.ErrServerClosed) {
			o.log.Error("health and metrics are not served any more", "address", ln.Addr().String(), "error", err)
		}
	})
	return ln.Addr(), nil
}

// Shutdown ends serving; it waits for requests under way until ctx ends.
func (o *Ops) Shutdown(ctx context.Context) error {
	err := o.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("cannot end health and metrics in time: %w", err), o.server.Close())
	}
	o.running.Wait()
	return err
}
