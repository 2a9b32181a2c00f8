package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strings"
)

// chunks forwards a chunked body and its trailers. The head is held back while
// what is at hand may yet show that no good response begins here, so that the
// caller is told; it is not held back for what has yet to come.
func (a *attempt) chunks() error {
	c := a.c
	buf := copies.Get().(*[]byte)
	defer copies.Put(buf)
	if !a.telling() {
		a.begin()
		a.flush()
	}
	src, p := httputil.NewChunkedReader(c.br), *buf
	if n := c.br.Buffered(); n > 0 {
		p = p[:min(n, len(p))] // and no more, which would have to be waited for
	}
	for ; ; p = *buf {
		n, err := src.Read(p)
		if err == io.EOF {
			return a.finish(p[:n])
		}
		if err != nil {
			return noChunk(err)
		}
		a.begin()
		if err := a.write(p[:n]); err != nil {
			return err
		}
		if !a.more() {
			a.flush()
		}
	}
}

// more says that another chunk, or the last, begins in what is buffered, so that
// no part of it is waited for while what came before is not sent on.
func (a *attempt) more() bool {
	b, err := a.c.br.Peek(a.c.br.Buffered())
	return err == nil && bytes.IndexByte(bytes.TrimPrefix(b, []byte("\r\n")), '\n') >= 0
}

// telling says that what is buffered of the body gives its first byte, its end
// or a fault, or is part of the line that the first chunk begins with.
func (a *attempt) telling() bool {
	b, err := a.c.br.Peek(a.c.br.Buffered())
	if err != nil || len(b) == 0 {
		return false
	}
	if i := bytes.IndexByte(b, '\n'); i != len(b)-1 {
		return true
	}
	var one [1]byte
	_, err = httputil.NewChunkedReader(bytes.NewReader(b)).Read(one[:])
	return !errors.Is(err, io.ErrUnexpectedEOF)
}

// noChunk names what is wrong with a chunk.
func noChunk(err error) error {
	var lost net.Error
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &lost) {
		return err
	}
	return fmt.Errorf("%w: %s", errMalformed, err)
}

// finish forwards the last part of a body, and the trailers that follow it.
func (a *attempt) finish(rest []byte) error {
	waits := a.c.br.Buffered() == 0
	if a.x.forwarded || waits {
		a.begin()
		if err := a.write(rest); err != nil {
			return err
		}
		rest = nil
	}
	if waits {
		a.flush()
	}
	t, err := a.readTrailers()
	if err != nil {
		return err
	}
	a.begin()
	if err := a.write(rest); err != nil {
		return err
	}
	a.setTrailers(t)
	return nil
}

// readTrailers reads what follows the last chunk, to the end of the response.
func (a *attempt) readTrailers() (http.Header, error) {
	c := a.c
	if b, err := c.br.Peek(2); err == nil && b[0] == '\r' && b[1] == '\n' {
		_, err := c.br.Discard(2)
		return nil, err
	}
	c.budget = maxHeader + c.br.Buffered()
	defer func() { c.budget = -1 }()
	t, err := c.readFields()
	if errors.Is(err, errHeadTooLarge) {
		err = fmt.Errorf("%w: its trailers are too large", errMalformed)
	}
	return t, noAnswer(err)
}

// setTrailers has the trailers follow the body that was written.
func (a *attempt) setTrailers(t http.Header) {
	known := map[string]bool{}
	for _, v := range a.head.header["Trailer"] {
		for k := range strings.SplitSeq(v, ",") {
			known[textproto.CanonicalMIMEHeaderKey(textproto.TrimString(k))] = true
		}
	}
	to, flushed := a.x.w.Header(), false
	for k, vs := range t {
		if !trails(k) {
			continue
		}
		if !known[k] {
			if !flushed { // a body that was sent by its length has no trailers
				a.flush()
				flushed = true
			}
			k = http.TrailerPrefix + k
		}
		to[k] = vs
	}
}
