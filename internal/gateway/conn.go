package gateway

import (
	"bufio"
	"errors"
	"net"
	"net/textproto"
	"sync/atomic"
	"syscall"
	"time"
)

var errHeadTooLarge = errors.New("the head of the response is too large")

// conn is one connection to an instance. One exchange uses it at a time.
type conn struct {
	tcp  *line
	pool *pool
	raw  syscall.RawConn
	br   *bufio.Reader
	bw   *bufio.Writer
	text textproto.Reader

	// written counts the bytes of the present exchange that the kernel took.
	written atomic.Int64
	// received counts those that came.
	received atomic.Int64
	// budget is what the head of a response may still take; negative: no bound.
	budget int
	// broke is the last error of reading.
	broke     error
	idleSince time.Time
	closed    atomic.Bool
	// peek looks at the socket without waiting, and sets dead.
	peek func(fd uintptr) bool
	dead bool
	one  [1]byte
}

func newConn(tcp *net.TCPConn, p *pool) (*conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{tcp: newLine(tcp), pool: p, raw: raw, budget: -1}
	c.br = bufio.NewReaderSize(c, 4<<10)
	c.bw = bufio.NewWriterSize(c, 4<<10)
	c.text.R = c.br
	c.peek = func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), c.one[:])
		c.dead = err != syscall.EAGAIN
		return true
	}
	return c, nil
}

// alive says that an idle connection can be used: the instance has neither
// closed it nor sent what nobody asked for.
func (c *conn) alive() bool {
	if c.closed.Load() || c.br.Buffered() > 0 || time.Since(c.idleSince) > idleFor {
		return false
	}
	err := c.raw.Read(c.peek)
	if isTimeout(err) { // of an exchange before
		if err = c.tcp.in.force(time.Time{}); err == nil {
			err = c.raw.Read(c.peek)
		}
	}
	return err == nil && !c.dead
}

func (c *conn) Read(b []byte) (int, error) {
	if c.budget < 0 {
		n, err := c.tcp.Read(b)
		c.took(n)
		return n, err
	}
	if c.budget == 0 {
		c.broke = errHeadTooLarge
		return 0, errHeadTooLarge
	}
	if len(b) > c.budget {
		b = b[:c.budget]
	}
	n, err := c.tcp.Read(b)
	c.budget -= n
	c.took(n)
	if err != nil {
		c.broke = err
	}
	return n, err
}

func (c *conn) took(n int) {
	if n > 0 {
		c.received.Add(int64(n))
		c.pool.heard.Add(1)
	}
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.tcp.Write(b)
	if n > 0 {
		c.written.Add(int64(n))
	}
	return n, err
}

// Close may be called more than once, and by others than the exchange.
func (c *conn) Close() {
	if c.closed.CompareAndSwap(false, true) {
		c.tcp.Close()
		c.pool.forget(c)
	}
}
