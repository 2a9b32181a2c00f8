package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const chunkedPost = "POST / HTTP/1.1\r\nHost: hello.localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

// caller sends text as it stands over a connection of its own.
func (r *rig) caller(text string) *net.TCPConn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.g.PublicAddr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	say(r.t, c, text)
	return c.(*net.TCPConn)
}

func say(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// hear reads one answer, which has to come long before the time to a
// response's first byte is over.
func hear(t testing.TB, c net.Conn) (*http.Response, string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// one offers one instance that handles each connection by f.
func (r *rig) one(credits int, f func(net.Conn)) {
	r.t.Helper()
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.raw(f)}, credits)
	r.tables.publish(1, route("hello", 1))
	h.synced()
}

var badBodies = map[string]string{
	"a prefix in a chunk's length": "0x3\r\n",
	"no number":                    "ZZ\r\n",
	"a length too large":           "fffffffffffffffff\r\n",
	"a chunk longer than it says":  "1\r\nabc\r\n",
	"no trailers":                  "0\r\nno trailer\r\n\r\n",
}

func TestABodyThatFailsIsAnswered400AtOnceAndItsCreditIsBack(t *testing.T) {
	for name, bad := range badBodies {
		for _, moment := range []string{"with the head", "after a part", "as it is asked for"} {
			t.Run(name+" "+moment, func(t *testing.T) {
				r := newRig(t)
				seen := make(chan struct{}, 1)
				r.one(1, func(c net.Conn) {
					br := bufio.NewReader(c)
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if q.Header.Get("Expect") != "" {
						fmt.Fprint(c, "HTTP/1.1 100 Continue\r\n\r\n")
					}
					if _, err := io.CopyN(io.Discard, q.Body, 1); err == nil {
						seen <- struct{}{}
					}
					io.Copy(io.Discard, br) // and says nothing
				})
				var c net.Conn
				switch moment {
				case "with the head":
					c = r.caller(chunkedPost + bad)
				case "after a part":
					c = r.caller(chunkedPost + "1\r\na\r\n")
					<-seen
					say(t, c, bad)
				default:
					c = r.caller(strings.Replace(chunkedPost, "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1))
					if line, err := bufio.NewReaderSize(io.LimitReader(c, 25), 25).ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
						t.Fatalf("read %q, %v", line, err)
					}
					say(t, c, bad)
				}
				resp, body := hear(t, c)
				wantAnswer(t, resp, body, 400, "bad-request", "the body of the request could not be read")
				if !resp.Close {
					t.Error("the connection is kept, out of step")
				}
				r.leases(0)
			})
		}
	}
}

func TestABodyThatFailsInTheQueueIsAnswered400AtOnce(t *testing.T) {
	r := newRig(t)
	g := newGate()
	r.serve("hello", 1, g)
	first := r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil))
	<-g.in
	c := r.caller(chunkedPost + "1\r\na\r\n")
	r.waiting(1)
	say(t, c, "ZZ\r\n")
	resp, body := hear(t, c)
	wantAnswer(t, resp, body, 400, "bad-request")
	r.waiting(0)
	close(g.open)
	<-first
	r.leases(0)
}

func TestABodyThatFailsWhileItIsAnsweredCutsTheAnswerOff(t *testing.T) {
	r := newRig(t)
	r.one(1, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			io.Copy(io.Discard, c)
		}
	})
	c := r.caller(chunkedPost + "1\r\na\r\n")
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	say(t, c, "ZZ\r\n")
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the caller took %q for the whole", b)
	}
	r.leases(0)
}

func TestCallersWhoSendNoBodyAndGoDoNotBlockAService(t *testing.T) {
	r := newRig(t)
	r.one(3, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if q.Method == "GET" {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			}
			io.Copy(io.Discard, br)
		}
	})
	for _, bad := range badBodies {
		for range 10 {
			r.caller(chunkedPost + bad).Close()
		}
	}
	if got := <-r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil)); got != "200 ok" {
		t.Errorf("answered %q", got)
	}
	r.leases(0)
}

