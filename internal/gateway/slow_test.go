package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/gateway"
)

const bodyTimeout = 300 * time.Millisecond

func briefly(c *gateway.Config) { c.BodyTimeout = bodyTimeout }

// readsAll is an instance that answers once it has the whole request.
func readsAll(c net.Conn) {
	q, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, q.Body); err == nil {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

func TestABodyThatPausesIsAnswered408AndItsCreditIsBack(t *testing.T) {
	for name, head := range map[string]string{
		"chunked":    chunkedPost + "1\r\na\r\n",
		"of a size":  "POST / HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 100000\r\n\r\na",
		"held whole": "POST / HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 2\r\n\r\na",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, briefly)
			r.one(1, readsAll)
			c := r.caller(head)
			resp, body := hear(t, c)
			wantAnswer(t, resp, body, 408, "slow-body")
			if !resp.Close {
				t.Error("the connection is kept, with half a body on it")
			}
			r.leases(0)
		})
	}
}

func TestABodyThatTricklesIsAnswered408AndItsCreditIsBack(t *testing.T) {
	const timeout = 3 * time.Second // far longer than it pauses, on a busy machine too
	r := newRig(t, func(c *gateway.Config) { c.BodyTimeout = timeout })
	r.one(1, readsAll)
	c := r.caller(chunkedPost)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(timeout / 100); ; <-tick.C { // it never pauses for long
			if _, err := io.WriteString(c, "1\r\na\r\n"); err != nil {
				tick.Stop()
				return
			}
		}
	}()
	resp, body := hear(t, c)
	wantAnswer(t, resp, body, 408, "slow-body", "less than 500 bytes a second")
	r.leases(0)
	c.Close()
	<-ended
}

func TestABodyMayPauseOnceItIsAnswered(t *testing.T) {
	const timeout = 3 * time.Second // long enough for an answer on a busy machine
	r := newRig(t, func(c *gateway.Config) { c.BodyTimeout = timeout })
	r.one(1, func(c net.Conn) {
		q, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
		if b, err := io.ReadAll(q.Body); err == nil {
			fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", len(b), b)
		}
	})
	c := r.caller(chunkedPost + "1\r\na\r\n")
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("answered %v, %v", resp, err)
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	rest := make(chan string, 1)
	go func() {
		b, err := io.ReadAll(resp.Body)
		rest <- fmt.Sprint(string(b), err)
	}()
	select {
	case got := <-rest:
		t.Fatalf("its answer ended with %q", got)
	case <-time.After(timeout + time.Second):
	}
	say(t, c, "2\r\nbc\r\n0\r\n\r\n")
	if got := <-rest; got != "abc<nil>" {
		t.Errorf("the rest of the answer is %q", got)
	}
	say(t, c, "GET / HTTP/1.1\r\nHost: hello.localhost\r\nConnection: close\r\n\r\n")
}
