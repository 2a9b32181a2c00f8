package relay_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// stream is a subscriber without rules, driven by a test.
type stream struct {
	t testing.TB
	pb.SubscriptionService_SubscribeClient
	welcome *pb.SubscribeWelcome
	epoch   view.Epoch
	refusal *pb.FollowRefusal
}

func streaming(t testing.TB, at, role, name string, hello *pb.SubscribeHello) *stream {
	t.Helper()
	conn, err := grpc.NewClient(at, dial(role, name)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(func() { cancel(); conn.Close() })
	return streamingOn(ctx, t, conn, name, hello)
}

func streamingOn(ctx context.Context, t testing.TB, conn *grpc.ClientConn, name string, hello *pb.SubscribeHello) *stream {
	t.Helper()
	s, err := pb.NewSubscriptionServiceClient(conn).Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if hello == nil {
		hello = &pb.SubscribeHello{Name: name, Session: "s", Library: "test", Features: views.Features(), RelaysFailed: true}
	}
	r := &stream{t: t, SubscriptionService_SubscribeClient: s}
	r.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Hello{Hello: hello}})
	return r
}

func (r *stream) say(m *pb.SubscribeRequest) {
	if err := r.Send(m); err != nil {
		r.t.Logf("cannot send: %v", err) // who receives says why
	}
}

func (r *stream) add(names ...string) {
	e := &pb.SubscriptionEdit{}
	for _, s := range names {
		e.Add = append(e.Add, &pb.Subscription{Service: s})
	}
	r.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: e}})
}

func (r *stream) holding(s *view.Service) {
	r.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: &pb.SubscriptionEdit{
		Add: []*pb.Subscription{{Service: s.Name, Held: wire.HeldProto(s.Version, s.Digest().String())}},
	}}})
}

// next is the next message that is neither a beat nor of doors, or why the
// stream ended.
func (r *stream) next() (*pb.SubscribeResponse, error) {
	for {
		m, err := r.Recv()
		if err != nil {
			return nil, err
		}
		switch x := m.GetMessage().(type) {
		case *pb.SubscribeResponse_Beat, *pb.SubscribeResponse_Doors:
			continue
		case *pb.SubscribeResponse_Welcome:
			was := r.epoch.Incarnation
			if r.welcome, r.epoch = x.Welcome, wire.Epoch(x.Welcome.GetEpoch()); r.epoch.Incarnation == "" {
				r.epoch.Incarnation = was
			}
		case *pb.SubscribeResponse_Refusal:
			r.refusal = x.Refusal
		}
		return m, nil
	}
}

// change is the next change; welcomes before it are taken.
func (r *stream) change() view.Change {
	r.t.Helper()
	for {
		m, err := r.next()
		if err != nil {
			r.t.Fatal(err)
		}
		if m.GetWelcome() != nil {
			continue
		}
		c, err := wire.Change(m.GetChange(), r.welcome.GetRegion(), r.epoch)
		if m.GetChange() == nil || err != nil {
			r.t.Fatalf("got %v (%v), want a change", m, err)
		}
		return c
	}
}

// rawly subscribes once with what is held, and returns the change to a version.
func rawly(t testing.TB, at, name string, held *view.Service, want view.Version) view.Change {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		r := streaming(t, at, "caller", name, nil)
		r.holding(held)
		if c := r.change(); c.To == want {
			return c
		}
	}
	t.Fatalf("%s never came", want)
	return view.Change{}
}
