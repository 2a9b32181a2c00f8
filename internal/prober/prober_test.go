package prober

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watching runs a prober, and gives what it sees.
func watching(t *testing.T, targets ...Target) (*Prober, <-chan Look) {
	t.Helper()
	seen := make(chan Look, 1000)
	p := New(Config{Report: func(l Look) { seen <- l }})
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() { p.Run(ctx) })
	t.Cleanup(func() { cancel(); over.Wait() })
	p.Assign(targets)
	return p, seen
}

func next(t *testing.T, seen <-chan Look) Look {
	t.Helper()
	select {
	case l := <-seen:
		return l
	case <-time.After(20 * time.Second):
		t.Fatal("no look in 20 s")
		return Look{}
	}
}

// closed is an address where nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestALookThatAnotherInstanceAnswersFails(t *testing.T) {
	var who string // is set before it is asked
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Fairlead-Instance", who) }))
	t.Cleanup(web.Close)
	dial := (&net.Dialer{}).DialContext
	for _, x := range []struct {
		who  string
		want eligibility.Result
	}{{"i1", eligibility.Good}, {"i2", eligibility.Failed}, {"", eligibility.Good}} {
		who = x.who
		target := Target{ID: "i1", Address: web.Listener.Addr().String(), Check: Check{Kind: HTTP}}
		if l := target.look(t.Context(), dial); l.Result != x.want {
			t.Errorf("who answers says that it is %q: %v", x.who, l)
		}
	}
}

func TestEachKindOfLookSaysWhatItSaw(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bad":
			w.WriteHeader(http.StatusInternalServerError)
		case "/slow":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(web.Close)
	at := web.Listener.Addr().String()
	calls := grpc.NewServer()
	state := health.NewServer()
	state.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(calls, state)
	l := listener(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := calls.Serve(l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { calls.Stop(); serving.Wait() })
	for _, x := range []struct {
		name    string
		address string
		check   Check
		want    eligibility.Result
	}{
		{"tcp accepted", at, Check{}, eligibility.Good},
		{"tcp refused", closed(t), Check{}, eligibility.Refused},
		{"http well", at, Check{Kind: HTTP}, eligibility.Good},
		{"http 500", at, Check{Kind: HTTP, Path: "/bad"}, eligibility.Failed},
		{"http refused", closed(t), Check{Kind: HTTP}, eligibility.Refused},
		{"http hangs", at, Check{Kind: HTTP, Path: "/slow", Timeout: 100 * time.Millisecond}, eligibility.TimedOut},
		{"no http at all", l.Addr().String(), Check{Kind: HTTP}, eligibility.Failed},
		{"grpc serving", l.Addr().String(), Check{Kind: GRPC}, eligibility.Good},
		{"grpc not serving", l.Addr().String(), Check{Kind: GRPC, Path: "down"}, eligibility.Failed},
		{"grpc refused", closed(t), Check{Kind: GRPC}, eligibility.Refused},
	} {
		t.Run(x.name, func(t *testing.T) {
			target := Target{Address: x.address, Check: x.check}
			if target.Check.Timeout == 0 {
				target.Check.Timeout = 10 * time.Second
			}
			if l := target.look(t.Context(), new(net.Dialer).DialContext); l.Result != x.want {
				t.Errorf("%s (%s); want %s", l.Result, l.Detail, x.want)
			} else if least := map[Kind]int{HTTP: connectBytes + 50, GRPC: 2*connectBytes + 100}[x.check.Kind]; x.want == eligibility.Good && (l.Bytes < max(least, connectBytes) || l.Bytes > 3000) {
				t.Errorf("it took %d bytes", l.Bytes)
			}
		})
	}
}

func TestATargetIsLookedAtAgainAndAgain(t *testing.T) {
	l := listener(t)
	_, seen := watching(t, Target{ID: "i", Address: l.Addr().String(), Interval: 20 * time.Millisecond})
	for range 5 {
		if got := next(t, seen); got.ID != "i" || got.Result != eligibility.Good {
			t.Fatalf("got %+v", got)
		}
	}
}

func TestTheOnlyProberLooksTwiceWhenRefused(t *testing.T) {
	p, seen := watching(t, Target{ID: "i", Address: closed(t), Interval: time.Hour, Alone: true})
	p.Now("i")
	if one, two := next(t, seen), next(t, seen); one.Result != eligibility.Refused || two.Result != eligibility.Refused {
		t.Errorf("got %+v and %+v", one, two)
	}
}

func TestALookIsMadeAtOnceWhenAskedFor(t *testing.T) {
	l := listener(t)
	p, seen := watching(t, Target{ID: "i", Address: l.Addr().String(), Interval: time.Hour})
	p.Now("i")
	next(t, seen)
}

func TestWhatIsNoLongerAssignedIsNoLongerReported(t *testing.T) {
	l := listener(t)
	target := Target{ID: "i", Address: l.Addr().String(), Interval: time.Millisecond}
	p, seen := watching(t, target)
	next(t, seen)
	other := target
	other.ID = "j"
	p.Assign([]Target{other})
	for range 20 { // of the first at most what was on its way
		if got := next(t, seen); got.ID == "j" {
			return
		}
	}
	t.Error("the old target is still looked at")
}

func TestAHangingTargetDelaysNoOther(t *testing.T) {
	hung := listener(t) // accepts in the kernel, and never answers
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(well.Close)
	targets := []Target{{ID: "well", Address: well.Listener.Addr().String(), Check: Check{Kind: HTTP, Timeout: 10 * time.Second}, Interval: 10 * time.Millisecond}}
	for i := range 20 {
		targets = append(targets, Target{ID: fmt.Sprint(i), Address: hung.Addr().String(), Check: Check{Kind: HTTP, Timeout: 2 * time.Second}, Interval: 10 * time.Millisecond})
	}
	_, seen := watching(t, targets...)
	for n := 0; n < 5; {
		if next(t, seen).ID == "well" {
			n++
		}
	}
}