// Nobody reads the caller's connection while the instance takes its time.
func TestACallerThatHangsUpAmidAnUploadThatIsNotTakenFreesItsCredit(t *testing.T) {
	r := newRig(t)
	r.one(1, func(c net.Conn) {
		if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err == nil {
			<-r.t.Context().Done()
		}
	})
	c := r.caller("POST / HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 1000000000\r\n\r\n")
	r.leases(1)
	stuck := time.Now()
	for time.Since(stuck) < 20*time.Second { // until nothing is taken for a while
		if err := c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(c, anything{}, 1<<20); err != nil {
			break
		}
	}
	if err := c.SetLinger(0); err != nil { // a reset: an end in order would wait behind what is not taken
		t.Fatal(err)
	}
	c.Close()
	r.leases(0)
}

// What follows an answer that came before the body was read is body, however
// much it looks like a request.
func TestTheRestOfABodyIsNeverTakenForARequest(t *testing.T) {
	const inside = "GET /inside HTTP/1.1\r\nHost: hello.localhost\r\n\r\n"
	for name, q := range map[string][2]string{
		"of a length":       {"POST / HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 100000\r\n\r\nx", inside + inside},
		"chunked":           {chunkedPost + "1\r\nx\r\n", inside + inside},
		"a bad chunk":       {chunkedPost + "1\r\nx\r\n", "ZZ\r\n" + inside},
		"sent all at once":  {chunkedPost + "1\r\nx\r\nZZ\r\n" + inside, inside},
		"with the head too": {"POST / HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 100000\r\n\r\n" + inside, inside},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var smuggled atomic.Int32
			r.one(5, func(c net.Conn) {
				br := bufio.NewReader(c)
				for {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if q.URL.Path == "/inside" {
						smuggled.Add(1)
					}
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					if q.Method == "POST" {
						io.Copy(io.Discard, br) // the answer came before the body
					}
				}
			})
			c := r.caller(q[0])
			if resp, body := hear(t, c); resp.StatusCode == 200 && body != "ok" {
				t.Errorf("answered %d %q", resp.StatusCode, body)
			}
			r.leases(0)
			_, _ = io.WriteString(c, q[1]) // fails where the connection is closed already, which is as good
			if b, err := io.ReadAll(c); strings.Contains(string(b), "200 OK") {
				t.Errorf("then came %q, %v", b, err)
			}
			if n := smuggled.Load(); n > 0 {
				t.Errorf("the instance was sent %d requests from within a body", n)
			}
		})
	}
}

func TestATrailerThatBelongsInAHeadIsNotPassedOn(t *testing.T) {
	got := make(chan http.Header, 1)
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // its end is looked at by its trailers
		got <- q.Trailer
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
		w.Header().Set(http.TrailerPrefix+"Set-Cookie", "a=b")
		w.Header().Set(http.TrailerPrefix+"Content-Type", "text/html")
		fmt.Fprint(w, "ok")
	}))
	c := r.caller("POST / HTTP/1.1\r\nHost: hello.localhost\r\nTransfer-Encoding: chunked\r\n" +
		"Connection: X-Hop\r\nTrailer: X-Sum, Authorization, X-Hop\r\n\r\n1\r\nx\r\n0\r\n" +
		"X-Sum: 42\r\nAuthorization: declared\r\nX-Hop: declared\r\nX-Undeclared: 1\r\n" +
		"Connection: close\r\nTransfer-Encoding: chunked\r\nHost: other\r\nX-Forwarded-For: 10.0.0.1\r\nX-Request-Id: theirs\r\nContent-Length: 5\r\nCookie: a\r\n\r\n")
	resp, body := hear(t, c)
	if want := (http.Header{"X-Sum": {"42"}, "X-Undeclared": {"1"}}); !reflect.DeepEqual(<-got, want) {
		t.Errorf("the instance was given other trailers than %v", want)
	}
	if body != "ok" || len(resp.Trailer) != 1 || resp.Trailer.Get("X-Late") != "2" {
		t.Errorf("answered %q with trailers %v", body, resp.Trailer)
	}
}
