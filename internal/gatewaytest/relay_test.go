package gatewaytest_test

import (
	"net"
	"sync"
	"testing"
)

// relay carries TCP connections to where backend points, and can swallow them.
type relay struct {
	listener net.Listener
	backend  func() string
	wg       sync.WaitGroup

	mu     sync.Mutex
	cut    bool
	healed chan struct{}
	conns  map[net.Conn]bool // :: connection → open
	closed bool
}

func newRelay(t *testing.T, backend func() string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, backend: backend, healed: make(chan struct{}), conns: map[net.Conn]bool{}}
	r.wg.Go(r.accept)
	return r
}

func (r *relay) Address() string { return r.listener.Addr().String() }

func (r *relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
}

// Heal lets new connections through; those that were swallowed end.
func (r *relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.healLocked()
}

func (r *relay) healLocked() {
	r.cut = false
	close(r.healed)
	r.healed = make(chan struct{})
	for c := range r.conns {
		c.Close()
	}
}

func (r *relay) Close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	r.healLocked()
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.carry(c) })
	}
}

// track notes an open connection; it is false when none may be open any more.
func (r *relay) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.conns[c] = true
	return true
}

func (r *relay) untrack(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	c.Close()
}

func (r *relay) carry(c net.Conn) {
	defer c.Close()
	if !r.track(c) {
		return
	}
	defer r.untrack(c)
	if !r.pass() {
		return
	}
	b, err := net.Dial("tcp", r.backend())
	if err != nil {
		return
	}
	defer b.Close()
	if !r.track(b) {
		return
	}
	defer r.untrack(b)
	var back sync.WaitGroup
	back.Go(func() { r.copy(c, b) })
	r.copy(b, c)
	back.Wait()
}

// copy closes both ends when either has ended.
func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !r.pass() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// pass waits while cut off; what waited is not to be carried.
func (r *relay) pass() bool {
	r.mu.Lock()
	cut, healed := r.cut, r.healed
	r.mu.Unlock()
	if cut {
		<-healed
	}
	return !cut
}
