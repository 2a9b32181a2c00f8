package views_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; it is never what is measured.
const patience = 20 * time.Second

var (
	first  = view.Epoch{Incarnation: "01JDXH3W8PZ6QK2M4N5R7S9TVW", Number: 1, Nonce: "n"}
	second = view.Epoch{Incarnation: first.Incarnation, Number: 2, Nonce: "m"}
)

// published makes a view with so many endpoints in rotation.
func published(e view.Epoch, service string, counter uint64, endpoints int) *view.Service {
	s := &view.Service{Name: service, Epoch: e, Version: view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: counter}}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, view.Endpoint{ID: fmt.Sprintf("i%04d", i), Address: "127.0.0.1:1", Weight: 1000, Verdict: view.Eligible})
	}
	s.Marks = []view.ZoneMark{{Group: service + "-00001", Counted: endpoints, In: endpoints}}
	return s
}

func nameInMetadata(ctx context.Context) (role, name string, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if names := md.Get("name"); len(names) == 1 {
		if role, name, ok := strings.Cut(names[0], "/"); ok {
			return role, name, nil
		}
		for _, role := range []string{"relay", "service"} {
			if strings.HasPrefix(names[0], role) {
				return role, names[0], nil
			}
		}
		return "gateway", names[0], nil
	}
	return "", "", errors.New("no name")
}

// serve runs a server on loopback and returns what dials it.
func serve(t testing.TB, cfg views.Config) (*views.Server, func() pb.SubscriptionServiceClient) {
	t.Helper()
	cfg.Peer = nameInMetadata
	s := views.New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	s.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, func() pb.SubscriptionServiceClient {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return pb.NewSubscriptionServiceClient(conn)
	}
}

// raw is a subscriber without rules, driven by a test.
type raw struct {
	t testing.TB
	pb.SubscriptionService_SubscribeClient
	epoch view.Epoch
}

func subscribe(t testing.TB, c pb.SubscriptionServiceClient, name string, hello *pb.SubscribeHello) *raw {
	t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "name", name))
	t.Cleanup(cancel)
	stream, err := c.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if hello == nil {
		hello = &pb.SubscribeHello{Name: name[strings.Index(name, "/")+1:], Session: "s1", Library: "test 1", Features: views.Features()}
	}
	r := &raw{t: t, SubscriptionService_SubscribeClient: stream}
	r.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Hello{Hello: hello}})
	return r
}

func (r *raw) say(m *pb.SubscribeRequest) {
	r.t.Helper()
	if err := r.Send(m); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) edit(e *pb.SubscriptionEdit) {
	r.t.Helper()
	r.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: e}})
}

// add names services of which nothing is held.
func (r *raw) add(services ...string) *raw {
	r.t.Helper()
	e := &pb.SubscriptionEdit{}
	for _, s := range services {
		e.Add = append(e.Add, &pb.Subscription{Service: s})
	}
	r.edit(e)
	return r
}

// holding names a service of which a view is held.
func (r *raw) holding(s *view.Service) *raw {
	r.t.Helper()
	r.edit(&pb.SubscriptionEdit{Add: []*pb.Subscription{{Service: s.Name, Held: wire.HeldProto(s.Version, s.Digest().String())}}})
	return r
}

func (r *raw) applied(s *view.Service, objection string) {
	r.t.Helper()
	r.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Applied{Applied: &pb.ViewsApplied{Views: []*pb.AppliedView{
		{Service: s.Name, Epoch: s.Version.Epoch, Counter: s.Version.Counter, Objection: objection},
	}}}})
}

// next is the next message that is no beat.
func (r *raw) next() *pb.SubscribeResponse {
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

func (r *raw) welcome() *raw {
	r.t.Helper()
	m := r.next()
	if m.GetWelcome() == nil {
		r.t.Fatalf("got %v, want a welcome", m)
	}
	was := r.epoch.Incarnation
	if r.epoch = wire.Epoch(m.GetWelcome().GetEpoch()); r.epoch.Incarnation == "" {
		r.epoch.Incarnation = was
	}
	return r
}

func (r *raw) change() view.Change {
	r.t.Helper()
	m := r.next()
	c, err := wire.Change(m.GetChange(), "", r.epoch)
	if m.GetChange() == nil || err != nil {
		r.t.Fatalf("got %v (%v), want a change", m, err)
	}
	return c
}

// ended reads until the stream ends, and returns the refusal and why.
func (r *raw) ended() (refusal *pb.FollowRefusal, err error) {
	r.t.Helper()
	deadline := time.AfterFunc(patience, func() { r.t.Error("the stream did not end") })
	defer deadline.Stop()
	for {
		m, err := r.Recv()
		if err != nil {
			return refusal, err
		}
		if m.GetRefusal() != nil {
			refusal = m.GetRefusal()
		}
	}
}

// eventually waits for what gives no signal.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

// holders as one line, e.g. "a 1/3 current, b 1/2".
func holders(s *views.Server, service string) string {
	var out []string
	for _, h := range s.Holders(service) {
		text := fmt.Sprintf("%s %d/%d", h.Name, h.Version.Epoch, h.Version.Counter)
		if h.Current {
			text += " current"
		}
		if !h.Connected {
			text += " away"
		}
		if h.Objection != "" {
			text += " but " + h.Objection
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
