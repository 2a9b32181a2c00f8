package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate is a backend that holds every request until it is let go.
type gate struct {
	in   chan string // the path of each request that arrived
	open chan struct{}
	cut  chan string // the path of each request that was cancelled
}

func newGate() *gate {
	return &gate{in: make(chan string, 100), open: make(chan struct{}), cut: make(chan string, 100)}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if _, err := io.Copy(io.Discard, q.Body); err != nil {
		g.cut <- q.URL.Path
		return
	}
	g.in <- q.URL.Path
	select {
	case <-g.open:
		fmt.Fprint(w, "ok")
	case <-q.Context().Done():
		g.cut <- q.URL.Path
	}
}

// later sends a request from a goroutine of its own; the answer comes by the channel.
func (r *rig) later(ctx context.Context, q *http.Request) <-chan string {
	out := make(chan string, 1)
	go func() {
		resp, err := r.client.Do(q.WithContext(ctx))
		if err != nil {
			out <- "error: " + err.Error()
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			out <- "cut: " + err.Error()
			return
		}
		out <- fmt.Sprintf("%d %s", resp.StatusCode, b)
	}()
	return out
}

func TestACallerThatHangsUpLeavesTheQueueAndIsCancelledAtTheInstance(t *testing.T) {
	r := newRig(t)
	g := newGate()
	r.serve("hello", 1, g)
	leased, hangUp := context.WithCancel(t.Context())
	first := r.later(leased, r.request("GET", "hello.localhost", "/first", nil))
	<-g.in
	queued, leave := context.WithCancel(t.Context())
	second := r.later(queued, r.request("GET", "hello.localhost", "/second", nil))
	r.waiting(1)
	leave()
	<-second
	r.waiting(0)
	third := r.later(t.Context(), r.request("GET", "hello.localhost", "/third", nil))
	r.waiting(1)
	hangUp()
	<-first
	if got := <-g.cut; got != "/first" {
		t.Errorf("%s was cancelled at the instance, want /first", got)
	}
	if got := <-g.in; got != "/third" {
		t.Errorf("the free credit went to %s, want /third", got)
	}
	close(g.open)
	if got := <-third; got != "200 ok" {
		t.Errorf("the third was answered %q", got)
	}
}

// The server notices nothing while a body is unread; the gateway looks itself.
// (What cannot be noticed is a caller whose kernel still holds more than the
// gateway's will take: its end has not been sent.)
func TestACallerThatHangsUpAmidALargeBodyLeavesTheQueue(t *testing.T) {
	for _, head := range []string{
		"Content-Length: 10000000", "Transfer-Encoding: chunked", "Content-Length: 100000\r\nExpect: 100-continue",
	} {
		r := newRig(t)
		r.serve("hello", 0, newGate())
		c, err := net.Dial("tcp", r.g.PublicAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: hello.localhost\r\n%s\r\n\r\n", head)
		if strings.HasPrefix(head, "Content-Length: 1000000") {
			if _, err := c.Write(make([]byte, 90_000)); err != nil {
				t.Fatal(err)
			}
		}
		r.waiting(1)
		c.Close()
		r.waiting(0)
	}
}

func TestAFullQueueIsAnswered503WithRetryAfter(t *testing.T) {
	r := newRig(t)
	g := newGate()
	h := r.serve("hello", 1, g)
	ro := route("hello", 1)
	ro.Limits.MaxWaiting = 2
	r.tables.publish(2, ro)
	var answers []<-chan string
	answers = append(answers, r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil)))
	<-g.in
	for range 2 {
		answers = append(answers, r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil)))
	}
	r.waiting(2)
	h.await("the demand", func() bool { return h.demand["hello-00001"] == 2 })
	resp, body := r.get("hello.localhost", "/")
	wantAnswer(t, resp, body, 503, "full", "service hello, group hello-00001")
	if resp.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
	}
	close(g.open)
	for _, a := range answers {
		if got := <-a; got != "200 ok" {
			t.Errorf("one that waited was answered %q", got)
		}
	}
	h.await("the demand's end", func() bool { return h.demand["hello-00001"] == 0 })
}

func TestAGroupThatNobodyPollsIsAnswered504AtTheDeadline(t *testing.T) {
	r := newRig(t)
	ro := route("hello", 1)
	ro.Limits.FirstByte = 50 * time.Millisecond
	r.tables.publish(1, ro)
	began := time.Now()
	resp, body := r.get("hello.localhost", "/")
	wantAnswer(t, resp, body, 504, "deadline", "service hello, group hello-00001", "no instance was free within 50ms")
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("answered after %s, before the deadline", took)
	}
}

func TestTimeInTheQueueCountsTowardTheFirstByte(t *testing.T) {
	r := newRig(t)
	g := newGate()
	h := r.serve("hello", 0, g)
	ro := route("hello", 1)
	ro.Limits.FirstByte = 300 * time.Millisecond
	r.tables.publish(2, ro)
	began := time.Now()
	answer := r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil))
	r.waiting(1)
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(g)}, 1)
	<-g.in
	if got := <-answer; !strings.HasPrefix(got, "504 ") || !strings.Contains(got, "sent no byte of a response within 300ms") {
		t.Errorf("answered %q", got)
	}
	if took := time.Since(began); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("answered after %s", took)
	}
	<-g.cut // the fence
	r.leases(0)
}

func TestWhatWaitsFollowsTheTable(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 0, answerWith("one"))
	h := r.host("h2")
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00002", Address: r.backend(answerWith("two"))}, 2)
	h.synced()
	var answers []<-chan string
	for range 20 {
		answers = append(answers, r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil)))
	}
	r.waiting(20)
	r.tables.publish(2, route("hello", 2))
	for _, a := range answers {
		if got := <-a; got != "200 two" {
			t.Errorf("one that waited was answered %q", got)
		}
	}
}

func TestHundredsThatWaitAreAllAnsweredOnce(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 3, answerWith("ok"))
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			if got := <-r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil)); got != "200 ok" {
				t.Errorf("answered %q", got)
			}
		})
	}
	wg.Wait()
	r.leases(0)
	r.waiting(0)
}

func TestABodyThatDoesNotComeTakesNoLease(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, answerWith("ok"))
	ro := route("hello", 1)
	ro.Limits.FirstByte = 100 * time.Millisecond
	r.tables.publish(2, ro)
	c, err := net.Dial("tcp", r.g.PublicAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 10\r\n\r\nhalf")
	b, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 408 ") || !strings.Contains(string(b), "did not come within 100ms") {
		t.Errorf("answered %q, %v", b, err)
	}
	if n := r.metric("fairlead_gateway_requests_total", "service", "hello", "code", "2xx"); n != 0 {
		t.Errorf("%v requests reached the instance", n)
	}
}
