package gateway

import (
	"context"
	"net"
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

// lookOut calls hungUp when the caller's connection has been closed from afar,
// which the server does not notice while a body is unread. It ends with ctx.
func lookOut(ctx context.Context, hungUp func(), c *caller) {
	tick := time.NewTicker(hangupInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if closedFromAfar(c.TCPConn) {
				hungUp()
				return
			}
		}
	}
}
