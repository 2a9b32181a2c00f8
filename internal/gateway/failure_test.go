package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairlead-platform/fairlead/view"
)

// readRequest reads one request off a raw connection, body included.
func readRequest(br *bufio.Reader) (*http.Request, error) {
	q, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, q.Body)
	return q, err
}

// dropper takes a request and closes without an answer.
func dropper(seen *atomic.Int32) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			seen.Add(1)
		}
	}
}

// pair offers an instance that fails by f, chosen first, and a good one.
func (r *rig) pair(f func(net.Conn), change ...func(*view.Route)) *fakeHost {
	r.t.Helper()
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.raw(f)}, 5)
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "b got %d bytes", len(b))
	}))}, 1)
	ro := route("hello", 1)
	for _, f := range change {
		f(&ro)
	}
	r.tables.publish(1, ro)
	h.synced()
	return h
}

func TestADeadInstancesIdempotentRequestsAreSentAgainAndOthersAreTold502(t *testing.T) {
	for _, c := range []struct {
		method string
		body   int
		again  bool
	}{
		{"GET", 0, true},
		{"OPTIONS", 0, true},
		{"DELETE", 0, true},
		{"PUT", 60_000, true},
		{"PUT", 200_000, false},
		{"POST", 10, false},
		{"PATCH", 0, false},
	} {
		t.Run(fmt.Sprintf("%s with %d bytes", c.method, c.body), func(t *testing.T) {
			r := newRig(t)
			var seen atomic.Int32
			r.pair(dropper(&seen))
			resp, body := r.do(r.request(c.method, "hello.localhost", "/", strings.NewReader(strings.Repeat("x", c.body))))
			if n := seen.Load(); n != 1 {
				t.Errorf("the failing instance saw %d requests", n)
			}
			if c.again {
				if want := fmt.Sprintf("b got %d bytes", c.body); resp.StatusCode != 200 || body != want {
					t.Errorf("answered %d %q, want %q", resp.StatusCode, body, want)
				}
				if n := r.metric("fairlead_gateway_resends_total"); n != 1 {
					t.Errorf("%v resends are counted", n)
				}
			} else {
				wantAnswer(t, resp, body, 502, "instance-failed", "service hello, group hello-00001, revision hello-00001: instance a", "may have been executed")
			}
			r.leases(0)
		})
	}
}

func TestAServiceMayDeclareAllItsMethodsIdempotent(t *testing.T) {
	r := newRig(t)
	var seen atomic.Int32
	r.pair(dropper(&seen), func(ro *view.Route) { ro.Limits.Idempotent = true })
	resp, body := r.do(r.request("POST", "hello.localhost", "/", strings.NewReader("0123456789")))
	if resp.StatusCode != 200 || body != "b got 10 bytes" {
		t.Errorf("answered %d %q", resp.StatusCode, body)
	}
}

func TestARequestIsSentAgainTwiceAtMost(t *testing.T) {
	r := newRig(t)
	var seen atomic.Int32
	h := r.host("h1")
	for _, id := range []string{"a", "b", "c", "d"} {
		h.offer(instance{ID: id, Service: "hello", Revision: "hello-00001", Address: r.raw(dropper(&seen))}, 1)
	}
	r.tables.publish(1, route("hello", 1))
	h.synced()
	resp, body := r.get("hello.localhost", "/")
	wantAnswer(t, resp, body, 502, "instance-failed", "and so did others before it")
	if n := seen.Load(); n != 3 {
		t.Errorf("the request was sent %d times", n)
	}
}

func TestARequestOutlivesAnyNumberOfInstancesThatDiedAtOnce(t *testing.T) {
	r := newRig(t)
	h := r.host("h1")
	for i := range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		h.offer(instance{ID: fmt.Sprintf("dead%d", i), Service: "hello", Revision: "hello-00001", Address: l.Addr().String()}, 100)
	}
	r.tables.publish(1, route("hello", 1))
	h.synced()
	answered := make(chan string, 1)
	go func() {
		resp, body := r.do(r.request("POST", "hello.localhost", "/", strings.NewReader("x")))
		answered <- fmt.Sprint(resp.StatusCode, " ", body)
	}()
	h.await("all refusals", func() bool { return len(h.refused) == 20 })
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(answerWith("b"))}, 1)
	if a := <-answered; a != "200 b" {
		t.Errorf("answered %s", a)
	}
}

func TestARequestOfWhichNothingWasSentIsNotSpentOnInstancesThatCannotBeReached(t *testing.T) {
	r := newRig(t)
	h := r.host("h1")
	for i := range 6 { // a group address, to which nothing connects
		h.offer(instance{ID: fmt.Sprintf("away%d", i), Service: "hello", Revision: "hello-00001", Address: "224.0.0.1:9"}, 1)
	}
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(answerWith("b"))}, 1)
	r.tables.publish(1, route("hello", 1))
	h.synced()
	for range 10 {
		if resp, body := r.do(r.request("POST", "hello.localhost", "/", strings.NewReader("x"))); resp.StatusCode != 200 || body != "b" {
			t.Fatalf("answered %d %q", resp.StatusCode, body)
		}
	}
}

