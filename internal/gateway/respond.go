package gateway

import (
	"io"
	"net/http"
	"strings"
)

// inform forwards an informational response, such as 103 Early Hints.
func (x *exchange) inform(h head) {
	if !x.r.ProtoAtLeast(1, 1) {
		return // it would be taken for the final one
	}
	x.informed = true
	to := x.w.Header()
	x.copyHeader(to, h.header)
	x.w.WriteHeader(h.status)
	clear(to)
}

// copyHeader forwards what is not meant for this hop alone, and not what only a
// gateway says: no instance may pass for one.
func (x *exchange) copyHeader(to, from http.Header) {
	drop := listed(from["Connection"])
	for k, vs := range from {
		if !hopByHop(k) && !drop[k] && !strings.HasPrefix(k, "Fairlead-") {
			to[k] = vs
		}
	}
}

// respond forwards a response to its end. What fails once it has begun cuts the
// caller off, so that half an answer is never taken for a whole one. An error
// means that it has not.
func (a *attempt) respond(f framing) error {
	var err error
	if f.chunked {
		err = a.chunks()
	} else {
		a.begin()
		err = a.copyBody(f)
	}
	// A connection that a caller's hanging up may close is no longer ours.
	if a.reuse = f.keep && err == nil && a.c.br.Buffered() == 0; !a.x.end.release() {
		a.reuse = false
	}
	if err != nil && a.x.forwarded {
		if !a.untaken {
			a.count(err) // half an answer is a failure of who cut it off
		}
		a.x.caller.torn.Store(!f.none && (f.chunked || f.length < 0) && !a.x.r.ProtoAtLeast(1, 1))
		panic(http.ErrAbortHandler)
	}
	return err
}

// begin forwards the head of the response, once.
func (a *attempt) begin() {
	x, h := a.x, a.head
	if x.forwarded {
		return
	}
	x.forwarded, x.status = true, h.status
	to := x.w.Header()
	x.copyHeader(to, h.header)
	a.mark(to)
	if _, ok := to["Content-Type"]; !ok {
		to["Content-Type"] = nil // not to be guessed
	}
	if a.declares {
		to["Trailer"] = h.header["Trailer"]
	}
	x.w.WriteHeader(h.status)
}

// mark names the request, and what the lease was: revision and table.
func (a *attempt) mark(to http.Header) {
	x := a.x
	v := [3]string{x.id, a.m.inst.Revision, x.ticket.rules.Text}
	to["X-Request-Id"] = v[0:1:1]
	if !x.g.cfg.HideLease {
		to["Fairlead-Revision"] = v[1:2:2]
		to["Fairlead-Table"] = v[2:3:3]
	}
}

// copyBody forwards the body. Before it waits for more it sends on what came.
func (a *attempt) copyBody(f framing) error {
	c := a.c
	switch {
	case f.none || f.length == 0:
		return nil
	case f.length < 0:
		return a.stream(c.br)
	}
	if n := int(min(f.length, int64(c.br.Buffered()))); n > 0 {
		b, err := c.br.Peek(n)
		if err != nil {
			return err
		}
		if err := a.write(b); err != nil {
			return err
		}
		if _, err := c.br.Discard(n); err != nil {
			return err
		}
		f.length -= int64(n)
	}
	if f.length == 0 {
		return nil
	}
	return a.length(f.length)
}

// length forwards exactly n bytes.
func (a *attempt) length(n int64) error {
	src := io.LimitedReader{R: a.c.br, N: n}
	if err := a.stream(&src); err != nil {
		return err
	}
	if src.N > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// write hands a part of the answer to the caller.
func (a *attempt) write(p []byte) error {
	_, err := a.x.w.Write(p)
	a.untaken = a.untaken || err != nil
	return err
}

// stream forwards until the end of src.
func (a *attempt) stream(src io.Reader) error {
	buf := copies.Get().(*[]byte)
	defer copies.Put(buf)
	for {
		if a.c.br.Buffered() == 0 {
			a.flush()
		}
		n, err := src.Read(*buf)
		if n > 0 {
			if err := a.write((*buf)[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (a *attempt) flush() {
	if f, ok := a.x.w.(http.Flusher); ok {
		f.Flush()
	}
}
