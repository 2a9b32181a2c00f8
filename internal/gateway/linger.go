package gateway

import (
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// Closing a connection on which something is unread, or yet comes, resets it,
// and the reset overtakes the answer: a caller that still sends learns that it
// cannot, and not what it was told. So such a connection is closed for writing
// only, and what comes is thrown away, until the caller closes it too or
// lingerFor has passed.

// Close is part of net.Conn. A server that closes it amid a request ends that.
// A second one leaves alone what the first lets linger.
func (c *caller) Close() error {
	if c.closing.Swap(true) && c.all.lingers(c) {
		return nil
	}
	c.all.remove(c)
	var err error
	switch {
	case c.torn.Load():
		err = errors.Join(c.SetLinger(0), c.line.Close())
	case !c.owed() || c.CloseWrite() != nil || !c.all.linger(c):
		err = c.line.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		c.end.come()
	}
	return err
}

// owed says that the caller sent, or may yet send, what nobody will read.
func (c *caller) owed() bool {
	return c.spoiled.Load() || c.heard.Load() || unread(c.TCPConn) > 0
}

// unread is how many bytes came that were not read.
func unread(c *net.TCPConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	if err := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }); err != nil {
		return 0
	}
	return n
}

// part closes a connection that a request spoiled as soon as its answer was
// written, before the server takes what follows for a request and answers it.
func part(c net.Conn, s http.ConnState) {
	if c, ok := c.(*caller); ok && s == http.StateIdle && c.spoiled.Load() {
		_ = c.Close() // whoever is gone need not be parted from
	}
}

// linger has the rest of a connection read in a goroutine of its own. False:
// there is no time for that any more.
func (cs *callers) linger(c *caller) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.over {
		return false
	}
	cs.lingering[c] = struct{}{}
	cs.parting.Go(func() {
		defer cs.parted(c)
		if c.in.force(time.Now().Add(lingerFor)) == nil {
			discard(c.TCPConn)
		}
	})
	return true
}

// discard reads until the other end has closed, or the deadline.
func discard(c *net.TCPConn) {
	buf := copies.Get().(*[]byte)
	defer copies.Put(buf)
	for {
		if _, err := c.Read(*buf); err != nil {
			return
		}
	}
}

func (cs *callers) parted(c *caller) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.lingering, c)
	_ = c.TCPConn.Close() // nothing is lost with it
}

func (cs *callers) lingers(c *caller) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	_, ok := cs.lingering[c]
	return ok
}

// cut lets nothing linger from here on.
func (cs *callers) cut() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.over = true
	for c := range cs.lingering {
		_ = c.TCPConn.Close() // its reader sees that
	}
}
