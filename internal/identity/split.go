package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Splitter is [Split] with its numbers. The zero value is good.
type Splitter struct {
	Log              *slog.Logger  // of refused handshakes; slog.Default when nil
	HandshakeTimeout time.Duration // 10 s when zero
	InFlight         int           // handshakes at once, 512 when zero; more wait
}

// Split shakes hands on one TLS listener and gives the connections of roles
// with a valid identity (for a grpc-go server with [ServerCredentials]) to the
// first listener, and all others (operators, expired, nobody) to the second,
// for an http.Server with a nil TLSConfig. Both give *tls.Conn, already shaken.
// The listener below is closed when both halves are.
func Split(ln net.Listener, cfg *tls.Config) (roles, others net.Listener) {
	return Splitter{}.Split(ln, cfg)
}

// Split is the function of that name.
func (o Splitter) Split(ln net.Listener, cfg *tls.Config) (roles, others net.Listener) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.InFlight <= 0 {
		o.InFlight = 512
	}
	s := &split{Splitter: o, ln: ln, cfg: cfg, slots: make(chan struct{}, o.InFlight), open: 2, failed: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.roles, s.others = newHalf(s), newHalf(s)
	s.running.Go(s.accept)
	return s.roles, s.others
}

type split struct {
	Splitter
	ln            net.Listener
	cfg           *tls.Config
	roles, others *half
	slots         chan struct{} // one is held from accept to delivery

	ctx     context.Context // ends when both halves are closed
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	open   int   // halves
	err    error // why accepting ended; set before failed is closed
	failed chan struct{}
}

func (s *split) accept() {
	defer close(s.failed)
	for {
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			s.err = net.ErrClosed
			return
		}
		conn, err := s.next()
		if err != nil {
			s.err = err
			return
		}
		s.running.Go(func() {
			defer func() { <-s.slots }()
			s.shake(conn)
		})
	}
}

// next accepts, and waits out what passes by itself (no file descriptor left).
func (s *split) next() (net.Conn, error) {
	for delay := 5 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		conn, err := s.ln.Accept()
		var passing interface{ Temporary() bool }
		if err == nil || !errors.As(err, &passing) || !passing.Temporary() {
			return conn, err
		}
		s.Log.Debug("cannot accept a connection, waiting", "error", err, "wait", delay)
		select {
		case <-time.After(delay):
		case <-s.ctx.Done():
			return nil, net.ErrClosed
		}
	}
}

func (s *split) shake(raw net.Conn) {
	ctx, cancel := context.WithTimeout(s.ctx, s.HandshakeTimeout)
	defer cancel()
	conn := tls.Server(raw, s.cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		s.refused(raw, err)
		return
	}
	to := s.others
	if _, err := rolePeer(conn.ConnectionState(), s.now()); err == nil {
		to = s.roles
	}
	to.deliver(conn)
}

func (s *split) now() time.Time {
	if s.cfg.Time == nil {
		return time.Now()
	}
	return s.cfg.Time()
}

// refused closes the connection. The client is told no more than an alert, so
// the reason is logged here; a peer that just went away is of no interest.
func (s *split) refused(raw net.Conn, err error) {
	level := slog.LevelWarn
	if s.ctx.Err() != nil || errors.Is(err, io.EOF) {
		level = slog.LevelDebug
	}
	s.Log.Log(s.ctx, level, "handshake refused", "remote", raw.RemoteAddr().String(), "error", err)
	_ = raw.Close() // nothing is lost with it
}

// closeHalf ends everything with the second half, and waits for it.
func (s *split) closeHalf() error {
	s.mu.Lock()
	s.open--
	last := s.open == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	s.cancel()
	err := s.ln.Close()
	s.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

type half struct {
	split *split
	conns chan *tls.Conn
	once  sync.Once
	done  chan struct{}
}

func newHalf(s *split) *half {
	return &half{split: s, conns: make(chan *tls.Conn), done: make(chan struct{})}
}

func (h *half) deliver(conn *tls.Conn) {
	select {
	case h.conns <- conn:
	case <-h.done:
		_ = conn.Close() // the server of this half is gone
	case <-h.split.ctx.Done():
		_ = conn.Close()
	}
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.done:
		return nil, net.ErrClosed
	case <-h.split.failed:
		return nil, h.split.err
	}
}

func (h *half) Close() (err error) {
	h.once.Do(func() {
		close(h.done)
		err = h.split.closeHalf()
	})
	return err
}

func (h *half) Addr() net.Addr { return h.split.ln.Addr() }
