package gateway

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func FuzzCleanHost(f *testing.F) {
	for _, s := range []string{"", "a", "A.b:80", "a.localhost.", "[::1]:80", "[", ":", "...", "a:b:c", "T---A.B.:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := cleanHost(s)
		if len(h) > len(s)*3 {
			t.Errorf("%q became %q", s, h)
		}
		if checkHost(h) == nil {
			if cleanHost(h) != h || cleanHost(strings.ToUpper(h)+".:8080") != h {
				t.Errorf("%q, clean as %q, does not stay so", s, h)
			}
		}
	})
}

func FuzzReadHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.0 304 \r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 103 Hints\nLink: a\n b\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &conn{budget: -1, br: bufio.NewReader(bytes.NewReader(b))}
		c.text.R = c.br
		h, err := c.readHead()
		if err != nil {
			return
		}
		if h.status < 100 || h.status > 999 {
			t.Errorf("status %d", h.status)
		}
		if fr, err := h.framing("GET"); err == nil && fr.chunked && h.header.Get("Content-Length") != "" {
			t.Error("both chunked and of a length")
		}
	})
}
