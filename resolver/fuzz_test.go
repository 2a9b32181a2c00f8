package resolver

import (
	"context"
	"encoding/binary"
	"io"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// scripted is a stream whose control says what a fuzzer wrote: each message is
// two bytes of length and its protobuf.
type scripted struct {
	grpc.ClientStream
	ctx context.Context
	in  []byte
}

func (s *scripted) Context() context.Context     { return s.ctx }
func (s *scripted) Header() (metadata.MD, error) { return nil, nil }
func (s *scripted) Send(*pb.FollowRequest) error { return nil }
func (s *scripted) Recv() (*pb.FollowResponse, error) {
	if len(s.in) < 2 {
		return nil, io.EOF
	}
	n := min(int(binary.BigEndian.Uint16(s.in)), len(s.in)-2)
	m := &pb.FollowResponse{}
	err := proto.Unmarshal(s.in[2:2+n], m)
	s.in = s.in[2+n:]
	return m, err
}

func said(f *testing.F, messages ...*pb.FollowResponse) []byte {
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

// FuzzWhatAControlSays checks that nothing a control says harms its follower,
// empties it, or makes its versions fall.
func FuzzWhatAControlSays(f *testing.F) {
	e := view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}
	next := func(counter uint64, routes ...view.Route) *view.Table {
		return view.NewTable(view.Version{Incarnation: "i", Epoch: 1, Counter: counter}, e, routes)
	}
	welcome := &pb.FollowResponse{Message: &pb.FollowResponse_Welcome{Welcome: &pb.FollowWelcome{Epoch: wire.EpochProto(e)}}}
	routes := func(d view.Delta) *pb.FollowResponse {
		return &pb.FollowResponse{Message: &pb.FollowResponse_Routes{Routes: wire.DeltaProto(d)}}
	}
	held := someHeld(f, 7)
	f.Add(said(f, welcome, routes(next(8).Whole())), true)
	f.Add(said(f, welcome, routes(next(9, view.Route{Service: "a", Sequence: 9, Hosts: []string{"A"}}).DeltaFrom(held.Told()))), true)
	f.Add(said(f, welcome, welcome), false)
	f.Add(said(f, routes(next(8).Whole())), false)
	f.Add(said(f, &pb.FollowResponse{Message: &pb.FollowResponse_Refusal{Refusal: &pb.FollowRefusal{Leader: "x"}}}), false)
	f.Add(said(f, &pb.FollowResponse{}, welcome, &pb.FollowResponse{Message: &pb.FollowResponse_Routes{}}), true)
	f.Fuzz(func(t *testing.T, in []byte, authenticated bool) {
		h, err := OpenHolder(HolderConfig{
			Name: "g", Path: filepath.Join(t.TempDir(), "routes"), Controls: []string{"127.0.0.1:1"},
			Authenticated: func(*peer.Peer) bool { return authenticated },
		})
		if err != nil {
			t.Fatal(err)
		}
		h.held, h.keepErr = held, io.ErrShortWrite // a disk that refuses is not waited for
		h.table.Store(held.Serving())
		ctx := peer.NewContext(t.Context(), &peer.Peer{})
		s := &session{h: h, stream: &scripted{ctx: ctx, in: in}, watch: time.NewTimer(time.Hour), welcome: make(chan struct{})}
		if err := s.receive(ctx); err == nil {
			t.Fatal("a stream ended without a reason")
		}
		told := h.held.Told()
		if told.Version.Against(held.Told().Version) == view.Older {
			t.Fatalf("fell to %s", told.Version)
		}
		if _, ok := h.Table().Route("a"); !ok {
			t.Fatalf("service a went unnamed: %+v", h.Table().Routes())
		}
		h.hello()
		h.acknowledgement()
		h.Status()
	})
}
