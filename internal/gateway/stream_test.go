package gateway_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead-platform/fairlead/internal/gateway"
)

// bytesOf is a body of n bytes that follow from their position.
type bytesOf struct{ at, n int64 }

func (b *bytesOf) Read(p []byte) (int, error) {
	if b.at >= b.n {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), b.n-b.at)]
	for i := range p {
		p[i] = byte((b.at + int64(i)) >> 10)
	}
	b.at += int64(len(p))
	return len(p), nil
}

func sumOf(n int64) string {
	h := sha256.New()
	io.Copy(h, &bytesOf{n: n})
	return fmt.Sprintf("%x", h.Sum(nil))
}

// peakHeap watches the heap until stop, which returns its greatest growth.
func peakHeap() (stop func() uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, peak := m.HeapInuse, uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				if m.HeapInuse > base {
					peak = max(peak, m.HeapInuse-base)
				}
			}
		}
	}()
	return func() uint64 {
		close(done)
		<-ended
		return peak
	}
}

// anything is a body of no particular content, which costs nothing to make.
type anything struct{}

func (anything) Read(p []byte) (int, error) { return len(p), nil }

func TestAGibibyteBothWaysTakesConstantMemory(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		size := int64(1 << 30)
		if chunked {
			size >>= 2 // as far as memory goes it shows as much, sooner
		}
		t.Run(fmt.Sprintf("chunked=%v", chunked), func(t *testing.T) {
			r := newRig(t)
			r.serve("hello", 2, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.Method == "PUT" {
					n, err := io.Copy(io.Discard, q.Body)
					fmt.Fprintf(w, "%d %v", n, err)
					return
				}
				if !chunked {
					w.Header().Set("Content-Length", fmt.Sprint(size))
				}
				io.Copy(w, io.LimitReader(anything{}, size))
			}))
			peak := peakHeap()
			q := r.request("PUT", "hello.localhost", "/", io.LimitReader(anything{}, size))
			if !chunked {
				q.ContentLength = size
			}
			if _, body := r.do(q); body != fmt.Sprintf("%d <nil>", size) {
				t.Errorf("the instance got %s", body)
			}
			resp, err := r.client.Do(r.request("GET", "hello.localhost", "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
				t.Errorf("the caller got %d bytes, %v", n, err)
			}
			if p := peak(); p > 16<<20 {
				t.Errorf("the heap grew by %d MiB", p>>20)
			}
		})
	}
}

func TestBodiesArriveUnchanged(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 4, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h := sha256.New()
		if _, err := io.Copy(h, q.Body); err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Sum", fmt.Sprintf("%x", h.Sum(nil)))
		var n int64
		fmt.Sscan(q.URL.Query().Get("n"), &n)
		if q.URL.Path == "/length" {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		io.Copy(w, &bytesOf{n: n})
	}))
	for _, n := range []int64{0, 1, 4095, 4096, 5000, 65535, 65536, 65537, 100_000, 3_000_000} {
		for _, path := range []string{"/length", "/chunked"} {
			q := r.request("POST", "hello.localhost", fmt.Sprintf("%s?n=%d", path, n), &bytesOf{n: n})
			if path == "/length" {
				q.ContentLength = n
			}
			resp, body := r.do(q)
			if resp.Header.Get("X-Sum") != sumOf(n) {
				t.Errorf("%s of %d bytes arrived changed at the instance", path, n)
			}
			if got := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); got != sumOf(n) {
				t.Errorf("%s of %d bytes arrived changed at the caller (%d bytes)", path, n, len(body))
			}
		}
	}
	r.leases(0)
}

func TestBothDirectionsStreamAtOnce(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(200)
		rc.Flush()
		br := bufio.NewReader(q.Body)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprint(w, "echo "+line)
			rc.Flush()
		}
	}))
	pr, pw := io.Pipe()
	resp, err := r.client.Do(r.request("POST", "hello.localhost", "/", pr))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	for i := range 100 {
		fmt.Fprintf(pw, "line %d\n", i)
		line, err := br.ReadString('\n')
		if want := fmt.Sprintf("echo line %d\n", i); line != want || err != nil {
			t.Fatalf("read %q, %v, want %q", line, err, want)
		}
	}
	pw.Close()
	if rest, err := io.ReadAll(br); len(rest) > 0 || err != nil {
		t.Errorf("the end came with %q, %v", rest, err)
	}
	r.leases(0)
}

func TestWhatStreamsIsSentOnAtOnce(t *testing.T) {
	for name, head := range map[string]string{
		"events":         "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
		"unknown length": "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
		"known length":   "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n",
		"http/1.0":       "HTTP/1.0 200 OK\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			more := make(chan struct{})
			h := r.host("h1")
			h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.raw(func(c net.Conn) {
				if _, err := readRequest(bufio.NewReader(c)); err != nil {
					return
				}
				fmt.Fprint(c, head)
				for range 3 {
					if name == "events" {
						fmt.Fprint(c, "a\r\n0123456789\r\n")
					} else {
						fmt.Fprint(c, "0123456789")
					}
					<-more
				}
				if name == "events" {
					fmt.Fprint(c, "0\r\n\r\n")
				}
			})}, 1)
			r.tables.publish(1, route("hello", 1))
			h.synced()
			resp, err := r.client.Do(r.request("GET", "hello.localhost", "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for range 3 {
				b := make([]byte, 10)
				if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "0123456789" {
					t.Fatalf("read %q, %v", b, err)
				}
				more <- struct{}{}
			}
			if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
				t.Errorf("the end came with %q, %v", rest, err)
			}
			r.leases(0)
		})
	}
}

