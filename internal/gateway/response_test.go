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

	"github.com/fairlead-platform/fairlead/internal/gateway"
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

func TestAChunkedBodyThatIsNoneIsAnswered502(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nX-Theirs: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, sent := range map[string]string{
		"no number":                   head + "ZZ\r\n",
		"no number and more":          head + "ZZ\r\nabc\r\n0\r\n\r\n",
		"a prefix":                    head + "0x3\r\nabc\r\n0\r\n\r\n",
		"a length too large":          head + "fffffffffffffffff\r\nabc",
		"a chunk that goes on":        head + "1\r\nabc\r\n0\r\n\r\n",
		"a huge extension":            head + "3;x=" + strings.Repeat("x", 100_000) + "\r\nabc\r\n0\r\n\r\n",
		"huge trailers":               head + "3\r\nabc\r\n0\r\nX-Sum: " + strings.Repeat("x", 300_000) + "\r\n\r\n",
		"many trailers":               head + "3\r\nabc\r\n0\r\n" + strings.Repeat("X-Sum: 1\r\n", 30_000) + "\r\n",
		"trailers that are none":      head + "3\r\nabc\r\n0\r\nno trailer\r\n\r\n",
		"trailers without a body":     head + "0\r\nno trailer\r\n\r\n",
		"a trailer that has no name":  head + "3\r\nabc\r\n0\r\n: 1\r\n\r\n",
		"a trailer of a name in part": head + "3\r\nabc\r\n0\r\nX Sum: 1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.says(sent, true)
			resp, body := r.get("hello.localhost", "/")
			wantAnswer(t, resp, body, 502, "bad-response", "revision hello-00001: instance a")
			if resp.Header.Get("X-Theirs") != "" {
				t.Error("the answer has the header of the response that was none")
			}
			r.leases(0)
		})
	}
}

func TestAChunkedBodyThatNeverBeginsIsSentForAgain(t *testing.T) {
	r := newRig(t)
	r.pair(func(c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Theirs: 1\r\nTransfer-Encoding: chunked\r\n\r\n5")
		}
	})
	resp, body := r.get("hello.localhost", "/")
	if resp.StatusCode != 200 || body != "b got 0 bytes" || resp.Header.Get("X-Theirs") != "" {
		t.Errorf("answered %d %q %v", resp.StatusCode, body, resp.Header)
	}
	r.leases(0)
}

func TestAHeadIsNotHeldBackForABodyThatHasYetToCome(t *testing.T) {
	for name, c := range map[string]struct{ sent, body string }{
		"the head":                    {"", ""},
		"a chunk's length":            {"5\r\n", ""},
		"a chunk":                     {"2\r\nab\r\n", "ab"},
		"a chunk and half its end":    {"2\r\nab\r", "ab"},
		"all but the trailers":        {"2\r\nab\r\n0\r\n", "ab"},
		"a chunk and the next length": {"2\r\nab\r\n5", "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+c.sent, true)
			resp, err := r.client.Do(r.request("GET", "hello.localhost", "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b := make([]byte, len(c.body))
			if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != c.body {
				t.Errorf("read %q, %v", b, err)
			}
		})
	}
}

func TestTrailersThatWereNotDeclaredFollowAShortBodyToo(t *testing.T) {
	for _, declared := range []string{"", "Trailer: X-Other\r\n", "Trailer: X-Sum\r\n"} {
		r := newRig(t)
		r.says("HTTP/1.1 200 OK\r\n"+declared+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n", true)
		resp, body := r.get("hello.localhost", "/")
		if resp.StatusCode != 200 || body != "ok" || resp.Trailer.Get("X-Sum") != "1" || resp.Header.Get("X-Sum") != "" {
			t.Errorf("answered %d %q with trailers %v", resp.StatusCode, body, resp.Trailer)
		}
	}
}

// Who reads these fields learns what a gateway says, and nobody else.
func TestAnInstanceCannotPassForAGateway(t *testing.T) {
	for name, hide := range map[string]bool{"leases shown": false, "leases hidden": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *gateway.Config) { c.HideLease = hide })
			r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				for _, k := range []string{"Fairlead-Error", "Fairlead-Revision", "Fairlead-Table"} {
					w.Header().Set(k, "forged")
				}
			}))
			resp, _ := r.get("hello.localhost", "/")
			for k, vs := range resp.Header {
				if vs[0] == "forged" {
					t.Errorf("%s is the instance's", k)
				}
			}
		})
	}
}
