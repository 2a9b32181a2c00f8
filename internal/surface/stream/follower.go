package stream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// helloTimeout bounds how long a stream may stay without its first message.
const helloTimeout = 5 * time.Second

// follower is one gateway's open stream. Three goroutines share it: the handler
// decides, the reader receives, the sender sends; nobody else sends once it runs.
type follower struct {
	s      *Server
	stream pb.ViewService_FollowServer
	name   string
	ctx    context.Context // ends with the stream, or when another replaced it
	cancel context.CancelFunc
	in     chan *pb.FollowRequest // closed by the reader

	once    sync.Once
	refusal *pb.FollowRefusal // why it was ended from here, written before cancel
	readErr error             // written before in is closed
}

// Follow serves one gateway until either side ends it.
func (s *Server) Follow(stream pb.ViewService_FollowServer) error {
	name, err := s.cfg.PeerName(stream.Context())
	if err != nil {
		return status.Errorf(codes.Unauthenticated, "cannot tell who follows: %v", err)
	}
	if err := stream.SendHeader(nil); err != nil { // says that this control lives
		return err
	}
	f := &follower{s: s, stream: stream, name: name, in: make(chan *pb.FollowRequest)}
	f.ctx, f.cancel = context.WithCancel(stream.Context())
	defer f.cancel()
	go f.read()
	hello, err := f.hello()
	if err != nil {
		return err
	}
	s.replace(f)
	defer s.leave(f)
	g := stateOf(hello)
	epoch, err := s.cfg.Admit(f.ctx, g)
	if err != nil {
		return f.refuse(err)
	}
	if !s.enter(f, g, epoch) {
		return f.over(nil)
	}
	return f.serve(epoch, hello.GetServes())
}

// read receives until the stream ends. It says that something was heard even
// while the handler is busy.
func (f *follower) read() {
	defer close(f.in)
	for {
		m, err := f.stream.Recv()
		if err != nil {
			f.readErr = err
			return
		}
		f.s.hear(f)
		select {
		case f.in <- m:
		case <-f.ctx.Done():
			f.readErr = f.ctx.Err()
			return
		}
	}
}

func (f *follower) hello() (*pb.FollowHello, error) {
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select {
	case m, ok := <-f.in:
		if !ok {
			return nil, f.over(f.readErr)
		}
		hello := m.GetHello()
		if hello == nil {
			return nil, status.Error(codes.InvalidArgument, "the first message must be hello")
		}
		if hello.GetName() != f.name {
			return nil, status.Errorf(codes.PermissionDenied, "%q may not follow as %q", f.name, hello.GetName())
		}
		return hello, nil
	case <-timer.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "no hello within %s", helloTimeout)
	}
}

func stateOf(h *pb.FollowHello) service.GatewayState {
	return service.GatewayState{
		Name: h.GetName(), Session: h.GetSession(), Poll: h.GetPollAddress(), Public: h.GetPublicAddress(),
		Library:   h.GetLibrary(),
		Connected: true,
		Serves:    wire.Version(h.GetServes().GetVersion()), ServesDigest: h.GetServes().GetDigest(),
		Keeps: wire.Version(h.GetKeeps().GetVersion()), Epoch: wire.Epoch(h.GetEpoch()),
	}
}

func (f *follower) refuse(err error) error {
	if f.ctx.Err() != nil {
		return f.over(nil)
	}
	r := &pb.FollowRefusal{Reason: err.Error()}
	var other interface{ Leader() string }
	if errors.As(err, &other) {
		r.Leader = other.Leader()
	}
	return f.stream.Send(&pb.FollowResponse{Message: &pb.FollowResponse_Refusal{Refusal: r}})
}

// stuckTimeout is how long a sender is waited for when its stream is over;
// one that is stuck in a stalled stream is let go by returning.
const stuckTimeout = 200 * time.Millisecond

// serve runs until the gateway leaves, the stream breaks, or it is ended from here.
func (f *follower) serve(epoch view.Epoch, held *pb.Held) error {
	sent := make(chan error, 1)
	go func() { sent <- f.send(epoch, held) }()
	err, failed := f.listen(epoch, sent)
	f.cancel()
	if !failed {
		timer := time.NewTimer(stuckTimeout)
		defer timer.Stop()
		select {
		case <-sent:
		case <-timer.C:
		}
	}
	return err
}

// listen handles what the gateway says. It says whether the sender ended by itself.
func (f *follower) listen(epoch view.Epoch, sent <-chan error) (err error, failed bool) {
	for {
		// The gateway says something, the sender fails, or the stream is
		// ended; each leaves the others nothing to do but to end.
		select {
		case m, ok := <-f.in:
			if !ok {
				return f.over(f.readErr), false
			}
			if leaves, err := f.handle(m, epoch); leaves || err != nil {
				return err, false
			}
		case err := <-sent:
			if f.ctx.Err() != nil {
				err = f.over(nil)
			}
			return err, true
		case <-f.ctx.Done():
			return f.over(nil), false
		}
	}
}

func (f *follower) handle(m *pb.FollowRequest, epoch view.Epoch) (leaves bool, err error) {
	switch m := m.GetMessage().(type) {
	case *pb.FollowRequest_Ack:
		f.s.acknowledge(f, m.Ack, epoch)
	case *pb.FollowRequest_Beat:
		f.s.beat(f, m.Beat)
	case *pb.FollowRequest_Goodbye:
		if f.s.cfg.Goodbye != nil {
			if err := f.s.cfg.Goodbye(f.ctx, f.name); err != nil {
				return false, status.Errorf(codes.Unavailable, "cannot end the membership: %v", err)
			}
		}
		f.s.forget(f)
		return true, nil
	case *pb.FollowRequest_Hello:
		return false, status.Error(codes.InvalidArgument, "hello is said once")
	}
	return false, nil
}

// end ends the stream from here; it does not wait. The refusal is sent by
// whoever sends, where that is not stuck.
func (f *follower) end(r *pb.FollowRefusal) {
	f.once.Do(func() {
		f.refusal = r
		f.cancel()
	})
}

// over is what the gateway is told when its stream is over.
func (f *follower) over(readErr error) error {
	f.once.Do(func() {}) // from here on the refusal does not change
	switch {
	case f.refusal != nil:
		return status.Error(codes.Aborted, f.refusal.GetReason())
	case errors.Is(readErr, io.EOF):
		return nil
	default:
		return status.Error(codes.Canceled, "the stream ended")
	}
}
