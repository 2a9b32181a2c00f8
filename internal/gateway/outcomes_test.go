package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/gateway"
)

// witness is a control that adds up what is reported.
type witness struct {
	pb.UnimplementedEvidenceServiceServer
	mu      sync.Mutex
	numbers []uint64
	sums    map[string]*pb.OutcomeRow // :: instance → sums
	zones   map[string]bool           // that were named
}

func (w *witness) ReportOutcomes(s pb.EvidenceService_ReportOutcomesServer) error {
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.numbers = append(w.numbers, m.GetNumber())
		w.zones[m.GetZone()] = true
		for _, r := range m.GetRows() {
			if w.sums[r.GetInstance()] == nil {
				w.sums[r.GetInstance()] = &pb.OutcomeRow{}
			}
			x := w.sums[r.GetInstance()]
			x.Ok, x.Failed, x.Refused = x.Ok+r.GetOk(), x.Failed+r.GetFailed(), x.Refused+r.GetRefused()
			x.Bytes, x.Unanswered = x.Bytes+r.GetBytes(), x.Unanswered+r.GetUnanswered()
		}
		w.mu.Unlock()
	}
}

// saw is ok, failed and refused of an instance.
func (w *witness) saw(instance string) [3]uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.sums[instance]
	return [3]uint32{x.GetOk(), x.GetFailed(), x.GetRefused()}
}

// gaveUp is how many callers gave up on an instance that answered nobody.
func (w *witness) gaveUp(instance string) uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sums[instance].GetUnanswered()
}

// carried is how many bytes of an instance's calls were reported.
func (w *witness) carried(instance string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sums[instance].GetBytes()
}

// reports has the gateway report to a witness, at an address of its own.
func (r *rig) reports(control func(address string) string) *witness {
	r.t.Helper()
	w := &witness{sums: map[string]*pb.OutcomeRow{}, zones: map[string]bool{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterEvidenceServiceServer(s, w)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	to := gateway.Reports{
		Control: func() string { return control(l.Addr().String()) },
		Dial:    []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
		Alone:   func() bool { return control("") == "" },
		Zone:    "north",
	}
	go func() { ended <- r.g.Report(ctx, to) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
		s.Stop()
		<-served
	})
	return w
}

func followed(address string) string { return address }

func TestTheOutcomeOfEachRequestIsReportedOfTheInstanceThatHadIt(t *testing.T) {
	r := newRig(t)
	w := r.reports(followed)
	r.serve("hello", 5, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/bad":
			w.WriteHeader(http.StatusInternalServerError)
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/drop":
			panic(http.ErrAbortHandler)
		}
	}))
	for path, n := range map[string]int{"/": 5, "/missing": 2, "/bad": 3, "/drop": 1} {
		for range n {
			resp, _ := r.do(r.request(http.MethodPost, "hello.localhost", path, nil))
			_ = resp
		}
	}
	until(t, "the report of 7 good and 4 failed", func() bool { return w.saw("hello-a") == [3]uint32{7, 4, 0} })
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(w.zones, map[string]bool{"north": true}) {
		t.Errorf("the gateway stands in the north, and its reports name %v", w.zones)
	}
}

func TestTheBytesOfWhatWasAskedAndAnsweredAreReported(t *testing.T) {
	r := newRig(t)
	w := r.reports(followed)
	const asked, answered = 30_000, 50_000
	r.serve("hello", 5, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		_, _ = w.Write(make([]byte, answered))
	}))
	for range 2 { // the second on the connection of the first
		if resp, _ := r.do(r.request(http.MethodPost, "hello.localhost", "/", bytes.NewReader(make([]byte, asked)))); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	until(t, "the report of both", func() bool { return w.saw("hello-a") == [3]uint32{2, 0, 0} })
	if got := w.carried("hello-a"); got < 2*(asked+answered) || got > 2*(asked+answered)+4000 {
		t.Errorf("%d bytes are reported, want %d and the heads", got, 2*(asked+answered))
	}
}

