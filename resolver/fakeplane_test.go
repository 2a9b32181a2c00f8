package resolver

import (
	"context"
	"io"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// noSocket is a plane without sockets, for virtual time: what it sends is read
// from channels.
type noSocket struct {
	mu    sync.Mutex
	away  error // refuses connections; nil lets them in
	epoch view.Epoch
	// region of its views.
	region string
	views  map[string]*view.Service
	open   map[*noStream]struct{}
	dials  int
	// applied is what was acknowledged last.
	applied []*pb.AppliedView
	// slowest bounds the back-off of who is refused; zero is the product's.
	slowest time.Duration
}

func newNoSocket() *noSocket {
	return &noSocket{epoch: view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}, views: map[string]*view.Service{}, open: map[*noStream]struct{}{}}
}

// config of views that follow it.
func (p *noSocket) config() ViewsConfig {
	return ViewsConfig{Name: "g", slowest: p.slowest, connect: func(string) (link, error) { return noLink{p}, nil }, Authenticated: func(*peer.Peer) bool { return true }}
}

// goAway breaks every stream and refuses to be dialled, until come.
func (p *noSocket) goAway(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = why
	for s := range p.open {
		s.cancel()
	}
}

func (p *noSocket) come() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = nil
}

// publish sends a view, as it is, to whoever is connected and whoever comes.
func (p *noSocket) publish(v *view.Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.views[v.Name] = v
	for s := range p.open {
		s.say(v)
	}
}

func (p *noSocket) dialled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

type noLink struct{ p *noSocket }

func (l noLink) Close() error { return nil }
func (l noLink) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Unimplemented, "no calls here")
}

func (l noLink) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != pb.SubscriptionService_Subscribe_FullMethodName {
		return nil, status.Error(codes.Unimplemented, "no reports here")
	}
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials++
	if p.away != nil {
		return nil, p.away
	}
	s := &noStream{p: p, out: make(chan *pb.SubscribeResponse, 1000)}
	s.ctx, s.cancel = context.WithCancel(peer.NewContext(ctx, &peer.Peer{}))
	p.open[s] = struct{}{}
	context.AfterFunc(s.ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, s)
	})
	return s, nil
}

// noStream is one subscription.
type noStream struct {
	p      *noSocket
	ctx    context.Context
	cancel context.CancelFunc
	out    chan *pb.SubscribeResponse
}

func (s *noStream) Context() context.Context     { return s.ctx }
func (s *noStream) Header() (metadata.MD, error) { return nil, s.ctx.Err() }
func (s *noStream) Trailer() metadata.MD         { return nil }
func (s *noStream) CloseSend() error             { return nil }

func (s *noStream) say(v *view.Service) {
	s.out <- &pb.SubscribeResponse{Message: &pb.SubscribeResponse_Change{Change: wire.ChangeProto(v.ChangeFrom(nil), v.Epoch)}}
}

func (s *noStream) SendMsg(m any) error {
	if s.ctx.Err() != nil {
		return io.EOF
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	request, _ := m.(*pb.SubscribeRequest)
	if request.GetHello() != nil {
		s.out <- &pb.SubscribeResponse{Message: &pb.SubscribeResponse_Welcome{Welcome: &pb.SubscribeWelcome{Epoch: wire.EpochProto(s.p.epoch), Region: s.p.region}}}
	}
	if a := request.GetApplied(); a != nil {
		s.p.applied = a.GetViews()
	}
	for _, sub := range request.GetEdit().GetAdd() {
		v := s.p.views[sub.GetService()]
		held := wire.Version(sub.GetHeld().GetVersion())
		if v != nil && (held.Incarnation != v.Version.Incarnation || held.Epoch != v.Version.Epoch || held.Counter != v.Version.Counter) {
			s.say(v)
		}
	}
	return nil
}

// RecvMsg is what is said, or a beat each second.
func (s *noStream) RecvMsg(into any) error {
	beat := time.NewTimer(time.Second)
	defer beat.Stop()
	response, _ := into.(*pb.SubscribeResponse)
	select {
	case m := <-s.out:
		response.Message = m.GetMessage()
	case <-beat.C:
		response.Message = &pb.SubscribeResponse_Beat{Beat: &pb.FollowBeat{}}
	case <-s.ctx.Done():
		return status.Error(codes.Unavailable, "the plane has gone away")
	}
	return nil
}

// heap is how many bytes are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
