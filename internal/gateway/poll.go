package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// beatEvery is how often a stream without other news says that it lives.
const beatEvery = time.Second

// pollServer is what hosts dial.
type pollServer struct {
	pb.UnimplementedPollServiceServer
	g *Gateway
}

// Poll holds one host's stream. Its own goroutine sends, and another receives,
// so that neither waits for the other; the first to fail ends the stream.
func (p *pollServer) Poll(stream grpc.BidiStreamingServer[pb.PollRequest, pb.PollResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello.GetHost() == "" {
		return status.Error(codes.InvalidArgument, "the first message must be a hello that names its host")
	}
	if err := p.admit(stream.Context(), hello); err != nil {
		return err
	}
	g := p.g
	h, box := g.room.attach(hello.GetHost(), &pb.PollWelcome{Gateway: g.cfg.Name, Session: g.cfg.Session, Process: thisProcess()})
	defer g.room.detach(h, box)
	log := g.log.With("host", h.name)
	log.Info("host polls", "session", hello.GetSession())
	received := make(chan error, 1)
	go func() { received <- p.receive(stream, h, box) }()
	err = p.send(stream, box, received)
	log.Info("host's poll stream ended", "error", err)
	return err
}

func (p *pollServer) admit(ctx context.Context, hello *pb.PollHello) error {
	if p.g.cfg.PeerName == nil {
		return nil
	}
	name, err := p.g.cfg.PeerName(ctx)
	if err != nil {
		return status.Errorf(codes.Unauthenticated, "cannot tell which host this is: %v", err)
	}
	if name != hello.GetHost() {
		return status.Errorf(codes.PermissionDenied, "host %q may not speak for host %q", name, hello.GetHost())
	}
	return nil
}

// send passes on what is in the outbox. Three things wake it: news, the time of
// a beat, and the end of the stream.
func (p *pollServer) send(stream grpc.BidiStreamingServer[pb.PollRequest, pb.PollResponse], box *outbox, received <-chan error) error {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case err := <-received:
			return err
		case <-p.g.stopping:
			return status.Error(codes.Unavailable, "the gateway stops")
		case <-box.replaced:
			return status.Error(codes.Aborted, "the host polls by a newer stream")
		case <-box.wake:
			for _, m := range box.take() {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
		case <-beat.C:
			if err := stream.Send(&pb.PollResponse{Message: &pb.PollResponse_Beat{Beat: &pb.PollBeat{}}}); err != nil {
				return err
			}
		}
	}
}

func (p *pollServer) receive(stream grpc.BidiStreamingServer[pb.PollRequest, pb.PollResponse], h *host, box *outbox) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if !p.handle(h, box, m) {
			return status.Error(codes.Aborted, "the host polls by a newer stream")
		}
	}
}

// handle obeys one message. False means that the stream is not the present one.
func (p *pollServer) handle(h *host, box *outbox, m *pb.PollRequest) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.box.Load() != box {
		return false
	}
	rm := p.g.room
	switch m := m.GetMessage().(type) {
	case *pb.PollRequest_Offer:
		h.offered[m.Offer.GetInstance()] = true
		if err := rm.offer(h, m.Offer); err != nil {
			p.g.log.Error("offer not taken", "error", err)
		}
	case *pb.PollRequest_Terminating:
		rm.withdraw(h, m.Terminating.GetInstance())
	case *pb.PollRequest_Gone:
		p.end(h, m.Gone.GetInstance())
	case *pb.PollRequest_Recall:
		rm.recall(h, m.Recall.GetInstance(), int(m.Recall.GetCredits()))
	case *pb.PollRequest_Synced:
		for _, id := range rm.instancesOf(h, h.offered) {
			p.g.log.Info("instance is gone: its host does not offer it any more", "host", h.name, "instance", id)
			p.end(h, id)
		}
	}
	return true
}

// end closes what is open to an instance whose process is gone, and says so
// when nothing is left.
func (p *pollServer) end(h *host, id string) {
	delete(h.offered, id)
	done := p.g.room.gone(h, id)
	p.g.closing.Go(func() {
		<-done
		if box := h.box.Load(); box != nil {
			box.change(func() { box.ended[id] = struct{}{} })
		}
	})
}
