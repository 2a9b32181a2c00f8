package gateway

import (
	"net"

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
