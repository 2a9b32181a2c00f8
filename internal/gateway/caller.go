package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// caller is the connection that requests come by, one after the other.
//
// The server of net/http would watch it during each request, by reading one
// byte ahead in a goroutine, which costs about as much as all that a gateway
// does by itself. So the first such read is answered with nothing, upon which
// the server watches no more, and the few requests that take their time are
// watched here (see callers). Should a server ask again, it reads as ever.
type caller struct {
	*line
	all *callers
	// passed says that the last read was answered with nothing, ahead that the
	// server is to watch by itself.
	passed, ahead atomic.Bool
	// spoiled says that a request's body was not read to its end: what is read
	// next is the rest of it, or worse, what its sender would have us take for a
	// request.
	spoiled atomic.Bool
	// heard says that something came since the last request was answered: a head,
	// or what is none. closing says that Close was called.
	heard, closing atomic.Bool
	// torn says that an answer broke off which only the connection's end would
	// have ended: it is reset, or half an answer would be taken for a whole one.
	torn atomic.Bool

	mu    sync.Mutex
	end   *ending // of the request in flight whose body is read; nil: none
	since time.Time
	ctx   context.Context // of the request
	// watched says that a watch was begun: by peeked, which is closed when it
	// ended, or by the server, until unwatch.
	watched bool
	peeked  chan struct{}
	unwatch func() bool
}

// callerKey finds a caller in a request's context.
type callerKey struct{}

func withCaller(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(r *http.Request) *caller {
	return r.Context().Value(callerKey{}).(*caller)
}

// Read is part of net.Conn.
func (c *caller) Read(b []byte) (int, error) {
	if c.closing.Load() {
		return 0, net.ErrClosed
	}
	if len(b) != 1 {
		c.passed.Store(false)
	} else if !c.ahead.Load() && c.passed.CompareAndSwap(false, true) {
		return 0, nil
	}
	n, err := c.line.Read(b)
	if n > 0 {
		c.heard.Store(true)
	}
	return n, err
}

// begin has the caller looked after until leave: when it hangs up, e comes.
// Nobody reads from it between.
func (c *caller) begin(r *http.Request, e *ending, now time.Time) {
	c.mu.Lock()
	c.end, c.ctx, c.since = e, r.Context(), now
	c.mu.Unlock()
	c.all.wakeUp()
}

// leave ends begin. False means that e may yet come.
func (c *caller) leave() bool {
	c.ahead.Store(false)
	c.heard.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		return true
	}
	c.end, c.ctx = nil, nil
	if !c.watched {
		return true
	}
	c.watched = false
	if c.unwatch != nil {
		stopped := c.unwatch()
		c.unwatch = nil
		return stopped
	}
	// A connection that cannot have a deadline is closed, which ends a wait too.
	_ = c.in.force(time.Unix(1, 0))
	<-c.peeked
	return true
}

// look begins a watch of a request that is in flight since before. It says
// whether one is in flight that is to be looked at again.
func (c *caller) look(before time.Time) (young bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil || c.watched {
		return false
	}
	if c.since.After(before) {
		return true
	}
	c.watched = true
	if c.in.busy() { // the server watches by itself
		c.unwatch = context.AfterFunc(c.ctx, c.end.come)
		return false
	}
	c.peeked = make(chan struct{})
	// Where it cannot be had the connection is closed, which the watch sees.
	_ = c.in.force(time.Time{})
	go c.peek(c.end, c.peeked)
	return false
}

// peek waits until something can be read, and reads nothing.
func (c *caller) peek(e *ending, done chan<- struct{}) {
	defer close(done)
	raw, err := c.SyscallConn()
	if err != nil {
		e.come()
		return
	}
	n := 0
	waited := raw.Read(func(fd uintptr) bool {
		var one [1]byte
		for {
			if n, _, err = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK); err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case isTimeout(waited): // leave
	case waited != nil || err != nil || n == 0:
		e.come()
	}
}

// take hands the connection over, when the server has, or closes it.
func (c *caller) take() (*net.TCPConn, error) {
	c.all.remove(c)
	tcp, err := c.plain()
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return tcp, nil
}
