package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// errSlow says that a body does not come, or too slowly.
var errSlow = errors.New("the body of the request is too slow")

var (
	holds  = sync.Pool{New: func() any { b := make([]byte, 0, holdLimit); return &b }}
	copies = sync.Pool{New: func() any { b := make([]byte, copySize); return &b }}
)

// body is a request's body on its way to an instance. A small one is read
// whole before a lease is taken. Any other is read by a goroutine of its own
// (run), which lives as long as the request: it holds the first 64 KiB, waits
// for a connection, is given another one when the request is sent again, and
// writes while the response is read.
type body struct {
	src     io.ReadCloser // nil: there is none, or it is held whole
	size    int64         // 0: none, -1: chunked
	trailer http.Header   // filled by the reading of src
	// declared are the trailers that were announced, and may follow.
	declared string
	// hop :: field that ends here by the caller's Connection header → true
	hop map[string]bool
	buf *[]byte // backs held

	mu   sync.Mutex
	cond sync.Cond
	held []byte
	// whole says that held is all that was read so far: it can be sent again.
	whole   bool
	to      *conn // nil while there is none to write to
	left    time.Duration
	ended   bool // all was read
	sent    bool // all was written to the present connection
	sentAt  time.Time
	stopped bool
	err     error // of reading
	started bool
	reading atomic.Bool // the source is not exhausted
	done    chan struct{}
	// abort ends the exchange, at whatever moment of it the body fails.
	abort func()
	// pace is how fast it has to come; of run alone. waits says that run waits for
	// the caller.
	pace  pace
	waits atomic.Bool

	// clock orders the changes of the read deadline. mu is held while the
	// instance takes its time to read, and nobody who forwards waits for that.
	clock sync.Mutex
	quick bool // the first byte of the response came: no deadline any more
}

// prepareBody looks at the request's body. False means that it was answered.
func (x *exchange) prepareBody(expect bool) bool {
	b := &x.body
	b.whole, b.cond.L = true, &b.mu
	b.size = x.r.ContentLength
	if b.size == 0 {
		return true
	}
	b.takeTrailers(x.r)
	b.buf = holds.Get().(*[]byte)
	b.held = (*b.buf)[:0]
	if b.size > 0 && b.size <= holdLimit && !expect {
		return x.readBody()
	}
	// The response may be written while the body is read.
	if err := http.NewResponseController(x.w).EnableFullDuplex(); err != nil {
		x.fail(http.StatusInternalServerError, "internal", "cannot stream both ways: "+err.Error())
		return false
	}
	b.src, b.pace = x.r.Body, pace{timeout: x.g.cfg.BodyTimeout}
	b.reading.Store(true)
	x.watchBody()
	if !expect {
		b.start()
	}
	return true
}

// watchBody has the request end when its caller hangs up, which the server
// notices once the body was read, or its body fails.
func (x *exchange) watchBody() {
	ctx, cancel := context.WithCancel(x.r.Context())
	end := newEnding() // which may come after the request, so it is no other's
	context.AfterFunc(ctx, end.come)
	x.caller.ahead.Store(true)
	x.end, x.body.abort = end, func() {
		end.come()
		cancel()
	}
	go lookOut(ctx, x.body.abort, x.caller)
}

// readBody reads a small body whole, before a lease is taken for it.
func (x *exchange) readBody() bool {
	b := &x.body
	b.held = b.held[:b.size]
	rc := http.NewResponseController(x.w)
	within := min(x.svc.firstByte(), x.g.cfg.BodyTimeout+atLeast(b.size))
	err := rc.SetReadDeadline(x.began.Add(within))
	if err == nil {
		_, err = io.ReadFull(x.r.Body, b.held)
	}
	if err == nil {
		err = rc.SetReadDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.fail(http.StatusRequestTimeout, "slow-body", "the body of the request did not come within "+within.String())
	default:
		x.fail(http.StatusBadRequest, "bad-request", "the body of the request could not be read")
	}
	return false
}

func (b *body) start() {
	if b.src == nil || b.started {
		return
	}
	b.started = true
	b.done = make(chan struct{})
	go b.run()
}

// run reads the body to its end.
func (b *body) run() {
	defer close(b.done)
	buf := copies.Get().(*[]byte)
	defer copies.Put(buf)
	due := time.AfterFunc(b.pace.next(), b.tooSlow)
	defer due.Stop()
	for {
		began := time.Now()
		b.waits.Store(true)
		n, err := b.src.Read(*buf)
		b.waits.Store(false)
		due.Stop()
		b.pace.took(n, time.Since(began))
		if !b.pass((*buf)[:n], err) {
			return
		}
		due.Reset(b.pace.next())
	}
}

