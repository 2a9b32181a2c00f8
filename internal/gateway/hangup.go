package gateway

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// States of a TCP connection after the other end closed it, as the kernel
// numbers them.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// closedFromAfar asks the kernel for the state of a connection, reading nothing.
func closedFromAfar(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		closed = err == nil && (info.State == tcpClose || info.State == tcpCloseWait)
	})
	return err != nil || closed
}

// callerKey finds a caller's connection in its context.
type callerKey struct{}

// caller is the connection that requests come by, one after the other.
type caller struct {
	tcp *net.TCPConn
	// spoiled says that a request's body was not read to its end: what is read
	// next is the rest of it, or worse, what its sender would have us take for a
	// request.
	spoiled atomic.Bool
}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

func withCaller(ctx context.Context, c net.Conn) context.Context {
	if tcp, ok := c.(*net.TCPConn); ok {
		return context.WithValue(ctx, callerKey{}, &caller{tcp: tcp})
	}
	return ctx
}

func spoil(r *http.Request) {
	if c := callerOf(r.Context()); c != nil {
		c.spoiled.Store(true)
	}
}

func spoiled(r *http.Request) bool {
	c := callerOf(r.Context())
	return c != nil && c.spoiled.Load()
}

// lookOut calls hungUp when the caller's connection has been closed from afar,
// which the server does not notice while a body is unread. It ends with ctx.
func lookOut(ctx context.Context, hungUp func(), r *http.Request) {
	c := callerOf(r.Context())
	if c == nil {
		return
	}
	tick := time.NewTicker(hangupInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if closedFromAfar(c.tcp) {
				hungUp()
				return
			}
		}
	}
}
