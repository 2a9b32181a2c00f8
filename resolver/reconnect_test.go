package resolver

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// shortPlane welcomes, sends a view to who has an older one, and ends the stream
// at once. It ends by itself when it has done so often enough.
type shortPlane struct {
	pb.UnimplementedSubscriptionServiceServer
	view    *view.Service
	streams atomic.Int64
	marks   [2]int64           // streams after which done is told
	done    [2]chan struct{}   // closed at these
	hold    [2]<-chan struct{} // waited for then
}

func (p *shortPlane) Subscribe(s pb.SubscriptionService_SubscribeServer) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	if err := s.Send(&pb.SubscribeResponse{Message: &pb.SubscribeResponse_Welcome{Welcome: &pb.SubscribeWelcome{Epoch: wire.EpochProto(p.view.Epoch)}}}); err != nil {
		return err
	}
	if p.streams.Load() == 0 {
		if err := s.Send(&pb.SubscribeResponse{Message: &pb.SubscribeResponse_Change{Change: wire.ChangeProto(p.view.ChangeFrom(nil), p.view.Epoch)}}); err != nil {
			return err
		}
	}
	n := p.streams.Add(1)
	for i, mark := range p.marks {
		if n == mark {
			close(p.done[i])
			select {
			case <-p.hold[i]:
			case <-s.Context().Done():
			}
		}
	}
	return status.Error(codes.Unavailable, "one stream more")
}

func TestACallersMemoryIsTheSameBeforeAndAfterTenThousandReconnections(t *testing.T) {
	const warm, n = 500, reconnections
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first, second := make(chan struct{}), make(chan struct{})
	e := view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}
	p := &shortPlane{
		view: payments(e, 1, many(100)...), marks: [2]int64{warm, warm + n},
		done: [2]chan struct{}{make(chan struct{}), make(chan struct{})}, hold: [2]<-chan struct{}{first, second},
	}
	server := grpc.NewServer()
	pb.RegisterSubscriptionServiceServer(server, p)
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-serving; err != nil {
			t.Error(err)
		}
	}()
	cfg := Config{StateDir: t.TempDir(), Services: []string{"payments"}, Plane: []string{listener.Addr().String()}, Name: "g", Identity: "none"}
	cfg.fill()
	r, err := open(t.Context(), cfg, ViewsConfig{
		Name: "g", Dial: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
		Authenticated: func(*peer.Peer) bool { return true }, Jitter: func() float64 { return 0 }, // at once, each time
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, r)
	await := func(done chan struct{}) (inUse uint64, goroutines int) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(5 * time.Minute):
			t.Fatalf("after %d streams it subscribes no more: %+v", p.streams.Load(), r.Status())
		}
		return heap(), runtime.NumGoroutine()
	}
	before, ran := await(p.done[0])
	close(first)
	after, runs := await(p.done[1])
	if after > before+before/4+1<<20 || runs > ran+10 {
		t.Errorf("%d KiB and %d goroutines before, %d KiB and %d after", before>>10, ran, after>>10, runs)
	}
	t.Logf("%d KiB and %d goroutines before, %d KiB and %d after", before>>10, ran, after>>10, runs)
	if pick, err := r.Pick("payments"); err != nil {
		t.Error(err)
	} else {
		pick.Done(Good)
	}
	close(second)
}
