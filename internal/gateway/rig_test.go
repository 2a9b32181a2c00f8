package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/internal/gateway"
	"github.com/fairlead-platform/fairlead/view"
)

// tables holds the route table for a gateway, as the resolver's holder does.
type tables struct {
	mu  sync.Mutex
	now *view.Table
	fs  map[int]func(*view.Table)
	n   int
}

func (h *tables) Table() *view.Table {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *tables) OnChange(f func(*view.Table)) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fs == nil {
		h.fs = map[int]func(*view.Table){}
	}
	h.n++
	id := h.n
	h.fs[id] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.fs, id)
	}
}

// publish returns when the table is in force.
func (h *tables) publish(counter uint64, routes ...view.Route) *view.Table {
	t := view.NewTable(view.Version{Incarnation: "7f", Epoch: 1, Counter: counter}, view.Epoch{}, routes)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = t
	for _, f := range h.fs {
		f(t)
	}
	return t
}

// route is the common one: all traffic of a service to one revision's own group.
func route(service string, n int) view.Route {
	rev := revision(service, n)
	return view.Route{Service: service, Splits: []view.Split{{Revision: rev, Percent: 100, Group: rev, Allowed: []string{rev}}}}
}

func revision(service string, n int) string { return fmt.Sprintf("%s-%05d", service, n) }

// rig is a running gateway.
type rig struct {
	t      testing.TB
	g      *gateway.Gateway
	tables *tables
	dir    string
	reg    *prometheus.Registry
	url    string
	stop   func()
	client *http.Client
	logs   *logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t testing.TB, change ...func(*gateway.Config)) *rig {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	r := &rig{t: t, tables: &tables{}, dir: t.TempDir(), reg: prometheus.NewRegistry(), logs: &logBuffer{}}
	cfg := gateway.Config{
		Name: "g1", Session: "s1", Public: "127.0.0.1:0", Poll: "127.0.0.1:0", Dir: r.dir,
		Tables: r.tables, Metrics: r.reg, Drain: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(r.logs, nil)),
	}
	for _, f := range change {
		f(&cfg)
	}
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.g, r.url = g, "http://"+g.PublicAddr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the gateway ended with: %v", err)
		}
	})
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		r.stop()
	})
	return r
}

// serve publishes a route to one revision and offers one instance that h answers for.
func (r *rig) serve(service string, credits int, h http.Handler) *fakeHost {
	r.t.Helper()
	host := r.host("h1")
	host.offer(instance{ID: service + "-a", Service: service, Revision: revision(service, 1), Address: r.backend(h)}, credits)
	r.tables.publish(1, route(service, 1))
	host.synced()
	return host
}

// backend starts a real server, and returns its address.
func (r *rig) backend(h http.Handler) string {
	r.t.Helper()
	s := httptest.NewServer(h)
	r.t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// raw starts a TCP server that handles each connection by f.
func (r *rig) raw(f func(net.Conn)) string {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	r.t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

func (r *rig) request(method, host, path string, body io.Reader) *http.Request {
	r.t.Helper()
	q, err := http.NewRequest(method, r.url+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Host = host
	return q
}

// do sends a request and reads the whole answer.
func (r *rig) do(q *http.Request) (*http.Response, string) {
	r.t.Helper()
	resp, err := r.client.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(b)
}

func (r *rig) get(host, path string) (*http.Response, string) {
	r.t.Helper()
	return r.do(r.request("GET", host, path, nil))
}

// metric reads one value; what does not exist is zero.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	fs, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	var total float64
	for _, f := range fs {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			match := 0
			for _, l := range m.GetLabel() {
				for i := 0; i+1 < len(labels); i += 2 {
					if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
						match++
					}
				}
			}
			if match == len(labels)/2 {
				total += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return total
}

// until waits for a condition that nothing signals.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

// waiting waits until so many requests are in the gateway's queues.
func (r *rig) waiting(n int) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%d requests wait", n), func() bool { return r.metric("fairlead_gateway_waiting") == float64(n) })
}

// leases waits until so many leases are held.
func (r *rig) leases(n int) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%d leases are held", n), func() bool { return r.metric("fairlead_gateway_leases") == float64(n) })
}

func wantAnswer(t testing.TB, resp *http.Response, body string, status int, code string, says ...string) {
	t.Helper()
	if resp.StatusCode != status || resp.Header.Get("Fairlead-Error") != code {
		t.Errorf("answered %d %q (%q), want %d %q", resp.StatusCode, resp.Header.Get("Fairlead-Error"), body, status, code)
	}
	for _, s := range says {
		if !strings.Contains(body, s) {
			t.Errorf("the answer %q does not say %q", body, s)
		}
	}
	if code != "" && strings.Count(body, "\n") != 1 {
		t.Errorf("the answer %q is not one line", body)
	}
}