func TestARefusedConnectionIsReportedAsSuch(t *testing.T) {
	r := newRig(t)
	w := r.reports(followed)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: address}, 1)
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}, 1)
	r.tables.publish(1, route("hello", 1))
	h.synced()
	for range 3 {
		if resp, _ := r.get("hello.localhost", "/"); resp.StatusCode != http.StatusOK {
			t.Fatalf("answered %d", resp.StatusCode)
		}
	}
	until(t, "the refusal", func() bool { return w.saw("a") == [3]uint32{0, 1, 1} && w.saw("b") == [3]uint32{3, 0, 0} })
}

func TestWhatTheCallerEndedIsNoOutcome(t *testing.T) {
	r := newRig(t)
	w := r.reports(followed)
	begun := make(chan struct{}, 1)
	r.serve("hello", 5, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			begun <- struct{}{}
			<-q.Context().Done()
		}
	}))
	c, err := net.Dial("tcp", r.g.PublicAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET /slow HTTP/1.1\r\nHost: hello.localhost\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r.leases(0)
	if resp, _ := r.get("hello.localhost", "/"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	until(t, "the report of one good request", func() bool { return w.saw("hello-a") != [3]uint32{} })
	if got := w.saw("hello-a"); got != [3]uint32{1, 0, 0} {
		t.Errorf("reported are ok, failed, refused %v", got)
	}
}

func TestAControlThatTakesNoReportsDelaysNoRequestAndWhatIsDroppedIsCounted(t *testing.T) {
	r := newRig(t)
	deaf := r.raw(func(c net.Conn) { // it accepts, and says nothing
		_, _ = bufio.NewReader(c).ReadByte()
		<-t.Context().Done()
	})
	r.reports(func(string) string { return deaf })
	r.serve("hello", 5, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	until(t, "dropped reports", func() bool {
		if resp, _ := r.get("hello.localhost", "/"); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		return r.metric("fairlead_gateway_dropped_outcomes_total") > 0
	})
}

func TestAnInstanceThatFailsIsSetAsideWhileNoControlIsHeard(t *testing.T) {
	r := newRig(t)
	h := r.host("h1")
	h.offer(instance{ID: "good", Service: "hello", Revision: "hello-00001", Address: r.backend(named("good"))}, 4)
	h.offer(instance{ID: "bad", Service: "hello", Revision: "hello-00001", Address: r.backend(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))}, 4)
	r.tables.publish(1, route("hello", 1))
	h.synced()
	r.reports(func(string) string { return "" })
	until(t, "the failing one is set aside", func() bool {
		r.get("hello.localhost", "/")
		return r.metric("fairlead_gateway_ejections_total") == 1
	})
	if got := r.answers(20); got["good"] != 20 {
		t.Errorf("answered by %v", got)
	}
}

func TestAnAnswerThatItsInstanceCutsOffHalfWayHasFailedAndOneThatItsCallerCutsOffHasNot(t *testing.T) {
	r := newRig(t)
	w := r.reports(followed)
	const size = 8 << 20
	r.serve("hello", 5, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		half := make([]byte, size/2)
		switch q.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = w.Write(half)
			panic(http.ErrAbortHandler)
		case "/chunks":
			_, _ = w.Write(half)
			panic(http.ErrAbortHandler)
		case "/whole":
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = w.Write(half)
			_, _ = w.Write(half)
		}
	}))
	for _, path := range []string{"/length", "/chunks"} {
		resp, err := r.client.Do(r.request(http.MethodGet, "hello.localhost", path, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%s: half an answer was taken for a whole one", path)
		}
		_ = resp.Body.Close()
	}
	until(t, "the report of both", func() bool { return w.saw("hello-a") == [3]uint32{0, 2, 0} })
	c, err := net.Dial("tcp", r.g.PublicAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET /whole HTTP/1.1\r\nHost: hello.localhost\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r.leases(0)
	if resp, _ := r.get("hello.localhost", "/"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	until(t, "the report of a good request after it", func() bool { return w.saw("hello-a")[0] == 1 })
	if got := w.saw("hello-a"); got != [3]uint32{1, 2, 0} {
		t.Errorf("reported are ok, failed, refused %v", got)
	}
}