func TestARefusedConnectionEndsTheInstanceAndNoRequest(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: addr}, 5)
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(answerWith("b"))}, 1)
	r.tables.publish(1, route("hello", 1))
	h.synced()
	for range 10 {
		resp, body := r.do(r.request("POST", "hello.localhost", "/", strings.NewReader("x")))
		if resp.StatusCode != 200 || body != "b" {
			t.Fatalf("answered %d %q", resp.StatusCode, body)
		}
	}
	h.await("the refusal", func() bool { return h.refused["a"] == 5 })
	if n := r.metric("fairlead_gateway_credits"); n != 1 {
		t.Errorf("%v credits are left, want those of b", n)
	}
	// Offered again, it is used again.
	l, err = net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: answerWith("a")}
	go s.Serve(l)
	defer s.Close()
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: addr}, 5)
	h.barrier()
	until(t, "a is used again", func() bool {
		_, body := r.get("hello.localhost", "/")
		return body == "a"
	})
}

// A connection that its server has closed is found out before anything is
// written to it, so that not even a POST is lost.
func TestAConnectionClosedWhileIdleIsNotUsed(t *testing.T) {
	r := newRig(t)
	closed := make(chan struct{}, 1)
	var conns atomic.Int32
	r.pair(func(c net.Conn) {
		conns.Add(1)
		if _, err := readRequest(bufio.NewReader(c)); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
		c.Close()
		closed <- struct{}{}
	})
	for range 50 {
		resp, body := r.do(r.request("POST", "hello.localhost", "/", strings.NewReader("x")))
		if resp.StatusCode != 200 {
			t.Fatalf("answered %d %q", resp.StatusCode, body)
		}
		if body == "a" {
			<-closed
		}
	}
	if conns.Load() < 2 {
		t.Errorf("%d connections were made", conns.Load())
	}
}

func TestConnectionsAreReused(t *testing.T) {
	r := newRig(t)
	var conns atomic.Int32
	r.pair(func(c net.Conn) {
		conns.Add(1)
		br := bufio.NewReader(c)
		for {
			q, err := readRequest(br)
			if err != nil {
				return
			}
			switch q.URL.Path {
			case "/chunked":
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")
			case "/none":
				fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
			case "/same":
				fmt.Fprint(c, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n")
			default:
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
				if q.Method != "HEAD" {
					fmt.Fprint(c, "a")
				}
			}
		}
	})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/", ""},
		{"HEAD", "/", ""},
		{"GET", "/chunked", ""},
		{"GET", "/none", ""},
		{"GET", "/same", ""},
		{"POST", "/", "x"},
		{"GET", "/", ""},
		{"HEAD", "/", ""},
		{"GET", "/chunked", ""},
	} {
		resp, _ := r.do(r.request(c.method, "hello.localhost", c.path, strings.NewReader(c.body)))
		if resp.StatusCode >= 400 {
			t.Errorf("%s %s was answered %d", c.method, c.path, resp.StatusCode)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections were made, want one", n)
	}
}

func TestWhatIsNotHTTPIsAnswered502(t *testing.T) {
	for name, answer := range map[string]string{
		"another protocol":   "SSH-2.0-OpenSSH_9.2\r\n",
		"two lengths":        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"a bad length":       "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"an unknown coding":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"a header as big":    "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 300_000) + "\r\n\r\n",
		"an endless status":  "HTTP/1.1 200 " + strings.Repeat("x", 10_000) + "\r\n\r\n",
		"an unasked upgrade": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pair(func(c net.Conn) {
				if _, err := readRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, answer)
				}
			})
			resp, body := r.get("hello.localhost", "/")
			wantAnswer(t, resp, body, 502, "bad-response", "revision hello-00001")
			r.leases(0)
		})
	}
}

// Half an answer is never taken for a whole one.
func TestAnAnswerThatBreaksOffBreaksOffAtTheCaller(t *testing.T) {
	for name, answer := range map[string]string{
		"by length": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"chunked":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pair(func(c net.Conn) {
				if _, err := readRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, answer)
				}
			})
			resp, err := r.client.Do(r.request("GET", "hello.localhost", "/", nil))
			if err != nil {
				return // cut before the head was sent on: as good
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err == nil {
				t.Errorf("the caller took %q for the whole", b)
			}
			r.leases(0)
		})
	}
}

