package attach_test

import (
	"context"
	"encoding/binary"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/surface/attach"
	"github.com/fairlead-platform/fairlead/view"
)

// scripted is a stream whose host says what a fuzzer wrote: each message is two
// bytes of length and its protobuf.
type scripted struct {
	grpc.ServerStream
	ctx context.Context
	in  []byte
}

func (s *scripted) Context() context.Context      { return s.ctx }
func (s *scripted) SendHeader(metadata.MD) error  { return nil }
func (s *scripted) Send(*pb.AttachResponse) error { return nil }
func (s *scripted) Recv() (*pb.AttachRequest, error) {
	if len(s.in) < 2 {
		return nil, io.EOF
	}
	n := min(int(binary.BigEndian.Uint16(s.in)), len(s.in)-2)
	m := &pb.AttachRequest{}
	err := proto.Unmarshal(s.in[2:2+n], m)
	s.in = s.in[2+n:]
	return m, err
}

func script(f *testing.F, messages ...*pb.AttachRequest) []byte {
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

// FuzzWhatAHostSays checks that nothing a host says harms the server, or makes
// it known, or an instance its own, under a name that is not the host's.
func FuzzWhatAHostSays(f *testing.F) {
	hello := &pb.AttachRequest{Message: &pb.AttachRequest_Hello{Hello: &pb.HostHello{Name: "h", Zone: "z", Session: "s"}}}
	report := &pb.AttachRequest{Message: &pb.AttachRequest_Report{Report: &pb.HostReport{Full: true, Slots: []string{"a-00001.0"}, Instances: []*pb.InstanceReport{{
		Id: "i", Slot: "a-00001.0", Service: "a", Revision: "a-00001", State: "live", LiveFor: durationpb.New(-1), Restarts: -1,
	}}}}}
	f.Add(script(f, hello))
	f.Add(script(f, hello, report, &pb.AttachRequest{Message: &pb.AttachRequest_Report{Report: &pb.HostReport{Gone: []string{"i", "j"}}}}))
	f.Add(script(f, hello, &pb.AttachRequest{Message: &pb.AttachRequest_Result{Result: &pb.CommandResult{Id: "none", Error: "e", Code: "c"}}}))
	f.Add(script(f, report, hello))
	f.Add(script(f, hello, &pb.AttachRequest{}, hello))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := attach.New(attach.Config{
			PeerName: func(context.Context) (string, error) { return "h", nil },
			Admit: func(context.Context, service.Host, view.Epoch) (view.Epoch, error) {
				return view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}, nil
			},
		})
		// An end is an end, with or without an error; what counts is what is left.
		_ = s.Attach(&scripted{ctx: t.Context(), in: in})
		for _, h := range s.States() {
			if h.Name != "h" || h.Connected {
				t.Fatalf("known after the stream: %+v", h)
			}
			for _, i := range h.Instances {
				if i.Host != "h" {
					t.Fatalf("an instance of host %q was taken from host h", i.Host)
				}
			}
		}
	})
}
