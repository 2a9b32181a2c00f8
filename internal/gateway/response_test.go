package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// says offers one instance that answers every request with text, and then is
// silent if it stalls, or closes the connection.
func (r *rig) says(text string, stalls bool) {
	r.t.Helper()
	r.one(5, func(c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err != nil {
			return
		}
		if _, err := io.WriteString(c, text); err == nil && stalls {
			io.Copy(io.Discard, c)
		}
	})
}

func TestAHeadThatStallsIsToldFromSilence(t *testing.T) {
	const began, silent = "did not send the whole head of a response within 200ms", "sent no byte of a response within 200ms"
	for name, c := range map[string]struct{ sent, says string }{
		"nothing":              {"", silent},
		"in the status line":   {"HTTP/1.1 20", began},
		"after it":             {"HTTP/1.1 200 OK\r\n", began},
		"in a field's name":    {"HTTP/1.1 200 OK\r\nContent-Le", began},
		"in a field's value":   {"HTTP/1.1 200 OK\r\nContent-Length: 1", began},
		"before the end":       {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n", began},
		"after an early hint":  {"HTTP/1.1 103 Early Hints\r\n\r\n", began},
		"after a continuation": {"HTTP/1.1 100 Continue\r\n\r\n", began},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.says(c.sent, true)
			ro := route("hello", 1)
			ro.Limits.FirstByte = 200 * time.Millisecond
			r.tables.publish(2, ro)
			resp, body := r.get("hello.localhost", "/")
			wantAnswer(t, resp, body, 504, "deadline", c.says)
			r.leases(0)
		})
	}
}

func TestAHeadThatIsCutOffIsNoAnswer(t *testing.T) {
	for _, sent := range []string{"HTTP/1.1 200", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"} {
		r := newRig(t)
		r.says(sent, false)
		resp, body := r.do(r.request("POST", "hello.localhost", "/", http.NoBody))
		wantAnswer(t, resp, body, 502, "instance-failed", "may have been executed")
		r.leases(0)
	}
}

func TestAFloodOfInformationalResponsesIsAnswered502(t *testing.T) {
	for _, line := range []string{"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"} {
		r := newRig(t)
		r.one(5, func(c net.Conn) {
			if _, err := readRequest(bufio.NewReader(c)); err != nil {
				return
			}
			for {
				if _, err := io.WriteString(c, line); err != nil {
					return
				}
			}
		})
		told := 0
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			told++
			return nil
		}})
		r.client = &http.Client{Transport: &http.Transport{MaxResponseHeaderBytes: 1 << 20}}
		resp, body := r.do(r.request("GET", "hello.localhost", "/", nil).WithContext(trace))
		wantAnswer(t, resp, body, 502, "bad-response", "more than 32 informational responses")
		if told > 33 {
			t.Errorf("the caller was told %d times", told)
		}
		r.leases(0)
	}
}

func TestAsManyInformationalResponsesAsAreOrdinaryPass(t *testing.T) {
	r := newRig(t)
	r.says(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 32)+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false)
	if resp, body := r.get("hello.localhost", "/"); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("answered %d %q", resp.StatusCode, body)
	}
	c := r.caller("GET / HTTP/1.0\r\nHost: hello.localhost\r\n\r\n")
	if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.0 200 OK\r\n") {
		t.Errorf("a caller of HTTP/1.0 read %q, %v", b, err)
	}
}

func TestSpaceBeforeAColonIsRemovedFromAResponse(t *testing.T) {
	for name, c := range map[string]struct{ sent, body string }{
		"a length":             {"Content-Length : 2\r\n\r\nok", "ok"},
		"several spaces":       {"content-length   :2\r\n\r\nok", "ok"},
		"twice the same":       {"Content-Length: 2\r\nContent-Length : 2\r\n\r\nok", "ok"},
		"a coding":             {"Transfer-Encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok"},
		"a coding and length":  {"Content-Length: 1\r\nTransfer-Encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok"},
		"a field of one hop":   {"Keep-Alive : 5\r\nContent-Length: 2\r\n\r\nok", "ok"},
		"a field for everyone": {"X-Any : 1\r\nX-Any: 2\r\nContent-Length: 2\r\n\r\nok", "ok"},
		"a trailer":            {"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum : 1\r\n\r\n", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.says("HTTP/1.1 200 OK\r\n"+c.sent, true)
			resp, body := r.get("hello.localhost", "/")
			if resp.StatusCode != 200 || body != c.body {
				t.Errorf("answered %d %q", resp.StatusCode, body)
			}
			if resp.Header.Get("Keep-Alive") != "" || name == "a field for everyone" && len(resp.Header["X-Any"]) != 2 {
				t.Errorf("the caller saw %v", resp.Header)
			}
			if name == "a trailer" && resp.Trailer.Get("X-Sum") != "1" {
				t.Errorf("the caller saw the trailers %v", resp.Trailer)
			}
			r.leases(0)
		})
	}
}

func TestSpaceWithinAFieldsNameIsAnswered502(t *testing.T) {
	for _, field := range []string{"Content Length: 2", "Content- Length : 2", "Content-Length: 2\r\nContent-Length : 3", "Content-Length\t: 2", " : 2"} {
		r := newRig(t)
		r.says("HTTP/1.1 200 OK\r\n"+field+"\r\n\r\nok", true)
		resp, body := r.get("hello.localhost", "/")
		wantAnswer(t, resp, body, 502, "bad-response")
		r.leases(0)
	}
}
