package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whatever an instance does in place of switching, the caller has its answer
// when the first byte is due, also on a connection that was used before, and the
// credit is free again.
func TestAnUpgradeThatIsNotAnsweredEndsWhenTheFirstByteIsDue(t *testing.T) {
	for name, says := range map[string]string{
		"nothing":                      "",
		"hints without end":            strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", 3),
		"half a head":                  "HTTP/1.1 101 Switching Protocols\r\nUpgr",
		"a head without its last line": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h := r.host("h1")
			h.offer(instance{ID: "hello-a", Service: "hello", Revision: "hello-00001", Address: r.raw(func(c net.Conn) {
				br := bufio.NewReader(c)
				for {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
					if q.Header.Get("Upgrade") != "" {
						answer = says
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			})}, 1)
			ro := route("hello", 1)
			ro.Limits.FirstByte = 200 * time.Millisecond
			r.tables.publish(1, ro)
			h.synced()
			for range 2 {
				c := r.dial("GET / HTTP/1.1\r\nHost: hello.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				br := bufio.NewReader(c)
				resp, err := http.ReadResponse(br, nil)
				for err == nil && resp.StatusCode == http.StatusEarlyHints {
					resp, err = http.ReadResponse(br, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				wantAnswer(t, resp, string(b), http.StatusGatewayTimeout, "deadline", "200ms")
				r.leases(0)
				if _, body := r.get("hello.localhost", "/"); body != "ok" {
					t.Errorf("the next was answered %q", body)
				}
			}
		})
	}
}
