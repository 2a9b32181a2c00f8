package daemon

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/surface/witness"
	"github.com/fairlead-platform/fairlead/internal/wire"
)

// probing has probers told what to look at by the discovery plane.
func (c *controlRole) probing() witness.Probing {
	return witness.Probing{
		Admit: func(ctx context.Context, hello *pb.ProberHello) error {
			return c.leader.AdmitProber(ctx, hello.GetName(), wire.Epoch(hello.GetEpoch()))
		},
		Begin: func(hello *pb.ProberHello) (witness.Prober, error) {
			s, err := c.discovery.Prober(hello.GetName(), hello.GetZone())
			if err != nil {
				return nil, err
			}
			return proberStream{s}, nil
		},
	}
}

// proberStream says what the plane says by the wire's words.
type proberStream struct{ *discovery.ProberStream }

func (s proberStream) News() (out []*pb.ProbeResponse) {
	n := s.ProberStream.News()
	if n.Assignment {
		a := &pb.ProbeAssignment{Epoch: wire.EpochProto(n.Epoch), Version: n.Version, Full: n.Full, Dropped: n.Dropped}
		for _, t := range n.Targets {
			a.Targets = append(a.Targets, &pb.ProbeTarget{
				Instance: t.Handle, Id: t.ID, Address: t.Address, Interval: durationpb.New(t.Interval), Alone: t.Alone,
				Check: &pb.ProbeCheck{Kind: t.Check.Kind, Path: t.Check.Path},
			})
		}
		out = append(out, &pb.ProbeResponse{Message: &pb.ProbeResponse_Assignment{Assignment: a}})
	}
	if len(n.Now) > 0 {
		out = append(out, &pb.ProbeResponse{Message: &pb.ProbeResponse_Now{Now: &pb.ProbeNow{Instances: n.Now}}})
	}
	return out
}

func (s proberStream) Take(m *pb.ProbeLooks) bool {
	looks := make([]discovery.ProbeLook, len(m.GetLooks()))
	for i, l := range m.GetLooks() {
		looks[i] = discovery.ProbeLook{
			Instance: l.GetInstance(), Result: resultOf(l.GetResult()), Age: time.Duration(l.GetAgeMs()) * time.Millisecond,
			Bytes: int(l.GetBytes()), Detail: l.GetDetail(),
		}
	}
	return s.ProberStream.Take(m.GetNumber(), looks)
}

// resultOf is what a prober says that it saw; what it cannot have seen is out of
// range, and discarded.
func resultOf(r pb.ProbeResult) eligibility.Result {
	switch r {
	case pb.ProbeResult_PROBE_RESULT_GOOD:
		return eligibility.Good
	case pb.ProbeResult_PROBE_RESULT_FAILED:
		return eligibility.Failed
	case pb.ProbeResult_PROBE_RESULT_TIMED_OUT:
		return eligibility.TimedOut
	case pb.ProbeResult_PROBE_RESULT_REFUSED:
		return eligibility.Refused
	}
	return eligibility.Refused + 1
}
