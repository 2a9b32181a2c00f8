package httpresolver

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/fairlead-platform/fairlead/resolver"
)

// replay has a request's body sent more than once, where that can be.
type replay struct {
	req   *http.Request
	first *untouched // nil: there is no body
}

func replayOf(req *http.Request) *replay {
	b := &replay{req: req}
	if req.Body != nil && req.Body != http.NoBody {
		b.first = &untouched{ReadCloser: req.Body}
	}
	return b
}

// again says whether next can be called once more.
func (b *replay) again() bool {
	return b.first == nil || !b.first.read.Load() || b.req.GetBody != nil
}

// next is the body for one attempt.
func (b *replay) next() (io.ReadCloser, error) {
	switch {
	case b.first == nil:
		return b.req.Body, nil
	case !b.first.read.Load():
		return b.first.send(), nil
	case b.req.GetBody == nil:
		return nil, errors.New("it was read, and the request has no GetBody")
	}
	return b.req.GetBody()
}

// end leaves the caller's body to whoever still sends it, and closes it where
// nobody does, as a RoundTripper must.
func (b *replay) end() {
	if b.first != nil {
		b.first.release()
	}
}

// untouched is the caller's body, which is not closed by whoever sends it as
// long as it may be sent elsewhere.
type untouched struct {
	io.ReadCloser
	read atomic.Bool

	mu       sync.Mutex
	sending  bool // somebody has it who will close it
	released bool // it is sent to nobody else
}

func (u *untouched) Read(p []byte) (int, error) {
	u.read.Store(true)
	return u.ReadCloser.Read(p)
}

func (u *untouched) send() *untouched {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sending = true
	return u
}

func (u *untouched) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sending = false; u.released {
		return u.ReadCloser.Close()
	}
	return nil
}

func (u *untouched) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.released = true; !u.sending {
		_ = u.ReadCloser.Close() // the caller's own
	}
}

// watched is a response's body that says how the exchange ended.
type watched struct {
	io.ReadCloser
	a     *attempt
	once  sync.Once
	bytes atomic.Uint64
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.bytes.Add(uint64(n))
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		w.end(w.a.outcome)
	case cancelled(w.a.x.req.Context(), err):
		w.end(resolver.Unknown)
	default:
		w.end(resolver.Failed)
	}
	return n, err
}

// Close before the end is the caller's choice: what came so far was good.
func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	w.end(w.a.outcome)
	return err
}

func (w *watched) end(o resolver.Outcome) {
	w.once.Do(func() {
		w.a.cancel()
		w.a.pick.DoneBytes(o, w.bytes.Load()+uint64(max(0, w.a.x.req.ContentLength)))
	})
}

// upgraded is the body of a connection that speaks something else from here on.
type upgraded struct {
	*watched
	w io.Writer
}

func (u *upgraded) Write(p []byte) (int, error) { return u.w.Write(p) }
