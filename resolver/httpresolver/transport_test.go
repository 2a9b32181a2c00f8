package httpresolver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/httpresolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// world is a plane, a caller of "payments", and its instances.
type world struct {
	t         *testing.T
	plane     *resolvertest.Plane
	r         *resolver.Resolver
	client    *http.Client
	endpoints []view.Endpoint
}

func newWorld(t *testing.T, options ...httpresolver.Option) *world {
	w := &world{t: t, plane: resolvertest.New(t)}
	cfg := w.plane.Config(t.TempDir(), "payments")
	cfg.FirstView = -1
	cfg.Ejection.Off = true
	var err error
	if w.r, err = resolver.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	transport := httpresolver.New(w.r, options...)
	w.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := w.r.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// instance adds one that answers by h.
func (w *world) instance(id string, h http.HandlerFunc) {
	w.t.Helper()
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	w.endpoints = append(w.endpoints, resolvertest.Endpoint(id, s.Listener.Addr().String()))
}

// dead adds one at whose address nobody listens.
func (w *world) dead(id string) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.endpoints = append(w.endpoints, resolvertest.Endpoint(id, l.Addr().String()))
}

func (w *world) publish() {
	w.t.Helper()
	w.plane.Set("payments", w.endpoints...)
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.r.Await(ctx, "payments"); err != nil {
		w.t.Fatal(err)
	}
}

// do sends a request and returns status and body.
func (w *world) do(method, body string) (int, string, error) {
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://payments/pay?x=1", b)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.send(req)
}

func (w *world) send(req *http.Request) (int, string, error) {
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(got), err
}

// reported waits until what was reported is this, by instance "OK/failed/refused".
func (w *world) reported(want map[string]string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	err := w.plane.AwaitOutcomes(ctx, func(got map[string]resolvertest.Outcomes) bool {
		for id, text := range want {
			o := got[id]
			if text != fmt.Sprintf("%d/%d/%d", o.OK, o.Failed, o.Refused) {
				return false
			}
		}
		return len(got) == len(want)
	})
	if err != nil {
		w.t.Error(err)
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.URL.RequestURI(), b)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// broken closes the connection without an answer.
func broken(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestARequestGoesToAnInstanceOfTheServiceThatItsHostNamesAndIsReported(t *testing.T) {
	w := newWorld(t)
	w.instance("i1", echo)
	w.publish()
	code, body, err := w.do("POST", "money")
	if err != nil || code != 200 || body != "POST payments /pay?x=1 money" {
		t.Fatalf("got %d %q: %v", code, body, err)
	}
	w.reported(map[string]string{"i1": "1/0/0"})
}

func TestAServiceWithoutAViewFailsByTheTypedErrorOfThePick(t *testing.T) {
	w := newWorld(t)
	_, _, err := w.do("GET", "")
	var typed *resolver.PickError
	if !errors.Is(err, resolver.ErrNoView) || !errors.As(err, &typed) {
		t.Errorf("got %v", err)
	}
}

func TestARefusedRequestIsSentElsewhereWhateverItsMethod(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.dead(fmt.Sprintf("dead%d", i))
	}
	w.instance("i1", echo)
	w.publish()
	const n = 30 // more than the retry budget has for them
	for range n {
		if code, body, err := w.do("POST", "money"); err != nil || code != 200 || !strings.HasSuffix(body, "money") {
			t.Fatalf("got %d %q: %v", code, body, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.plane.AwaitOutcomes(ctx, func(got map[string]resolvertest.Outcomes) bool {
		return got["i1"].OK == n && got["dead0"].Refused > 0 && got["dead0"].Failed == got["dead0"].Refused
	}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsIdempotentIsSentToAnotherInstanceWhenOneFails(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{"no answer": broken, "503": status(503), "502": status(502)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var bad atomic.Int32
			w.instance("bad", func(rw http.ResponseWriter, r *http.Request) { bad.Add(1); h(rw, r) })
			w.instance("good", echo)
			w.publish()
			for range 20 {
				if code, body, err := w.do("PUT", "money"); err != nil || code != 200 || !strings.HasSuffix(body, "money") {
					t.Fatalf("got %d %q: %v", code, body, err)
				}
			}
			w.reported(map[string]string{"good": "20/0/0", "bad": fmt.Sprintf("0/%d/0", bad.Load())})
		})
	}
}

func TestWhatIsNotIdempotentIsNotSentTwice(t *testing.T) {
	w := newWorld(t)
	var reached atomic.Int32
	for i := range 3 {
		w.instance(fmt.Sprintf("i%d", i), func(rw http.ResponseWriter, r *http.Request) { reached.Add(1); broken(rw, r) })
	}
	w.publish()
	if _, _, err := w.do("POST", "money"); err == nil || reached.Load() != 1 {
		t.Errorf("it reached %d instances: %v", reached.Load(), err)
	}
	if code, _, err := w.do("PATCH", ""); err == nil || reached.Load() != 2 {
		t.Errorf("it reached %d instances: %d %v", reached.Load(), code, err)
	}
}

func TestABodyThatCannotBeHadAgainIsNotSentTwice(t *testing.T) {
	w := newWorld(t)
	var reached atomic.Int32
	for i := range 3 {
		w.instance(fmt.Sprintf("i%d", i), func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			reached.Add(1)
			broken(rw, r)
		})
	}
	w.publish()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://payments/", io.NopCloser(strings.NewReader("once")))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.send(req); err == nil || reached.Load() != 1 {
		t.Errorf("it reached %d instances: %v", reached.Load(), err)
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	w := newWorld(t)
	var reached atomic.Int32
	for i := range 6 {
		w.instance(fmt.Sprintf("i%d", i), func(rw http.ResponseWriter, _ *http.Request) { reached.Add(1); rw.WriteHeader(503) })
	}
	w.publish()
	if code, _, err := w.do("GET", ""); err != nil || code != 503 || reached.Load() != httpresolver.DefaultAttempts {
		t.Errorf("it reached %d instances and brought %d: %v", reached.Load(), code, err)
	}
}

func TestRetriesEndWithTheBudget(t *testing.T) {
	w := newWorld(t)
	var reached atomic.Int32
	for i := range 3 {
		w.instance(fmt.Sprintf("i%d", i), func(rw http.ResponseWriter, _ *http.Request) { reached.Add(1); rw.WriteHeader(503) })
	}
	w.publish()
	const n = 400
	for range n {
		if code, _, err := w.do("GET", ""); err != nil || code != 503 {
			t.Fatalf("got %d: %v", code, err)
		}
	}
	// Without a budget it would be three times n. A second brings a fifth of its
	// requests and ten, after a hundred that were saved.
	if got := int(reached.Load()); got > 2*n || got < n+50 {
		t.Errorf("%d requests made %d", n, got)
	}
}

func TestAStatusOf500AndAboveIsAFailureAndIsGivenToTheCaller(t *testing.T) {
	w := newWorld(t)
	w.instance("i1", status(500))
	w.publish()
	if code, _, err := w.do("GET", ""); err != nil || code != 500 {
		t.Errorf("got %d: %v", code, err)
	}
	w.reported(map[string]string{"i1": "0/1/0"})
}

func TestAStatusBelow500IsNoFailure(t *testing.T) {
	w := newWorld(t)
	w.instance("i1", status(429))
	w.publish()
	if code, _, err := w.do("GET", ""); err != nil || code != 429 {
		t.Errorf("got %d: %v", code, err)
	}
	w.reported(map[string]string{"i1": "1/0/0"})
}

func TestAnAnswerThatIsCutOffIsAFailure(t *testing.T) {
	w := newWorld(t)
	w.instance("i1", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", "100")
		fmt.Fprint(rw, "half of it")
		_ = http.NewResponseController(rw).Flush()
		broken(rw, r)
	})
	w.publish()
	if _, body, err := w.do("GET", ""); err == nil || body != "half of it" {
		t.Errorf("got %q: %v", body, err)
	}
	w.reported(map[string]string{"i1": "0/1/0"})
}

func TestWhatTheCallerCancelsSaysNothing(t *testing.T) {
	w := newWorld(t)
	entered := make(chan struct{})
	w.instance("i1", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			close(entered)
			<-r.Context().Done()
		}
	})
	w.publish()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://payments/wait", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-entered
		cancel()
	}()
	if _, _, err := w.send(req); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, _, err := w.do("GET", ""); err != nil {
		t.Error(err)
	}
	w.reported(map[string]string{"i1": "1/0/0"})
}