// tooSlow ends a request whose body does not come, unless it is answered already:
// what streams both ways takes its time.
func (b *body) tooSlow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock.Lock()
	defer b.clock.Unlock()
	if b.waits.Load() && !b.quick && !b.stopped && b.err == nil {
		b.err = errSlow
		b.abort()
	}
}

// pass hands on what was read. False ends the reading.
func (b *body) pass(p []byte, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && err != io.EOF { // the request cannot be completed
		if !b.stopped && b.err == nil {
			b.err = err
			b.abort()
		}
		return false
	}
	if len(p) > 0 && b.whole && len(b.held)+len(p) > holdLimit {
		for b.to == nil && !b.stopped { // no lease yet: the rest waits at the caller
			b.cond.Wait()
		}
		b.whole = false
	}
	if b.stopped {
		return false
	}
	if b.whole {
		b.held = append(b.held, p...)
	}
	if err == io.EOF {
		b.ended = true
		b.reading.Store(false)
	}
	b.write(p)
	return !b.ended
}

// write sends a part; locked. An instance that does not take it may still
// answer, so that an error is left to who reads the response.
func (b *body) write(p []byte) {
	c := b.to
	if c == nil {
		return
	}
	if b.size < 0 && len(p) > 0 {
		var num [20]byte
		c.bw.Write(append(strconv.AppendInt(num[:0], int64(len(p)), 16), '\r', '\n'))
	}
	c.bw.Write(p)
	if b.size < 0 && len(p) > 0 {
		c.bw.WriteString("\r\n")
	}
	if b.ended && b.size < 0 {
		b.end(c)
	}
	if c.bw.Flush() != nil { // sticky: it tells of the writes before it as well
		b.to = nil
		return
	}
	if b.sent = b.ended; b.sent {
		b.sentAt = time.Now()
	}
	b.prolong(c)
}

// prolong moves the deadline of the first byte on: time that the body takes to
// come does not count, silence does. A connection that cannot have one is
// closed already, which its reader sees.
func (b *body) prolong(c *conn) {
	b.clock.Lock()
	defer b.clock.Unlock()
	if !b.quick && b.left > 0 && c.tcp.SetReadDeadline(time.Now().Add(b.left)) != nil {
		b.to = nil
	}
}

// end writes the last chunk and the trailers.
func (b *body) end(c *conn) {
	c.bw.WriteString("0\r\n")
	for _, k := range b.trailing() {
		for _, v := range b.trailer[k] {
			writeField(c.bw, k, v)
		}
	}
	c.bw.WriteString("\r\n")
}

func sortedKeys(h http.Header) []string {
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// attach gives the body a connection whose head was written, and sends what is
// held. The first byte is due at by, but for the time that the body takes to come.
func (b *body) attach(c *conn, by time.Time) error {
	if b.src == nil {
		c.bw.Write(b.held)
		err := c.bw.Flush()
		// An instance that did not take it all may still have answered.
		b.sentAt = time.Now()
		if b.sent = err == nil; c.written.Load() > 0 {
			return nil
		}
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock.Lock()
	b.quick = false
	b.clock.Unlock()
	b.to, b.left, b.sent = c, time.Until(by), false
	b.write(b.held)
	b.cond.Broadcast()
	return nil
}

// detach takes the connection away, and closes it unless it is to be kept and
// the whole request was written to it. It says whether the connection is good.
func (b *body) detach(c *conn, keep bool) bool {
	if b.src == nil {
		if keep = keep && b.sent; !keep {
			c.Close()
		}
		return keep
	}
	if !keep || !b.mu.TryLock() { // it is being written to, perhaps for ever
		keep = false
		c.Close()
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	b.to = nil
	if keep && !b.sent {
		c.Close()
	}
	return keep && b.sent
}

// answered says that the first byte of the response came: the deadline is over.
func (b *body) answered(c *conn) error {
	b.clock.Lock()
	defer b.clock.Unlock()
	b.quick = true
	return c.tcp.SetReadDeadline(time.Time{})
}

// wholeAt says whether the instance had all of the request, and since when.
func (b *body) wholeAt() (at time.Time, whole bool) {
	if b.src != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
	}
	return b.sentAt, b.sent
}

// resendable says that the body can be sent from its beginning.
func (b *body) resendable() bool {
	if b.src == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.whole && b.err == nil
}
