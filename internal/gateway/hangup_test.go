package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// cutting answers nothing but /first at once, and tells what arrived and what
// was cancelled.
type cutting struct{ in, cut chan string }

func (g *cutting) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if _, err := io.Copy(io.Discard, q.Body); err != nil {
		return
	}
	if q.URL.Path == "/first" {
		fmt.Fprint(w, "ok")
		return
	}
	g.in <- q.URL.Path
	<-q.Context().Done()
	g.cut <- q.URL.Path
}

// A machine that does other things as well may be late, but not every time. (By
// a look each second no hang-up at the beginning would be seen in time.)
func TestACallerThatHangsUpIsCancelledAtTheInstanceWithinATenthOfASecond(t *testing.T) {
	for name, ask := range map[string]string{
		"without a body":        "GET /slow HTTP/1.1\r\nHost: hello.localhost\r\n\r\n",
		"with a small body":     "POST /slow HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 5\r\n\r\nhello",
		"with a body in chunks": "POST /slow HTTP/1.1\r\nHost: hello.localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			g := &cutting{in: make(chan string), cut: make(chan string)}
			r.serve("hello", 1, g)
			least := time.Hour
			for range 20 {
				c := r.dial(ask)
				<-g.in
				began := time.Now()
				c.Close()
				<-g.cut
				if least = min(least, time.Since(began)); least < 100*time.Millisecond {
					return
				}
			}
			t.Errorf("the soonest was %s", least)
		})
	}
}

func TestACallerThatHangsUpLongAfterItAskedIsCancelledAtTheInstance(t *testing.T) {
	r := newRig(t)
	g := &cutting{in: make(chan string), cut: make(chan string)}
	r.serve("hello", 1, g)
	c := r.dial("GET /slow HTTP/1.1\r\nHost: hello.localhost\r\n\r\n")
	<-g.in
	until(t, "it is watched", watched)
	c.Close()
	<-g.cut
}

// Two requests came at once, so that the server itself reads ahead of the second.
func TestACallerThatHangsUpOnItsSecondOfTwoRequestsIsCancelledAtTheInstance(t *testing.T) {
	r := newRig(t)
	g := &cutting{in: make(chan string), cut: make(chan string)}
	r.serve("hello", 1, g)
	c := r.dial("GET /first HTTP/1.1\r\nHost: hello.localhost\r\n\r\nGET /slow HTTP/1.1\r\nHost: hello.localhost\r\n\r\n")
	<-g.in
	c.Close()
	<-g.cut
}

// Each of these is watched, and none of the watches is left behind.
func TestACallerIsServedAgainAfterEachRequestThatTookItsTime(t *testing.T) {
	r := newRig(t)
	g := newGate()
	r.serve("hello", 1, g)
	c := r.dial("")
	br := bufio.NewReader(c)
	for i := range 5 {
		fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: hello.localhost\r\n\r\n", i)
		<-g.in
		until(t, "it is watched", watched)
		g.open <- struct{}{}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != "ok" {
			t.Fatalf("answered %q, %v", b, err)
		}
	}
}

// watched says that the gateway watches a caller's connection.
func watched() bool {
	all := make([]byte, 1<<20)
	return bytes.Contains(all[:runtime.Stack(all, true)], []byte(".(*caller).peek"))
}

// dial connects to the gateway as a caller, and says something.
func (r *rig) dial(says string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.g.PublicAddr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, says); err != nil {
		r.t.Fatal(err)
	}
	return c
}