func TestAResponseMayStreamLongerThanTheFirstBytesDeadline(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		<-time.After(300 * time.Millisecond) // the passing of time is what is tested
		fmt.Fprint(w, "late")
	}))
	ro := route("hello", 1)
	ro.Limits.FirstByte = 100 * time.Millisecond
	r.tables.publish(2, ro)
	if resp, body := r.get("hello.localhost", "/"); resp.StatusCode != 200 || body != "late" {
		t.Errorf("answered %d %q", resp.StatusCode, body)
	}
}

func TestAnUploadThatTakesLongerThanTheDeadlineIsNoFailure(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n, err := io.Copy(io.Discard, q.Body)
		fmt.Fprint(w, n, err)
	}))
	ro := route("hello", 1)
	ro.Limits.FirstByte = 400 * time.Millisecond
	r.tables.publish(2, ro)
	pr, pw := io.Pipe()
	answer := r.later(t.Context(), r.request("POST", "hello.localhost", "/", pr))
	for range 10 {
		fmt.Fprint(pw, "x")
		<-time.After(100 * time.Millisecond) // the passing of time is what is tested
	}
	pw.Close()
	if got := <-answer; got != "200 10 <nil>" {
		t.Errorf("answered %q", got)
	}
}

func TestExpectContinueIsPassedOn(t *testing.T) {
	var asked atomic.Int32
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Expect") != "100-continue" {
			t.Errorf("the instance saw Expect: %q", q.Header.Get("Expect"))
		}
		if q.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		b, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "got %d", len(b))
	}))
	tr := &http.Transport{ExpectContinueTimeout: 20 * time.Second}
	defer tr.CloseIdleConnections()
	r.client = &http.Client{Transport: tr}
	for _, path := range []string{"/yes", "/no"} {
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { asked.Add(1) }})
		q := r.request("PUT", "hello.localhost", path, &bytesOf{n: 300_000}).WithContext(trace)
		q.Header.Set("Expect", "100-continue")
		q.ContentLength = 300_000
		resp, body := r.do(q)
		if path == "/no" && resp.StatusCode != 403 || path == "/yes" && body != "got 300000" {
			t.Errorf("%s was answered %d %q", path, resp.StatusCode, body)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the body was asked for %d times, want once", n)
	}
}

func TestAnInstanceThatIgnoresExpectIsSentTheBodyAfterASecond(t *testing.T) {
	r := newRig(t)
	r.pair(func(c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
		}
	})
	q := r.request("POST", "hello.localhost", "/", strings.NewReader("0123456789"))
	q.Header.Set("Expect", "100-continue")
	if resp, body := r.do(q); resp.StatusCode != 200 || body != "a" {
		t.Errorf("answered %d %q", resp.StatusCode, body)
	}
}

func TestEarlyHintsAreForwarded(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		fmt.Fprint(w, "ok")
	}))
	var hints []string
	trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h.Get("Link")))
		return nil
	}})
	resp, body := r.do(r.request("GET", "hello.localhost", "/", nil).WithContext(trace))
	if body != "ok" || resp.Header.Get("Link") != "" || len(hints) != 1 || hints[0] != "103</style.css>" {
		t.Errorf("answered %q, link %q, hints %q", body, resp.Header.Get("Link"), hints)
	}
}

func TestTrailersAreForwardedBothWays(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		w.Header().Set("Trailer", "X-Declared")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Declared", q.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
	}))
	q := r.request("POST", "hello.localhost", "/", io.MultiReader(strings.NewReader("x")))
	q.Trailer = http.Header{"X-Sum": {"42"}}
	resp, body := r.do(q)
	if body != "body" || resp.Trailer.Get("X-Declared") != "42" || resp.Trailer.Get("X-Late") != "2" {
		t.Errorf("answered %q with trailers %v", body, resp.Trailer)
	}
}

