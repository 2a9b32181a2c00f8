package gateway

import (
	"errors"
	"sync"
)

var errEnded = errors.New("the request ended before it was answered")

// ending is the end of a request before its answer: its caller hung up, or its
// body failed. It does what a context would, and costs a request nothing.
type ending struct {
	news chan struct{} // of one; for who waits in the queue

	mu    sync.Mutex
	over  bool
	close closer // what to close when the end comes; nil: nothing
}

// closer is what an end closes.
type closer interface{ Close() }

// closing makes a closer of a function.
type closing func()

// Close calls the function.
func (f closing) Close() { f() }

func newEnding() *ending { return &ending{news: make(chan struct{}, 1)} }

// renew makes it good for another request; nobody else has it any more.
func (e *ending) renew() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over, e.close = false, nil
	select {
	case <-e.news:
	default:
	}
}

// come ends the request. Only the first counts.
func (e *ending) come() {
	e.mu.Lock()
	c, first := e.close, !e.over
	e.over, e.close = true, nil
	e.mu.Unlock()
	if !first {
		return
	}
	e.news <- struct{}{}
	if c != nil {
		c.Close()
	}
}

func (e *ending) came() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over
}

// guard has c closed when the end comes; false: it came already.
func (e *ending) guard(c closer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return false
	}
	e.close = c
	return true
}

// release ends guard. False means that the end came, and that what was guarded
// is closed, or about to be.
func (e *ending) release() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.close = nil
	return !e.over
}
