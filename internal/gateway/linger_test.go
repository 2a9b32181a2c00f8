package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// The answer is there, nobody reads the rest of the body, and the caller looks
// for the answer only when it has sent that: what it sends must not be reset,
// nor be answered as if it were another request.
func TestACallerThatStillSendsGetsItsAnswerAndNothingElse(t *testing.T) {
	for name, framing := range map[string]string{
		"by its length": "Content-Length: 1000000000\r\n\r\n",
		"in chunks":     "Transfer-Encoding: chunked\r\n\r\n3b9aca00\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pair(func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
				<-r.t.Context().Done()
			})
			c := r.dial("POST / HTTP/1.1\r\nHost: hello.localhost\r\n" + framing)
			r.sends(c, 1<<20)
			until(t, "the answer is out", func() bool { return r.metric("fairlead_gateway_requests_total", "code", "2xx") == 1 })
			r.sends(c, 16<<20)
			wantOneAnswer(t, c, "200", "a")
		})
	}
}

// What is no request is answered while its sender goes on.
func TestARefusedHeadIsAnsweredAlsoToACallerThatStillSends(t *testing.T) {
	for name, head := range map[string]string{
		"malformed":           "POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"of unknown encoding": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.dial(head)
			if _, err := bufio.NewReader(io.LimitReader(c, 1)).Peek(1); err != nil { // it is answered
				t.Fatal(err)
			}
			r.sends(c, 16<<20)
			if _, err := io.ReadAll(c); err != nil {
				t.Errorf("the answer was cut off: %v", err)
			}
		})
	}
}

// What ends with the connection would seem whole if that ended in order.
func TestHalfAnAnswerThatOnlyTheConnectionEndsIsReset(t *testing.T) {
	r := newRig(t)
	r.pair(func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
		}
	})
	c := r.dial("GET / HTTP/1.0\r\nHost: hello.localhost\r\n\r\n")
	b, err := io.ReadAll(c)
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q ended with %v", b, err)
	}
}

// sends says n bytes that mean nothing.
func (r *rig) sends(c net.Conn, n int) {
	r.t.Helper()
	if _, err := io.WriteString(c, strings.Repeat("\r\nno ", n/5)); err != nil {
		r.t.Fatalf("cannot go on: %v", err)
	}
}

// wantOneAnswer reads one answer, and the end of the connection after it.
func wantOneAnswer(t *testing.T, c net.Conn, status, body string) {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("cut off: %v", err)
	}
	if s := string(b); !strings.HasPrefix(s, "HTTP/1.1 "+status) || !strings.HasSuffix(s, "\r\n\r\n"+body) || strings.Count(s, "HTTP/1.1") != 1 {
		t.Errorf("answered %q", s)
	}
}
