package stream_test

import (
	"context"
	"encoding/binary"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
)

// scripted is a stream whose gateway says what a fuzzer wrote: each message
// is two bytes of length and its protobuf.
type scripted struct {
	grpc.ServerStream
	ctx context.Context
	in  []byte
}

func (s *scripted) Context() context.Context      { return s.ctx }
func (s *scripted) SendHeader(metadata.MD) error  { return nil }
func (s *scripted) Send(*pb.FollowResponse) error { return nil }
func (s *scripted) SendMsg(any) error             { return nil }
func (s *scripted) Recv() (*pb.FollowRequest, error) {
	if len(s.in) < 2 {
		return nil, io.EOF
	}
	n := min(int(binary.BigEndian.Uint16(s.in)), len(s.in)-2)
	m := &pb.FollowRequest{}
	err := proto.Unmarshal(s.in[2:2+n], m)
	s.in = s.in[2+n:]
	return m, err
}

func script(f *testing.F, messages ...*pb.FollowRequest) []byte {
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

// FuzzWhatAGatewaySays checks that nothing a gateway says harms the server or
// makes it known under a name that is not its own.
func FuzzWhatAGatewaySays(f *testing.F) {
	hello := &pb.FollowRequest{Message: &pb.FollowRequest_Hello{Hello: &pb.FollowHello{Name: "g", Session: "s"}}}
	held := &pb.Held{Version: &pb.Version{Incarnation: "i", Epoch: 1, Counter: 2}, Digest: "x"}
	f.Add(script(f, hello))
	f.Add(script(f, hello, &pb.FollowRequest{Message: &pb.FollowRequest_Ack{Ack: &pb.FollowAck{
		Serves: held, Keeps: held, Refused: []*pb.RefusedRoute{{Service: "a", Reason: "b"}}, KeepError: "full",
	}}}))
	f.Add(script(f, hello, &pb.FollowRequest{Message: &pb.FollowRequest_Goodbye{}}))
	f.Add(script(f, hello, &pb.FollowRequest{}, hello))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := stream.New(stream.Config{Admit: admitAll, PeerName: nameInMetadata})
		ctx, cancel := context.WithCancel(metadata.NewIncomingContext(t.Context(), metadata.Pairs("name", "g")))
		defer cancel()
		if err := s.Follow(&scripted{ctx: ctx, in: in}); err == nil && len(in) < 2 {
			// An end before hello is an end like any other.
			return
		}
		for _, g := range s.States() {
			if g.Name != "g" || g.Connected {
				t.Fatalf("known after the stream: %+v", g)
			}
		}
	})
}