func TestADeadlineThatPassesIsAFailure(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.instance("i1", func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	w.publish()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://payments/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.send(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w.reported(map[string]string{"i1": "0/1/0"})
}

func TestAnAttemptThatHangsIsGivenUpAndTheRequestGoesElsewhere(t *testing.T) {
	w := newWorld(t, httpresolver.AttemptTimeout(100*time.Millisecond))
	release := make(chan struct{})
	var hanging atomic.Int32
	w.instance("hangs", func(http.ResponseWriter, *http.Request) { hanging.Add(1); <-release })
	defer close(release)
	w.instance("i1", func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(rw).Flush()
		time.Sleep(200 * time.Millisecond) // a body may take longer
		echo(rw, r)
	})
	w.publish()
	for hanging.Load() < 3 {
		if code, body, err := w.do("GET", ""); err != nil || code != 200 || !strings.HasPrefix(body, "GET payments") {
			t.Fatalf("got %d %q: %v", code, body, err)
		}
	}
}

func TestAPortReusedByAnotherInstanceIsStaleRetriedAndNobodyIsCharged(t *testing.T) {
	w := newWorld(t)
	w.instance("old", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(httpresolver.InstanceHeader, "somebody-else")
		fmt.Fprint(rw, "not yours")
	})
	w.instance("i1", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set(httpresolver.InstanceHeader, "i1")
		echo(rw, r)
	})
	w.publish()
	for range 20 {
		if code, body, err := w.do("GET", ""); err != nil || code != 200 || !strings.HasPrefix(body, "GET payments") {
			t.Fatalf("got %d %q: %v", code, body, err)
		}
	}
	w.reported(map[string]string{"i1": "20/0/0"})
}

func TestWhatIsNotIdempotentAndReachedAnotherInstanceIsAnError(t *testing.T) {
	w := newWorld(t)
	w.instance("old", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(httpresolver.InstanceHeader, "somebody-else")
	})
	w.publish()
	if _, _, err := w.do("POST", "money"); !errors.Is(err, httpresolver.ErrStale) {
		t.Errorf("got %v", err)
	}
}
