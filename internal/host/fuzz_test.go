package host

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// each gives the messages of a script: two bytes of length and the protobuf.
func each[M proto.Message](in []byte, make func() M, say func(M)) {
	for len(in) >= 2 {
		n := min(int(binary.BigEndian.Uint16(in)), len(in)-2)
		m := make()
		if proto.Unmarshal(in[2:2+n], m) == nil {
			say(m)
		}
		in = in[2+n:]
	}
}

func scriptOf(f *testing.F, messages ...proto.Message) []byte {
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

// idleHost is a host that was not run: it records what it is told, and starts nothing.
func idleHost(t *testing.T) *Host {
	t.Helper()
	dir := t.TempDir()
	h, err := New(Config{
		Name: "alpha", Dir: filepath.Join(dir, "host"), PortDir: filepath.Join(dir, "ports"), UserDir: filepath.Join(dir, "users"),
		DialControl: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.folder.close)
	return h
}

// FuzzWhatAControlSaysToAHost checks that no list of gateways or command harms
// a host, and that it obeys nothing below the highest epoch that it kept.
func FuzzWhatAControlSaysToAHost(f *testing.F) {
	epoch := &pb.Epoch{Incarnation: "i", Number: 2, Nonce: "n"}
	older := &pb.Epoch{Incarnation: "i", Number: 1, Nonce: "m"}
	assign := &pb.HostCommand_Assign{Assign: &pb.AssignCommand{Slot: "a-00001.0", Service: "a", Revision: "a-00001", Template: &pb.Template{Command: []string{"x"}}}}
	f.Add(scriptOf(f, &pb.HostCommand{Id: "1", Epoch: epoch, Command: assign}, &pb.HostCommand{Id: "2", Epoch: older, Command: &pb.HostCommand_Stop{Stop: &pb.StopCommand{Slot: "a-00001.0"}}}))
	f.Add(scriptOf(f, &pb.HostCommand{Epoch: epoch}, &pb.HostCommand{Command: assign}))
	f.Add(scriptOf(f, &pb.HostCommand{Epoch: epoch, Command: &pb.HostCommand_Assign{Assign: &pb.AssignCommand{Slot: "../../x", Service: "a", Revision: "a"}}}))
	f.Fuzz(func(t *testing.T, in []byte) {
		h := idleHost(t)
		var highest uint64 // of one incarnation
		each(in, func() *pb.HostCommand { return &pb.HostCommand{} }, func(c *pb.HostCommand) {
			if c.GetPrepare() != nil {
				return // it would look for artifacts at a control that is not there
			}
			err := h.obey(t.Context(), c)
			if e := c.GetEpoch(); e.GetIncarnation() == "i" {
				if err == nil && e.GetNumber() < highest {
					t.Fatalf("a command of epoch %d was obeyed after one of %d", e.GetNumber(), highest)
				}
				if err == nil {
					highest = e.GetNumber()
				}
			} else if err == nil {
				highest = 0
			}
		})
	})
}

// FuzzWhatAGatewaySaysToAHost checks that no message of a gateway makes credits:
// what it says it returns is never more than it held.
func FuzzWhatAGatewaySaysToAHost(f *testing.F) {
	f.Add(scriptOf(f, &pb.PollResponse{Message: &pb.PollResponse_Returned{Returned: &pb.Return{Instance: "i", Credits: 5}}}))
	f.Add(scriptOf(f, &pb.PollResponse{Message: &pb.PollResponse_Returned{Returned: &pb.Return{Instance: "i", Credits: -5}}},
		&pb.PollResponse{Message: &pb.PollResponse_Refused{Refused: &pb.Refused{Instance: "i", Credits: 9}}}))
	f.Add(scriptOf(f, &pb.PollResponse{Message: &pb.PollResponse_Demand{Demand: &pb.Demand{Group: "g", Waiting: -1}}},
		&pb.PollResponse{Message: &pb.PollResponse_Withdrawn{Withdrawn: &pb.Withdrawn{Instance: "i"}}}, &pb.PollResponse{}))
	f.Fuzz(func(t *testing.T, in []byte) {
		const all = 3
		l := newLedger()
		l.know([]string{"gw"})
		l.connect("gw", nil)
		l.open("i", "g", all, false)
		each(in, func() *pb.PollResponse { return &pb.PollResponse{} }, func(m *pb.PollResponse) {
			switch {
			case m.GetReturned() != nil:
				l.returned("gw", m.GetReturned().GetInstance(), int(m.GetReturned().GetCredits()))
			case m.GetRefused() != nil:
				l.refuse("gw", m.GetRefused().GetInstance(), int(m.GetRefused().GetCredits()))
			case m.GetDemand() != nil:
				l.demand("gw", m.GetDemand().GetGroup(), int(m.GetDemand().GetWaiting()))
			}
			if held := l.held("i"); held < 0 || held > all {
				t.Fatalf("%d of %d credits are held after %v", held, all, m)
			}
		})
	})
}
