package gateway

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var errInstanceGone = errors.New("the instance is gone")

// pool holds the connections to one instance. They belong to its identity and
// close with it.
type pool struct {
	address string
	ctx     context.Context // ends with the instance
	cancel  context.CancelFunc
	// heard counts the reads that brought something; joined are connections that
	// were joined to a caller's, where nobody looks at what comes.
	heard  atomic.Uint64
	joined atomic.Int32

	mu      sync.Mutex
	idle    []*conn
	live    map[*conn]struct{}
	dialing int
	closed  bool
	empty   chan struct{} // closed when it is closed and no connection is left
}

func newPool(address string) *pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &pool{
		address: address, ctx: ctx, cancel: cancel,
		live: map[*conn]struct{}{}, empty: make(chan struct{}),
	}
}

// get returns a connection that is idle and alive, or dials one.
func (p *pool) get(e *ending, by time.Time) (*conn, error) {
	p.mu.Lock()
	for n := len(p.idle); n > 0 && !p.closed; n = len(p.idle) {
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if c.alive() {
			c.written.Store(0)
			c.received.Store(0)
			return c, nil
		}
		c.Close()
		p.mu.Lock()
	}
	if p.closed {
		p.mu.Unlock()
		return nil, errInstanceGone
	}
	p.dialing++
	p.mu.Unlock()
	return p.dial(e, by)
}

func (p *pool) dial(e *ending, by time.Time) (*conn, error) {
	ctx, cancel := context.WithDeadline(p.ctx, by)
	defer cancel()
	if !e.guard(closing(cancel)) {
		cancel()
	}
	defer e.release()
	d := net.Dialer{KeepAlive: 15 * time.Second}
	nc, err := d.DialContext(ctx, "tcp", p.address)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing--
	if err != nil {
		p.doneLocked()
		return nil, err
	}
	c, err := newConn(nc.(*net.TCPConn), p)
	if err == nil && p.closed {
		err = errInstanceGone
	}
	if err != nil {
		nc.Close()
		p.doneLocked()
		return nil, err
	}
	p.live[c] = struct{}{}
	return c, nil
}

// put keeps a connection whose exchange is complete.
func (p *pool) put(c *conn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	if !p.closed && len(p.idle) < maxIdleConns {
		p.idle = append(p.idle, c)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	c.Close()
}

func (p *pool) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, c)
	p.doneLocked()
}

func (p *pool) doneLocked() {
	if p.closed && len(p.live) == 0 && p.dialing == 0 {
		select {
		case <-p.empty:
		default:
			close(p.empty)
		}
	}
}

// closeIdle closes what has been idle for longer than d.
func (p *pool) closeIdle(d time.Duration) {
	now := time.Now()
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idleSince) >= d {
		n++
	}
	old := append([]*conn(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	p.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

// close ends every connection, also those in use. Done is closed when none is left.
func (p *pool) close() (done <-chan struct{}) {
	p.mu.Lock()
	p.closed = true
	all := make([]*conn, 0, len(p.live))
	for c := range p.live {
		all = append(all, c)
	}
	p.idle = nil
	p.doneLocked()
	p.mu.Unlock()
	p.cancel()
	for _, c := range all {
		c.Close()
	}
	return p.empty
}
