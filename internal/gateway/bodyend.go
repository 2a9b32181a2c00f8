package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// malformed returns what is wrong with the body itself; nil when nothing is, or
// when the caller merely went away in the midst of it.
func (b *body) malformed() error {
	if b.src == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var lost net.Error
	if errors.Is(b.err, io.ErrUnexpectedEOF) || errors.As(b.err, &lost) {
		return nil
	}
	return b.err
}

// slow says that the body failed by coming too slowly.
func (b *body) slow() bool {
	if b.src == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Is(b.err, errSlow)
}

// stop ends the reading before the handler returns. A caller that has not sent
// everything loses its connection: what follows on it is no request.
func (b *body) stop(x *exchange) {
	if b.src == nil {
		return
	}
	b.halt(x)
	b.abort()
	if b.reading.Load() {
		x.caller.spoiled.Store(true)
	}
}

// halt returns when the body is read no more.
func (b *body) halt(x *exchange) {
	if !b.started {
		return
	}
	b.mu.Lock()
	b.stopped = true
	b.to = nil
	b.cond.Broadcast()
	b.mu.Unlock()
	select {
	case <-b.done:
		return
	default:
	}
	if b.reading.Load() {
		if err := http.NewResponseController(x.w).SetReadDeadline(time.Unix(1, 0)); err != nil {
			x.g.log.Debug("cannot end the reading of a body", "error", err)
		}
	}
	<-b.done
}

func (b *body) release() {
	if b.buf != nil {
		holds.Put(b.buf)
	}
}
