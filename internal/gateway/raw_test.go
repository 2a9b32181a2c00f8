package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// said is one thing that a caller says, once what it waits for has come.
type said struct{ after, text string }

const last = "GET /last HTTP/1.1\r\nHost: hello.localhost\r\nConnection: close\r\n\r\n"

// rawCallers are what a caller says on one connection.
var rawCallers = map[string][]said{
	"two requests at once":    {{text: "GET /a HTTP/1.1\r\nHost: hello.localhost\r\n\r\n" + last}},
	"three, one with a body":  {{text: "GET /a HTTP/1.1\r\nHost: hello.localhost\r\n\r\nPOST /b HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 3\r\n\r\nabc" + last}},
	"one while one is slow":   {{text: "GET /early HTTP/1.1\r\nHost: hello.localhost\r\n\r\n"}, {after: "early", text: last}},
	"one after the other":     {{text: "GET /a HTTP/1.1\r\nHost: hello.localhost\r\n\r\n"}, {after: "/a", text: last}},
	"a slow one, then one":    {{text: "GET /slow HTTP/1.1\r\nHost: hello.localhost\r\n\r\n"}, {after: "/slow", text: last}},
	"a byte of the next":      {{text: "GET /slow HTTP/1.1\r\nHost: hello.localhost\r\n\r\nG"}, {after: "/slow", text: last[1:]}},
	"connection: close":       {{text: last}},
	"HTTP/1.0":                {{text: "GET /a HTTP/1.0\r\nHost: hello.localhost\r\n\r\n"}},
	"HTTP/1.0, kept alive":    {{text: "GET /a HTTP/1.0\r\nHost: hello.localhost\r\nConnection: keep-alive\r\n\r\n"}, {after: "/a", text: last}},
	"HEAD":                    {{text: "HEAD /a HTTP/1.1\r\nHost: hello.localhost\r\n\r\n" + last}},
	"a body in chunks":        {{text: "POST /a HTTP/1.1\r\nHost: hello.localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + last}},
	"chunks, one by one":      {{text: "POST /a HTTP/1.1\r\nHost: hello.localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"}, {text: "c\r\n0\r"}, {text: "\n\r\n" + last}},
	"expects to be asked":     {{text: "POST /a HTTP/1.1\r\nHost: hello.localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"}, {after: "100 Continue", text: "abc" + last}},
	"expects, in chunks":      {{text: "POST /a HTTP/1.1\r\nHost: hello.localhost\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"}, {after: "100 Continue", text: "3\r\nabc\r\n0\r\n\r\n" + last}},
	"a large body":            {{text: "POST /a HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("a", 300000) + last}},
	"expects something else":  {{text: "POST /a HTTP/1.1\r\nHost: hello.localhost\r\nExpect: more\r\nContent-Length: 3\r\n\r\nabc"}},
	"what is no second":       {{text: "GET /a HTTP/1.1\r\nHost: hello.localhost\r\n\r\nno request\r\n\r\n"}},
	"a malformed body length": {{text: "POST /a HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: +3\r\n\r\nabc"}},
}

// The gateway keeps the server of net/http from watching its callers. None of
// them may see the difference.
func TestARawCallerIsAnsweredAsByAPlainServer(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		if q.URL.Path == "/early" {
			fmt.Fprint(w, "early ")
			w.(http.Flusher).Flush()
		}
		if q.URL.Path != "/last" && len(q.URL.Path) > 2 { // so slow that its caller is watched
			<-time.After(200 * time.Millisecond)
		}
		fmt.Fprintf(w, "%s %d", q.URL.Path, len(b))
	})
	for name, says := range rawCallers {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.serve("hello", 1, h)
			plain := httptest.NewServer(h)
			defer plain.Close()
			want := transcript(t, plain.Listener.Addr().String(), says)
			if got := transcript(t, r.g.PublicAddr().String(), says); got != want {
				t.Errorf("the gateway answered\n%s\nand a plain server\n%s", got, want)
			}
		})
	}
}

var ofEach = regexp.MustCompile(`(?m)^(Date|X-Request-Id|Fairlead-Revision|Fairlead-Table): .*\r\n`)

// transcript is all that came until the connection ended.
func transcript(t *testing.T, address string, says []said) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, s := range says {
		for buf := make([]byte, 4096); !strings.Contains(all.String(), s.after); {
			n, err := c.Read(buf)
			if all.Write(buf[:n]); err != nil {
				t.Fatalf("%q came, then %v", all.String(), err)
			}
		}
		if _, err := io.WriteString(c, s.text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(&all, c); err != nil {
		t.Fatalf("%q came, then %v", all.String(), err)
	}
	return ofEach.ReplaceAllString(all.String(), "")
}

// counting tells nothing to a read of one byte, as a caller's connection does.
type counting struct {
	net.Conn
	ones *atomic.Int64
}

func (c counting) Read(b []byte) (int, error) {
	if len(b) == 1 {
		c.ones.Add(1)
		return 0, nil
	}
	return c.Conn.Read(b)
}

type countingListener struct {
	net.Listener
	ones *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return counting{c, l.ones}, err
}

// What docs/adr/0009-who-watches-a-caller.md relies on, without the gateway.
func TestTheServerOfThisGoReadsAheadByOneByteOnceAndTakesNothingForGood(t *testing.T) {
	const why = "this Go's server does not watch callers as caller.Read relies on: read docs/adr/0009-who-watches-a-caller.md"
	for name, body := range map[string]string{"without a body": "", "with a body": "abc"} {
		t.Run(name, func(t *testing.T) {
			var ones atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if _, err := io.Copy(io.Discard, q.Body); err != nil {
					t.Errorf("%s: the body: %v", why, err)
				}
				until(t, why, func() bool { return ones.Load() > 0 })
				ctx, cancel := context.WithTimeout(q.Context(), 50*time.Millisecond)
				defer cancel()
				<-ctx.Done()
				if q.Context().Err() != nil {
					t.Errorf("%s: it takes nothing for the caller's end", why)
				}
			}))
			s.Listener = countingListener{s.Listener, &ones}
			s.Start()
			defer s.Close()
			for i := range 3 {
				ones.Store(0)
				resp, err := s.Client().Post(s.URL, "text/plain", strings.NewReader(body))
				if err != nil {
					t.Fatalf("%s: request %d: %v", why, i, err)
				}
				resp.Body.Close()
				if n := ones.Load(); n != 1 {
					t.Errorf("%s: it read ahead %d times by one byte in request %d", why, n, i)
				}
			}
		})
	}
}
