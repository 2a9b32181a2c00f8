package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) (*Ops, func(path string) (int, string)) {
	t.Helper()
	o := NewOps(nil)
	addr, err := o.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := o.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return o, func(path string) (int, string) {
		t.Helper()
		res, err := client.Get("http://" + addr.String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
}

func TestReadyMeansThatEveryNamedCheckPasses(t *testing.T) {
	o, get := start(t)
	if code, body := get("/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("without checks: %d %q", code, body)
	}
	var why error
	o.Check("store", func() error { return nil })
	o.Check("leader", func() error { return why })
	if code, body := get("/readyz"); code != 200 || body != "store: ok\nleader: ok\nready\n" || o.Ready() != nil {
		t.Errorf("%d %q", code, body)
	}
	why = errors.New("not elected\nyet")
	if code, body := get("/readyz"); code != 503 || body != "store: ok\nleader: not ready: not elected; yet\nnot ready\n" {
		t.Errorf("%d %q", code, body)
	}
	if err := o.Ready(); !errors.Is(err, why) || !strings.HasPrefix(err.Error(), "leader: ") {
		t.Error(err)
	}
	if code, body := get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("a process that is not ready is not alive: %d %q", code, body)
	}
	o.Check("leader", func() error { return nil })
	if code, body := get("/readyz"); code != 200 || strings.Count(body, "leader") != 1 {
		t.Errorf("replaced: %d %q", code, body)
	}
}

func TestACheckThatHangsIsNamedAndRunsOnce(t *testing.T) {
	o, get := start(t)
	release, began := make(chan struct{}), make(chan struct{}, 10)
	o.Check("stuck", func() error { began <- struct{}{}; <-release; return nil })
	o.Check("fine", func() error { return nil })
	for range 2 {
		if code, body := get("/readyz"); code != 503 || !strings.HasPrefix(body, "stuck: not ready: no answer for ") || !strings.Contains(body, "fine: ok") {
			t.Errorf("%d %q", code, body)
		}
	}
	close(release)
	if n := len(began); n != 1 {
		t.Errorf("%d runs at once", n)
	}
	if code, body := get("/readyz"); code != 200 {
		t.Errorf("%d %q", code, body)
	}
}

func TestACheckThatPanicsIsNotReady(t *testing.T) {
	o, get := start(t)
	o.Check("broken", func() error { panic("boom") })
	o.Check("nothing", nil)
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "broken: not ready: the check itself failed: boom") || !strings.Contains(body, "nothing: not ready") {
		t.Errorf("%d %q", code, body)
	}
}

func TestMetricsOfOursCarryThePrefixAndARegistryOfTheirOwn(t *testing.T) {
	o, get := start(t)
	other := NewOps(nil)
	for i, ops := range []*Ops{o, other} { // one process may hold several
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "deploys_total", Help: "Deploys."})
		ops.Metrics().MustRegister(c)
		c.Add(float64(i + 3))
	}
	code, body := get("/metrics")
	for _, want := range []string{"\nfairlead_deploys_total 3\n", "\ngo_goroutines ", "\nprocess_open_fds "} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("%d: no %q", code, want)
		}
	}
	if code, _ := get("/else"); code != 404 {
		t.Errorf("another path: %d", code)
	}
}

func TestAPortInUseIsAnError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewOps(nil).Listen(ln.Addr().String()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
}

func TestALoggerWritesItsFormatFromItsLevelOn(t *testing.T) {
	for _, c := range []struct{ format, level, want string }{
		{"", "", "level=INFO msg=b"},
		{"text", "warn", ""},
		{"json", "debug", `"level":"DEBUG","msg":"a"`},
	} {
		var out bytes.Buffer
		log, err := NewLogger(&out, c.format, c.level)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("a")
		log.Info("b")
		if !strings.Contains(out.String(), c.want) || (c.want == "") != (out.Len() == 0) {
			t.Errorf("%+v: %q", c, out.String())
		}
	}
	for _, c := range [][2]string{{"xml", ""}, {"", "loud"}} {
		if _, err := NewLogger(io.Discard, c[0], c[1]); err == nil {
			t.Errorf("%v was taken", c)
		}
	}
	if _, err := NewLogger(io.Discard, "text", slog.LevelError.String()); err != nil {
		t.Error(err)
	}
}

func TestProfilesAreServedOnLoopbackAndElsewhereOnlyWhenAskedFor(t *testing.T) {
	for _, c := range []struct {
		listen string
		asked  bool
		want   int
	}{
		{"127.0.0.1:0", false, 200},
		{"[::]:0", false, 404},
		{"0.0.0.0:0", false, 404},
		{"0.0.0.0:0", true, 200},
	} {
		o := NewOps(nil)
		if c.asked {
			o.Profile()
		}
		addr, err := o.Listen(c.listen)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		_, port, err := net.SplitHostPort(addr.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"", "heap", "goroutine?debug=1", "cmdline"} {
			res, err := client.Get("http://" + net.JoinHostPort("localhost", port) + "/debug/pprof/" + path)
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != c.want {
				t.Errorf("%+v: %q answered %d", c, path, res.StatusCode)
			}
		}
		if err := o.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
