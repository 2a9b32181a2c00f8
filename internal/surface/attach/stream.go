package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	beatEvery = time.Second
	// queued messages that wait for one stream's sender.
	queued = 64
)

type stream = grpc.BidiStreamingServer[pb.AttachRequest, pb.AttachResponse]

// conn is one stream of one host. It has one sender, so that a host that
// stalls delays only itself.
type conn struct {
	name string
	out  chan *pb.AttachResponse
	gone chan struct{} // closed when the stream is to end
	once sync.Once
	why  string // told to the host before the end; empty means nothing

	mu      sync.Mutex
	pending map[string]chan *pb.CommandResult // :: command → who waits
}

func newConn(name string) *conn {
	return &conn{
		name: name, out: make(chan *pb.AttachResponse, queued), gone: make(chan struct{}),
		pending: map[string]chan *pb.CommandResult{},
	}
}

// end has the stream ended with a reason; only the first one counts.
func (c *conn) end(why string) {
	c.once.Do(func() {
		c.why = why
		close(c.gone)
	})
}

// Attach serves one host's stream.
func (s *Server) Attach(st stream) error {
	h, hello, err := s.hello(st)
	if err != nil {
		return err
	}
	kept := wire.Epoch(hello.GetEpoch())
	epoch, turn, err := s.admit(st.Context(), h, kept)
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, fault.Unavailable) {
			level = slog.LevelDebug // this control does not lead: the host asks the next, or again
		}
		s.log.Log(st.Context(), level, "a host is refused", "name", h.Name, "error", err)
		return st.Send(refusal(err.Error()))
	}
	if err := st.Send(&pb.AttachResponse{Message: &pb.AttachResponse_Welcome{Welcome: &pb.HostWelcome{Epoch: wire.EpochProto(epoch), Relays: s.relays()}}}); err != nil {
		return err
	}
	c := s.join(h, hello, turn)
	if c == nil {
		return st.Send(refusal("this control leads no more"))
	}
	defer s.leave(c)
	received := make(chan error, 1)
	go func() { received <- s.receive(st, c) }() // ends with the stream, which ends when this handler returns
	return s.send(st, c, received)
}

func refusal(reason string) *pb.AttachResponse {
	return &pb.AttachResponse{Message: &pb.AttachResponse_Refusal{Refusal: &pb.HostRefusal{Reason: reason}}}
}

// hello reads who comes, and holds it against the peer's identity.
func (s *Server) hello(st stream) (service.Host, *pb.HostHello, error) {
	peer, err := s.cfg.PeerName(st.Context())
	if err != nil {
		return service.Host{}, nil, fault.ToGRPC(fault.New(fault.Unauthenticated, "", "cannot tell who attaches: %w", err))
	}
	m, err := st.Recv()
	if err != nil {
		return service.Host{}, nil, err
	}
	hello := m.GetHello()
	switch {
	case hello == nil:
		err = fault.New(fault.Invalid, "", "cannot attach without a hello")
	case hello.GetName() != peer:
		err = fault.New(fault.Forbidden, "", "cannot attach as host %q: the identity is %q", hello.GetName(), peer)
	}
	return service.Host{Name: hello.GetName(), Zone: hello.GetZone()}, hello, fault.ToGRPC(err)
}

func (s *Server) admit(ctx context.Context, h service.Host, kept view.Epoch) (view.Epoch, int, error) {
	s.mu.Lock()
	deposed, turn := s.deposed, s.turn
	s.mu.Unlock()
	if deposed != "" {
		return view.Epoch{}, 0, fault.New(fault.Unavailable, "", "%s", deposed)
	}
	epoch, err := s.cfg.Admit(ctx, h, kept)
	return epoch, turn, err
}

func (s *Server) relays() []string {
	if s.cfg.Relays == nil {
		return nil
	}
	return s.cfg.Relays()
}

// send is the stream's one sender. It returns when the receiver has, or when
// the stream is to end.
func (s *Server) send(st stream, c *conn, received <-chan error) error {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		var m *pb.AttachResponse
		// Something to send, the second is over, the host went away, or the
		// stream is to end.
		select {
		case m = <-c.out:
		case <-beat.C:
			m = &pb.AttachResponse{Message: &pb.AttachResponse_Beat{Beat: &pb.HostBeat{Relays: s.relays()}}}
		case err := <-received:
			return err
		case <-c.gone:
			if c.why == "" {
				return nil
			}
			return st.Send(refusal(c.why))
		}
		if err := st.Send(m); err != nil {
			return err
		}
	}
}

func (s *Server) receive(st stream, c *conn) error {
	for {
		m, err := st.Recv()
		if err != nil {
			return err
		}
		switch {
		case m.GetReport() != nil:
			s.report(c, m.GetReport())
		case m.GetResult() != nil:
			c.answer(m.GetResult())
		case m.GetLeaving() != nil:
			s.says(c, nil, m.GetLeaving())
		case m.GetBeat().GetRoom() != nil:
			s.says(c, m.GetBeat().GetRoom(), nil)
		}
		s.heard(c)
	}
}

func (c *conn) answer(r *pb.CommandResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if who, ok := c.pending[r.GetId()]; ok {
		delete(c.pending, r.GetId())
		who <- r // has room for the one answer
	}
}

// put queues a message for the sender; an error means that it was not sent.
func (c *conn) put(ctx context.Context, m *pb.AttachResponse) error {
	select {
	case <-c.gone:
		return fault.New(fault.Unavailable, "", "cannot reach host %q: %w", c.name, ErrAbsent)
	default:
	}
	select {
	case c.out <- m:
		return nil
	case <-c.gone:
		return fault.New(fault.Unavailable, "", "cannot reach host %q: %w", c.name, ErrAbsent)
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "", "cannot reach host %q, which does not take what is sent: %w", c.name, ctx.Err())
	}
}

// FetchArtifact sends an artifact's bytes.
func (s *Server) FetchArtifact(r *pb.FetchArtifactRequest, st grpc.ServerStreamingServer[pb.FetchArtifactResponse]) error {
	if s.cfg.Artifacts == nil {
		return fault.ToGRPC(fault.New(fault.NotFound, "", "cannot find artifact %q: there are none", r.GetDigest()))
	}
	body, err := s.cfg.Artifacts(st.Context(), r.GetDigest())
	if err != nil {
		return fault.ToGRPC(err)
	}
	defer body.Close()
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if serr := st.Send(&pb.FetchArtifactResponse{Chunk: buf[:n]}); serr != nil {
				return serr
			}
		}
		if isEOF(err) {
			return nil
		}
		if err != nil {
			return fault.ToGRPC(fmt.Errorf("cannot read artifact %q: %w", r.GetDigest(), err))
		}
	}
}
