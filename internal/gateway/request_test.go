package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestNoCallerCanHaveTheGatewaysOwnFieldsLeftOut(t *testing.T) {
	r := newRig(t)
	heads := make(chan http.Header, 1)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { heads <- q.Header.Clone() }))
	given := map[string]string{
		"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "https", "X-Request-Id": "mine",
	}
	for _, with := range []bool{false, true} {
		for k, v := range given {
			q := r.request("GET", "hello.localhost", "/", nil)
			q.Header.Set("Connection", k+", X-Private")
			q.Header.Set("X-Private", "1")
			if with {
				q.Header.Set(k, v)
			}
			r.do(q)
			got := <-heads
			for name := range given {
				if got.Get(name) == "" {
					t.Errorf("with %s declared, the instance saw no %s", k, name)
				}
			}
			want := v
			if k == "X-Forwarded-For" {
				want += ", 127.0.0.1"
			}
			if with && got.Get(k) != want {
				t.Errorf("the instance saw %s: %q, want %q", k, got.Get(k), want)
			}
			if got.Get("X-Private") != "" {
				t.Error("the instance saw a field of one hop")
			}
		}
	}
}

func TestAnUpgradeIsOfferedWithoutHTTP2AndTakenByAnyOneOfItsNames(t *testing.T) {
	for _, c := range []struct{ asks, seen, switches string }{
		{"h2c, websocket", "websocket", "WebSocket"},
		{"websocket, H2C", "websocket", "websocket"},
		{"one/1, h2c, two", "one/1, two", "two"},
		{"one/1, two", "one/1, two", "one/1"},
		{"one\r\nUpgrade: two", "one, two", "two"},
		{"h2c, one", "one", "h2c"},
		{"one, two", "one, two", "three"},
		{"one, two", "one, two", ""},
		{"h2c", "", "h2c"},
	} {
		r := newRig(t)
		heads := make(chan http.Header, 1)
		r.one(1, func(conn net.Conn) {
			q, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			heads <- q.Header
			fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nhi", c.switches)
		})
		conn := r.caller("GET / HTTP/1.1\r\nHost: hello.localhost\r\nConnection: Upgrade\r\nUpgrade: " + c.asks + "\r\n\r\n")
		br := bufio.NewReader(conn)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if got := (<-heads).Get("Upgrade"); got != c.seen {
			t.Errorf("%q was offered as %q, want %q", c.asks, got, c.seen)
		}
		may := c.switches != "" && strings.Contains(c.seen, strings.ToLower(c.switches))
		switch {
		case may && (resp.StatusCode != 101 || resp.Header.Get("Upgrade") != c.switches):
			t.Errorf("%q taken as %q was answered %d %v", c.asks, c.switches, resp.StatusCode, resp.Header)
		case !may && (resp.StatusCode != 502 || resp.Header.Get("Fairlead-Error") != "bad-response"):
			t.Errorf("%q taken as %q was answered %d", c.asks, c.switches, resp.StatusCode)
		}
		conn.Close()
		r.leases(0)
	}
}
