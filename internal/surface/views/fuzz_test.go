package views_test

import (
	"context"
	"encoding/binary"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

// scripted is a stream whose subscriber says what a fuzzer wrote: each message
// is two bytes of length and its protobuf.
type scripted struct {
	grpc.ServerStream
	ctx context.Context
	in  []byte
}

func (s *scripted) Context() context.Context         { return s.ctx }
func (s *scripted) SendHeader(metadata.MD) error     { return nil }
func (s *scripted) Send(*pb.SubscribeResponse) error { return nil }
func (s *scripted) SendMsg(any) error                { return nil }
func (s *scripted) Recv() (*pb.SubscribeRequest, error) {
	if len(s.in) < 2 {
		return nil, io.EOF
	}
	n := min(int(binary.BigEndian.Uint16(s.in)), len(s.in)-2)
	m := &pb.SubscribeRequest{}
	err := proto.Unmarshal(s.in[2:2+n], m)
	s.in = s.in[2+n:]
	return m, err
}

func script(f *testing.F, messages ...*pb.SubscribeRequest) []byte {
	var out []byte
	for _, m := range messages {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(b))), b...)
	}
	return out
}

// FuzzWhatASubscriberSays checks that nothing a subscriber says harms the
// server, makes it known under a name that is not its own, or has it take a
// view that was never published for held.
func FuzzWhatASubscriberSays(f *testing.F) {
	hello := &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Hello{Hello: &pb.SubscribeHello{Name: "g", Session: "s"}}}
	held := &pb.Held{Version: &pb.Version{Incarnation: first.Incarnation, Epoch: 1, Counter: 2}, Digest: "x"}
	edit := &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: &pb.SubscriptionEdit{
		Add: []*pb.Subscription{{Service: "a", Held: held}, {}}, Drop: []string{"a", "b"},
	}}}
	applied := &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Applied{Applied: &pb.ViewsApplied{Views: []*pb.AppliedView{{Service: "a", Epoch: 9, Counter: 1 << 60}, {}}}}}
	f.Add(script(f, hello))
	f.Add(script(f, hello, edit, applied))
	f.Add(script(f, hello, &pb.SubscribeRequest{}, hello))
	f.Add(script(f, applied))
	tally := &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Tally{Tally: &pb.RelayTally{Services: []*pb.ServiceTally{{Service: "a", Subscribers: 1 << 31, Versions: []*pb.VersionTally{{Epoch: 1, Counter: 2, Subscribers: 9}}}}}}}
	f.Add(script(f, hello, edit, tally))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := views.New(views.Config{Peer: nameInMetadata})
		s.Begin(first)
		s.Publish(published(first, "a", 2, 1), view.Adds)
		ctx, cancel := context.WithCancel(metadata.NewIncomingContext(t.Context(), metadata.Pairs("name", "g")))
		defer cancel()
		_ = s.Subscribe(&scripted{ctx: ctx, in: in}) // an end like any other
		s.Publish(published(first, "a", 3, 2), view.Withdraws)
		for _, x := range s.Subscribers() {
			if x.Name != "g" || x.Connected {
				t.Fatalf("known after the stream: %+v", x)
			}
		}
		for _, h := range s.Holders("a") {
			if h.Current {
				t.Fatalf("it is taken to hold what was never sent to it: %+v", h)
			}
		}
	})
}