func TestAnInstanceThatDiesCutsItsExchangesAndIsAcknowledged(t *testing.T) {
	r := newRig(t)
	g := newGate()
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.backend(g)}, 4)
	r.tables.publish(1, route("hello", 1))
	h.synced()
	post := r.later(t.Context(), r.request("POST", "hello.localhost", "/post", strings.NewReader("x")))
	get := r.later(t.Context(), r.request("GET", "hello.localhost", "/get", nil))
	<-g.in
	<-g.in
	h.gone("a")
	h.await("the end", func() bool { return h.ended["a"] })
	if got := <-post; !strings.HasPrefix(got, "502 ") {
		t.Errorf("the POST was answered %q", got)
	}
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(answerWith("b"))}, 1)
	if got := <-get; got != "200 b" {
		t.Errorf("the GET was answered %q", got)
	}
}

func TestARequestWithLengthAndChunksReachesTheInstanceInOneFraming(t *testing.T) {
	r := newRig(t)
	heads := make(chan http.Header, 1)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		heads <- q.Header
		fmt.Fprintf(w, "%q %d %v", b, q.ContentLength, q.TransferEncoding)
	}))
	c, err := net.Dial("tcp", r.g.PublicAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case strings.HasPrefix(string(b), "HTTP/1.1 400"):
	case strings.Contains(string(b), `"hello" -1 [chunked]`):
	default:
		t.Errorf("answered %q", b)
	}
}

func TestRequestHeadersAreBounded(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, answerWith("ok"))
	q := r.request("GET", "hello.localhost", "/", nil)
	q.Header.Set("X-Big", strings.Repeat("x", 50_000))
	if resp, _ := r.do(q); resp.StatusCode != 200 {
		t.Errorf("50 kB of headers were answered %d", resp.StatusCode)
	}
	q.Header.Set("X-Big", strings.Repeat("x", 100_000))
	resp, err := r.client.Do(q)
	if err != nil {
		var op *net.OpError
		if !errors.As(err, &op) {
			t.Fatal(err)
		}
		return // refused while it was still being sent
	}
	resp.Body.Close()
	if resp.StatusCode != 431 {
		t.Errorf("100 kB of headers were answered %d", resp.StatusCode)
	}
}

func TestHeadersOfOneHopStayThere(t *testing.T) {
	r := newRig(t)
	heads := make(chan http.Header, 1)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		heads <- q.Header.Clone()
		w.Header().Set("Connection", "X-Mine")
		w.Header().Set("X-Mine", "1")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Theirs", "2")
		w.Header()["Date"] = []string{"Mon, 02 Jan 2006 15:04:05 GMT"}
	}))
	q := r.request("GET", "hello.localhost", "/", nil)
	for k, v := range map[string]string{
		"Connection": "X-Private, keep-alive", "X-Private": "1", "Keep-Alive": "300", "Proxy-Authorization": "x", "Te": "trailers",
		"X-Public": "2", "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https", "X-Request-Id": "mine",
	} {
		q.Header.Set(k, v)
	}
	resp, _ := r.do(q)
	got := <-heads
	for k, want := range map[string]string{
		"X-Private": "", "Keep-Alive": "", "Proxy-Authorization": "", "X-Public": "2", "Te": "trailers",
		"X-Forwarded-For": "10.0.0.1, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Request-Id": "mine",
	} {
		if got.Get(k) != want {
			t.Errorf("the instance saw %s: %q, want %q", k, got.Get(k), want)
		}
	}
	for k, want := range map[string]string{
		"X-Mine": "", "Keep-Alive": "", "X-Theirs": "2", "Date": "Mon, 02 Jan 2006 15:04:05 GMT", "X-Request-Id": "mine", "Content-Type": "",
	} {
		if resp.Header.Get(k) != want {
			t.Errorf("the caller saw %s: %q, want %q", k, resp.Header.Get(k), want)
		}
	}
}

func TestManyRequestsInFlightOnADeadInstanceAllEnd(t *testing.T) {
	r := newRig(t)
	g := newGate()
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.backend(g)}, 50)
	r.tables.publish(1, route("hello", 1))
	h.synced()
	var wg sync.WaitGroup
	var ok, failed atomic.Int32
	for i := range 50 {
		q := r.request([]string{"GET", "POST"}[i%2], "hello.localhost", "/", nil)
		wg.Go(func() {
			switch got := <-r.later(t.Context(), q); {
			case got == "200 b":
				ok.Add(1)
			case strings.HasPrefix(got, "502"):
				failed.Add(1)
			default:
				t.Errorf("answered %q", got)
			}
		})
	}
	for range 50 {
		<-g.in
	}
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(answerWith("b"))}, 2)
	h.gone("a")
	wg.Wait()
	if ok.Load() != 25 || failed.Load() != 25 {
		t.Errorf("%d were sent again and %d told 502, want 25 and 25", ok.Load(), failed.Load())
	}
}
