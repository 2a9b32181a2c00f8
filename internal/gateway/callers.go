package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// callers are the connections that requests come by. One goroutine looks at all
// of them from time to time, so that a request costs nothing that is answered
// before; it sleeps while there is nothing to look for.
type callers struct {
	net.Listener
	sleeps atomic.Bool
	wake   chan struct{} // of one

	mu   sync.Mutex
	open map[*caller]struct{}
	// lingering are those that are closed but for reading; over: none any more.
	lingering map[*caller]struct{}
	over      bool
	parting   sync.WaitGroup
}

func newCallers(l net.Listener) *callers {
	return &callers{Listener: l, wake: make(chan struct{}, 1), open: map[*caller]struct{}{}, lingering: map[*caller]struct{}{}}
}

// Accept is part of net.Listener.
func (cs *callers) Accept() (net.Conn, error) {
	nc, err := cs.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("cannot serve a connection by %T", nc), nc.Close())
	}
	c := &caller{line: newLine(tcp), all: cs}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open[c] = struct{}{}
	return c, nil
}

func (cs *callers) remove(c *caller) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
}

// wakeUp is called after a request began.
func (cs *callers) wakeUp() {
	if cs.sleeps.Load() && cs.sleeps.CompareAndSwap(true, false) {
		select {
		case cs.wake <- struct{}{}:
		default: // it is awake, and has not looked yet
		}
	}
}

// look has all requests watched that are in flight for lookEvery and more, until
// ctx ends. So one whose caller hangs up ends within twice that time.
func (cs *callers) look(ctx context.Context) {
	tick := time.NewTimer(lookEvery)
	defer tick.Stop()
	for {
		// Who begins from here on wakes it; who began before is seen now.
		cs.sleeps.Store(true)
		if !cs.lookOnce(time.Now().Add(-lookEvery)) {
			select {
			case <-cs.wake:
			case <-ctx.Done():
				return
			}
		}
		cs.sleeps.Store(false)
		tick.Reset(lookEvery)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (cs *callers) lookOnce(before time.Time) (young bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		if c.look(before) {
			young = true
		}
	}
	return young
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
