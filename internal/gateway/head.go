package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

var errMalformed = errors.New("the instance does not speak HTTP/1.1")

// head is the beginning of a response.
type head struct {
	status int
	minor  int // of HTTP/1.minor
	header http.Header
}

// readHead reads one head, which may be of an informational response.
func (c *conn) readHead() (head, error) {
	c.budget = maxAnswer + c.br.Buffered()
	defer func() { c.budget = -1 }()
	line, err := c.br.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = fmt.Errorf("%w: its status line is too long", errMalformed)
		}
		return head{}, err
	}
	h, ok := parseStatus(line)
	if !ok {
		return head{}, fmt.Errorf("%w: it answered %.40q", errMalformed, line)
	}
	h.header, err = c.readFields()
	return h, err
}

// readFields reads header fields, or trailers, and the empty line after them.
func (c *conn) readFields() (http.Header, error) {
	c.broke = nil
	m, err := c.text.ReadMIMEHeader()
	if err == nil {
		return http.Header(m), despace(http.Header(m))
	}
	if c.broke != nil { // the parser calls a line that is cut off malformed
		return nil, c.broke
	}
	var bad textproto.ProtocolError
	if errors.As(err, &bad) {
		err = fmt.Errorf("%w: %s", errMalformed, bad)
	}
	return nil, err
}

// despace removes what space stands between a field's name and its colon, where
// a response may have it and a proxy must not pass it on. The parser of fields
// leaves it in the key.
func despace(h http.Header) error {
	for k, vs := range h {
		if strings.IndexByte(k, ' ') < 0 {
			continue
		}
		name := strings.TrimRight(k, " ")
		if name == "" || strings.IndexByte(name, ' ') >= 0 {
			return fmt.Errorf("%w: malformed header field %.40q", errMalformed, k)
		}
		delete(h, k)
		name = textproto.CanonicalMIMEHeaderKey(name)
		h[name] = append(h[name], vs...)
	}
	return nil
}

// parseStatus reads "HTTP/1.1 200 OK".
func parseStatus(line []byte) (head, bool) {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return head{}, false
	}
	if len(line) > 12 && line[12] != ' ' {
		return head{}, false
	}
	h := head{minor: int(line[7]) - '0'}
	for _, d := range line[9:12] {
		if d < '0' || d > '9' {
			return head{}, false
		}
		h.status = h.status*10 + int(d-'0')
	}
	return h, (h.minor == 0 || h.minor == 1) && h.status >= 100
}

// framing says how a response's body ends.
type framing struct {
	none    bool
	chunked bool
	length  int64 // -1: with the connection
	keep    bool  // the connection can be used again
}

func (h head) framing(method string) (framing, error) {
	f := framing{length: -1, keep: h.minor == 1}
	for _, v := range h.header["Connection"] {
		if hasToken(v, "close") {
			f.keep = false
		} else if h.minor == 0 && hasToken(v, "keep-alive") {
			f.keep = true
		}
	}
	if te := h.header["Transfer-Encoding"]; len(te) > 0 {
		if len(te) > 1 || !strings.EqualFold(textproto.TrimString(te[0]), "chunked") {
			return f, fmt.Errorf("%w: transfer encoding %q", errMalformed, te)
		}
		f.chunked = true
		// The length, if there is one too, is not to be believed.
		if _, both := h.header["Content-Length"]; both {
			delete(h.header, "Content-Length")
			f.keep = false
		}
	}
	if cl := h.header["Content-Length"]; len(cl) > 0 {
		n, err := contentLength(cl)
		if err != nil {
			return f, err
		}
		f.length = n
		h.header["Content-Length"] = cl[:1]
	}
	f.none = method == http.MethodHead || h.status < 200 || h.status == http.StatusNoContent || h.status == http.StatusNotModified
	if f.none {
		f.chunked = false
	} else if !f.chunked && f.length < 0 {
		f.keep = false
	}
	return f, nil
}

func contentLength(vs []string) (int64, error) {
	first := textproto.TrimString(vs[0])
	for _, v := range vs[1:] {
		if textproto.TrimString(v) != first {
			return 0, fmt.Errorf("%w: content lengths %q", errMalformed, vs)
		}
	}
	n, err := strconv.ParseUint(first, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: content length %.40q", errMalformed, first)
	}
	return int64(n), nil
}

// hasToken looks for a token in a comma-separated list.
func hasToken(list, token string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(textproto.TrimString(part), token) {
			return true
		}
	}
	return false
}

// hopByHop says that a header field ends here.
func hopByHop(key string) bool {
	switch key {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// listed are the further fields that a Connection header declares hop-by-hop;
// nil when there are none.
func listed(connection []string) map[string]bool {
	var out map[string]bool
	for _, v := range connection {
		for part := range strings.SplitSeq(v, ",") {
			k := textproto.TrimString(part)
			if k == "" || strings.EqualFold(k, "close") || strings.EqualFold(k, "keep-alive") || strings.EqualFold(k, "upgrade") {
				continue
			}
			if out == nil {
				out = map[string]bool{}
			}
			out[textproto.CanonicalMIMEHeaderKey(k)] = true
		}
	}
	return out
}

func writeField(w *bufio.Writer, k, v string) {
	w.WriteString(k)
	w.WriteString(": ")
	w.WriteString(v)
	w.WriteString("\r\n")
}
