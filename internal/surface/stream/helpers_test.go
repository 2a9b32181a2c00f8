package stream_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var leader = view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}

func admitAll(context.Context, service.GatewayState) (view.Epoch, error) { return leader, nil }

func table(counter uint64, revisions ...string) *view.Table {
	var routes []view.Route
	for _, r := range revisions {
		service := r[:1]
		routes = append(routes, view.Route{
			Service: service, Sequence: counter, Hosts: []string{service + ".localhost"},
			Splits: []view.Split{{Revision: r, Percent: 100, Group: r, Allowed: []string{r}}},
		})
	}
	return view.NewTable(view.Version{Incarnation: "i", Epoch: 1, Counter: counter}, leader, routes)
}

func nameInMetadata(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if names := md.Get("name"); len(names) == 1 {
		return names[0], nil
	}
	return "", errors.New("no name")
}

// serve runs a server on loopback and returns a client of it.
func serve(t testing.TB, cfg stream.Config) (*stream.Server, pb.ViewServiceClient) {
	t.Helper()
	if cfg.Admit == nil {
		cfg.Admit = admitAll
	}
	cfg.PeerName = nameInMetadata
	s := stream.New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(stream.ServerOptions()...)
	s.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, pb.NewViewServiceClient(conn)
}

// raw is a follower without rules, driven by a test.
type raw struct {
	t testing.TB
	pb.ViewService_FollowClient
}

func follow(t testing.TB, c pb.ViewServiceClient, name string, hello *pb.FollowHello) raw {
	t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "name", name))
	t.Cleanup(cancel)
	f, err := c.Follow(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if hello == nil {
		hello = &pb.FollowHello{Name: name, Session: "s1"}
	}
	r := raw{t, f}
	r.say(&pb.FollowRequest{Message: &pb.FollowRequest_Hello{Hello: hello}})
	return r
}

func (r raw) say(m *pb.FollowRequest) {
	r.t.Helper()
	if err := r.Send(m); err != nil {
		r.t.Fatal(err)
	}
}

func (r raw) ack(t *view.Table) {
	r.t.Helper()
	h := wire.HeldProto(t.Version, t.Digest.String())
	r.say(&pb.FollowRequest{Message: &pb.FollowRequest_Ack{Ack: &pb.FollowAck{Serves: h, Keeps: h}}})
}

// next is the next message that is no beat.
func (r raw) next() *pb.FollowResponse {
	r.t.Helper()
	for {
		m, err := r.Recv()
		if err != nil {
			r.t.Fatal(err)
		}
		if m.GetBeat() == nil {
			return m
		}
	}
}

func (r raw) welcome() view.Epoch {
	r.t.Helper()
	m := r.next()
	if m.GetWelcome() == nil {
		r.t.Fatalf("got %v, want a welcome", m)
	}
	return wire.Epoch(m.GetWelcome().GetEpoch())
}

func (r raw) delta() view.Delta {
	r.t.Helper()
	m := r.next()
	d, err := wire.Delta(m.GetRoutes())
	if m.GetRoutes() == nil || err != nil {
		r.t.Fatalf("got %v (%v), want a table", m, err)
	}
	return d
}

// ended reads until the stream ends, and returns why.
func (r raw) ended() error {
	r.t.Helper()
	deadline := time.AfterFunc(gatewaytest.Patience, func() { r.t.Error("the stream did not end") })
	defer deadline.Stop()
	for {
		if _, err := r.Recv(); err != nil {
			return err
		}
	}
}
