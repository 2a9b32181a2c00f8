package gateway

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// line is a TCP connection whose deadlines cost next to nothing: many are set
// for each request, and hardly any is ever reached.
type line struct {
	*net.TCPConn
	in, out limit
}

func newLine(tcp *net.TCPConn) *line {
	l := &line{TCPConn: tcp}
	l.in.tell, l.out.tell = tcp.SetReadDeadline, tcp.SetWriteDeadline
	return l
}

// limit is the deadline of one direction. The runtime has one that strikes at
// the wanted time or before it. Where it strikes before it, that is passed over,
// and only then is the runtime told the wanted one. So no wait ends early or
// late, and a deadline that moves on with each request is told once in its own
// length, not once per request.
type limit struct {
	tell func(time.Time) error // the runtime

	mu         sync.Mutex
	want, told time.Time // zero: none
	waiting    bool      // somebody waits under told
}

// set wants another deadline. Who waits already is bound by it as well.
func (m *limit) set(t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.want = t
	if m.waiting {
		return m.hurryLocked()
	}
	return nil
}

// hurryLocked tells the wanted deadline if the one that was told is later.
func (m *limit) hurryLocked() error {
	if m.want.IsZero() || !m.told.IsZero() && !m.told.After(m.want) {
		return nil
	}
	return m.tellLocked(m.want)
}

func (m *limit) tellLocked(t time.Time) error {
	m.told = t
	return m.tell(t)
}

// force tells a deadline, whatever is wanted; that is minded by who waits next.
func (m *limit) force(t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tellLocked(t)
}

func (m *limit) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.hurryLocked(); err != nil {
		return err
	}
	m.waiting = true
	return nil
}

// leave says that the deadline struck before the wanted one, which was told
// now, so that the wait is to go on.
func (m *limit) leave(err error) (early bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = false
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if !m.want.IsZero() && !time.Now().Before(m.want) {
		return false
	}
	return m.tellLocked(m.want) == nil
}

// busy says that somebody waits.
func (m *limit) busy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting
}

func (l *line) Read(b []byte) (int, error) {
	for {
		if err := l.in.enter(); err != nil {
			return 0, err
		}
		n, err := l.TCPConn.Read(b)
		if !l.in.leave(err) {
			return n, err
		}
	}
}

func (l *line) Write(b []byte) (n int, err error) {
	for {
		if err := l.out.enter(); err != nil {
			return n, err
		}
		k, err := l.TCPConn.Write(b[n:])
		n += k
		if !l.out.leave(err) {
			return n, err
		}
	}
}

// SetReadDeadline is part of net.Conn.
func (l *line) SetReadDeadline(t time.Time) error { return l.in.set(t) }

// SetWriteDeadline is part of net.Conn.
func (l *line) SetWriteDeadline(t time.Time) error { return l.out.set(t) }

// SetDeadline is part of net.Conn.
func (l *line) SetDeadline(t time.Time) error {
	return errors.Join(l.in.set(t), l.out.set(t))
}

// plain is the connection itself, without any deadline.
func (l *line) plain() (*net.TCPConn, error) {
	return l.TCPConn, errors.Join(l.SetDeadline(time.Time{}), l.in.force(time.Time{}), l.out.force(time.Time{}))
}