func TestAReaderThatIsSlowGetsEverythingAndHoldsNobodyUp(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 2, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/big" {
			io.Copy(w, &bytesOf{n: 20 << 20})
		}
	}))
	resp, err := r.client.Do(r.request("GET", "hello.localhost", "/big", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 50 {
		if q, _ := r.get("hello.localhost", "/small"); q.StatusCode != 200 {
			t.Fatalf("answered %d", q.StatusCode)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != 20<<20-50_000 || err != nil {
		t.Errorf("the rest had %d bytes, %v", n, err)
	}
	r.leases(0)
}

func webSocketEcho(w http.ResponseWriter, q *http.Request) {
	c, err := websocket.Accept(w, q, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, b, err := c.Read(q.Context())
		if err != nil {
			return
		}
		if string(b) == "bye" {
			c.Close(websocket.StatusGoingAway, "as asked")
			return
		}
		if err := c.Write(q.Context(), kind, b); err != nil {
			return
		}
	}
}

func dialSocket(t *testing.T, r *rig) *websocket.Conn {
	t.Helper()
	c, resp, err := websocket.Dial(t.Context(), r.url+"/socket", &websocket.DialOptions{Host: "hello.localhost", HTTPClient: r.client})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Fairlead-Revision") != "hello-00001" {
		t.Errorf("switched by %q", resp.Header.Get("Fairlead-Revision"))
	}
	return c
}

func TestAWebSocketIsALeaseUntilItEnds(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 2, http.HandlerFunc(webSocketEcho))
	c := dialSocket(t, r)
	for i := range 20 {
		want := strings.Repeat(fmt.Sprint(i), 1+i*500)
		if err := c.Write(t.Context(), websocket.MessageText, []byte(want)); err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(1 << 20)
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != want {
			t.Fatalf("read %d bytes, %v, want %d", len(got), err, len(want))
		}
	}
	r.leases(1)
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("closed with %v", err)
	}
	r.leases(0)

	c = dialSocket(t, r)
	if err := c.Write(t.Context(), websocket.MessageText, []byte("bye")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the instance closed with %v", err)
	}
	r.leases(0)

	c = dialSocket(t, r)
	c.CloseNow() // the caller is gone without a word
	r.leases(0)
}

// The instance speaks first, when the time to the first byte is long over.
func TestAWebSocketOutlivesTheTimeToTheFirstByte(t *testing.T) {
	r := newRig(t)
	const limit = 300 * time.Millisecond
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		c, err := websocket.Accept(w, q, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		<-time.After(2 * limit)
		if c.Write(q.Context(), websocket.MessageText, []byte("late")) != nil {
			return
		}
		kind, b, err := c.Read(q.Context())
		if err == nil {
			err = c.Write(q.Context(), kind, b)
		}
		if err != nil {
			t.Errorf("the instance lost the socket: %v", err)
		}
	}))
	ro := route("hello", 1)
	ro.Limits.FirstByte = limit
	r.tables.publish(2, ro)
	c := dialSocket(t, r)
	defer c.CloseNow()
	for _, want := range []string{"late", "echoed"} {
		if want == "echoed" {
			if err := c.Write(t.Context(), websocket.MessageText, []byte(want)); err != nil {
				t.Fatal(err)
			}
		}
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != want {
			t.Fatalf("read %q, %v, want %q", got, err, want)
		}
	}
}

func TestAnUpgradeEndsWithItsInstanceAndWithTheGateway(t *testing.T) {
	r := newRig(t, func(c *gateway.Config) { c.Drain = 50 * time.Millisecond })
	h := r.serve("hello", 2, http.HandlerFunc(webSocketEcho))
	c := dialSocket(t, r)
	defer c.CloseNow()
	h.gone("hello-a")
	h.await("the end", func() bool { return h.ended["hello-a"] })
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Error("the socket outlived its instance")
	}
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(http.HandlerFunc(webSocketEcho))}, 2)
	h.barrier()
	c = dialSocket(t, r)
	defer c.CloseNow()
	r.stop()
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Error("the socket outlived the gateway")
	}
}

func TestARefusedUpgradeIsAnOrdinaryAnswer(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.WriteHeader(http.StatusUpgradeRequired)
		fmt.Fprint(w, q.Header.Get("Upgrade")+" "+q.Header.Get("Connection"))
	}))
	q := r.request("GET", "hello.localhost", "/", nil)
	q.Header.Set("Connection", "keep-alive, Upgrade")
	q.Header.Set("Upgrade", "other")
	if resp, body := r.do(q); resp.StatusCode != 426 || body != "other Upgrade" {
		t.Errorf("answered %d %q", resp.StatusCode, body)
	}
}

func TestAnAnswerBeforeTheBodyIsReadReachesTheCaller(t *testing.T) {
	r := newRig(t)
	r.pair(func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")
		io.CopyN(io.Discard, c, 1<<20) // a while longer, so that the answer is not reset away
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q := r.request("POST", "hello.localhost", "/", io.LimitReader(&bytesOf{n: 1 << 40}, 1<<30)).WithContext(ctx)
	q.ContentLength = 1 << 30
	resp, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("answered %d", resp.StatusCode)
	}
	r.leases(0)
}

// The instance neither reads the body nor closes the connection.
func TestAnInstanceThatAnswersWithoutReadingHoldsNobodyUp(t *testing.T) {
	r := newRig(t)
	r.pair(func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
		<-r.t.Context().Done()
	})
	pr, pw := io.Pipe()
	go func() {
		_, err := io.Copy(pw, &bytesOf{n: 1 << 30})
		pw.CloseWithError(err)
	}()
	resp, err := r.client.Do(r.request("POST", "hello.localhost", "/", pr))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != "a" || err != nil {
		t.Errorf("answered %d %q, %v", resp.StatusCode, b, err)
	}
	r.leases(0)
	pr.Close()
}
