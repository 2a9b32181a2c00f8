package relay_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// bare keeps streams open and holds nothing of them: what is left is the
// transport's own.
type bare struct {
	pb.UnimplementedSubscriptionServiceServer
}

func (bare) Subscribe(stream pb.SubscriptionService_SubscribeServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	welcome := &pb.SubscribeWelcome{Epoch: wire.EpochProto(first)}
	if err := stream.Send(&pb.SubscribeResponse{Message: &pb.SubscribeResponse_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// subscribed has n subscribers of ten of 450 services each at a server, and
// returns what all of it takes, clients included.
func subscribed(b *testing.B, n int, register func(*grpc.Server), settled func() bool) float64 {
	b.Helper()
	before := inUse()
	at, stop := listening(b, "", register)
	defer stop()
	conns := connections(b, n/100, at, "caller")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	open := make([]*stream, n)
	for i := range open {
		name := fmt.Sprint("c", i)
		r := streamingOn(outgoing(ctx, "caller", name), b, conns[i%len(conns)], name, nil)
		if _, err := r.next(); err != nil {
			b.Fatal(err)
		}
		e := &pb.SubscriptionEdit{}
		for k := range 10 {
			held := published(first, fmt.Sprintf("s%03d", (i*10+k)%450), 1, 20)
			e.Add = append(e.Add, &pb.Subscription{Service: held.Name, Held: wire.HeldProto(held.Version, held.Digest().String())})
		}
		r.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: e}})
		open[i] = r
	}
	until(b, "all have subscribed", settled)
	time.Sleep(100 * time.Millisecond) // what is on its way
	took := inUse() - before
	runtime.KeepAlive(open)
	return took
}

// BenchmarkMemory measures what a subscriber of ten of 450 services takes at a
// relay beside the transport's own.
func BenchmarkMemory(b *testing.B) {
	const n = 2000
	for b.Loop() {
		own := subscribed(b, n, func(g *grpc.Server) { pb.RegisterSubscriptionServiceServer(g, bare{}) }, func() bool { return true })
		s := views.New(views.Config{Peer: who, Unlimited: true})
		s.Begin(first)
		for i := range 450 {
			s.Publish(published(first, fmt.Sprintf("s%03d", i), 1, 20), view.Adds)
		}
		all := subscribed(b, n, func(g *grpc.Server) { s.Register(g) }, func() bool { return s.Connected() == n && len(s.Holders("s000")) > 0 })
		b.ReportMetric((all-own)/n, "B/subscriber")
		b.ReportMetric(own/n, "B/transport")
	}
}
