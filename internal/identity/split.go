package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Splitter is [Split] with its numbers. The zero value is good.
type Splitter struct {
	Log              *slog.Logger  // of refused handshakes; slog.Default when nil
	HandshakeTimeout time.Duration // 10 s when zero
	InFlight         int           // handshakes at once, 512 when zero; more wait, and who says nothing for a second gives way to them
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
	s := &split{Splitter: o, ln: ln, cfg: hearing(cfg), slots: make(chan struct{}, o.InFlight), open: 2, failed: make(chan struct{})}
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

	refusals refusalLog

	mu     sync.Mutex
	quiet  []*shaking // those that may not have said hello yet, the oldest first
	gave   int        // of those, how many gave way since it was said
	said   time.Time
	open   int   // halves
	err    error // why accepting ended; set before failed is closed
	failed chan struct{}
}

func (s *split) accept() {
	defer close(s.failed)
	for {
		if !s.place() {
			s.err = net.ErrClosed
			return
		}
		conn, err := s.next()
		if err != nil {
			s.err = err
			return
		}
		x := &shaking{Conn: conn, began: time.Now()}
		s.mu.Lock()
		s.quiet = append(s.quiet, x)
		s.mu.Unlock()
		s.running.Go(func() {
			defer func() { <-s.slots }()
			defer s.forget(x)
			s.shake(x)
		})
	}
}

// place waits for a slot; false says that it is over. Slots come free by
// handshakes that end, or, since connections that say nothing would else keep
// everybody out, by the oldest of those.
func (s *split) place() bool {
	for {
		select {
		case s.slots <- struct{}{}:
			return true
		default:
		}
		select {
		case s.slots <- struct{}{}:
			return true
		case <-time.After(s.giveWay()):
		case <-s.ctx.Done():
			return false
		}
	}
}

// giveWay closes the oldest connection that has said nothing for so long, and
// says when to look again.
func (s *split) giveWay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = slices.DeleteFunc(s.quiet, func(x *shaking) bool { return x.heard.Load() })
	if len(s.quiet) == 0 {
		return mayBeQuiet
	}
	x := s.quiet[0]
	if left := mayBeQuiet - time.Since(x.began); left > 0 {
		return left
	}
	s.quiet = s.quiet[1:]
	x.late.Store(true)
	_ = x.Close() // its handshake ends
	if s.gave++; time.Since(s.said) > saidAgain {
		s.Log.Warn("connections that say nothing keep others waiting, and are closed", "closed", s.gave, "last", x.RemoteAddr().String())
		s.gave, s.said = 0, time.Now()
	}
	return mayBeQuiet
}

func (s *split) forget(x *shaking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = slices.DeleteFunc(s.quiet, func(y *shaking) bool { return x == y })
}

const (
	// mayBeQuiet is for how long a connection may say nothing where others wait.
	mayBeQuiet = time.Second
	saidAgain  = 10 * time.Second
)

// shaking is a connection whose handshake is under way.
type shaking struct {
	net.Conn
	began time.Time
	heard atomic.Bool // all of its hello; a part of one is nothing
	late  atomic.Bool // it gave way
}

// hearing is the configuration, by which a connection is noted whose hello came.
func hearing(cfg *tls.Config) *tls.Config {
	before := cfg.GetConfigForClient
	cfg = cfg.Clone()
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if x, ok := hello.Conn.(*shaking); ok {
			x.heard.Store(true)
		}
		if before == nil {
			return nil, nil // the one in hand
		}
		return before(hello)
	}
	return cfg
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

func (s *split) shake(raw *shaking) {
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
func (s *split) refused(raw *shaking, err error) {
	level, unsaid := slog.LevelDebug, 0
	if s.ctx.Err() == nil && !errors.Is(err, io.EOF) && !raw.late.Load() {
		var say bool
		if unsaid, say = s.refusals.say(source(raw.RemoteAddr())+" "+err.Error(), time.Now()); say {
			level = slog.LevelWarn
		}
	}
	s.Log.Log(s.ctx, level, "handshake refused", "remote", raw.RemoteAddr().String(), "error", err, "unsaid", unsaid)
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
