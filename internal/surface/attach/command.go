package attach

import (
	"context"
	"crypto/rand"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// Prepare has a host fetch the artifact and check that the command can be run.
func (s *Server) Prepare(ctx context.Context, e view.Epoch, host, revision string, t service.Template) error {
	return s.command(ctx, host, &pb.HostCommand{
		Epoch: wire.EpochProto(e),
		Command: &pb.HostCommand_Prepare{Prepare: &pb.PrepareCommand{
			Revision: revision, Template: wire.TemplateProto(t),
		}},
	})
}

// Assign asks for a slot to be kept running.
func (s *Server) Assign(ctx context.Context, e view.Epoch, host string, a service.Assignment) error {
	return s.command(ctx, host, &pb.HostCommand{
		Epoch: wire.EpochProto(e),
		Command: &pb.HostCommand_Assign{Assign: &pb.AssignCommand{
			Slot: a.Slot, Service: a.Service, Revision: a.Revision, Minted: a.Minted, Group: a.Group,
			Template: wire.TemplateProto(a.Template), Round: a.Round, Dwell: durationpb.New(a.Dwell),
		}},
	})
}

// Stop ends a slot.
func (s *Server) Stop(ctx context.Context, e view.Epoch, host string, st service.Stop) error {
	return s.command(ctx, host, &pb.HostCommand{
		Epoch: wire.EpochProto(e),
		Command: &pb.HostCommand_Stop{Stop: &pb.StopCommand{
			Slot: st.Slot, Minted: st.Minted, Drain: durationpb.New(st.Drain), Reason: st.Reason,
		}},
	})
}

// Release lets a host end that leaves.
func (s *Server) Release(ctx context.Context, e view.Epoch, host string, r service.Release) error {
	return s.command(ctx, host, &pb.HostCommand{
		Epoch:   wire.EpochProto(e),
		Command: &pb.HostCommand_Release{Release: &pb.ReleaseCommand{Empty: r.Empty, Reason: r.Reason}},
	})
}

// command sends one and waits for its answer.
func (s *Server) command(ctx context.Context, host string, cmd *pb.HostCommand) error {
	c := s.connOf(host)
	if c == nil {
		return fault.New(fault.Unavailable, "", "cannot reach host %q: %w", host, ErrAbsent)
	}
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Unavailable, "", "cannot reach host %q: %w", host, err)
	}
	cmd.Id = rand.Text()
	answer := make(chan *pb.CommandResult, 1)
	c.expect(cmd.GetId(), answer)
	defer c.expect(cmd.GetId(), nil)
	if err := c.put(ctx, &pb.AttachResponse{Message: &pb.AttachResponse_Command{Command: cmd}}); err != nil {
		return err
	}
	// The host answers, its stream ends, or nobody waits any more.
	select {
	case r := <-answer:
		return outcome(host, r)
	case <-c.gone:
	case <-ctx.Done():
	}
	select {
	case r := <-answer:
		return outcome(host, r)
	default:
		return fault.New(fault.Unknown, "", "cannot say whether host %q did it: %w", host, ErrUnsure)
	}
}

func (s *Server) connOf(host string) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.hosts[host]; a != nil {
		return a.conn
	}
	return nil
}

func (c *conn) expect(id string, answer chan *pb.CommandResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer == nil {
		delete(c.pending, id)
		return
	}
	c.pending[id] = answer
}

// outcome is nil, or the host's own refusal under its own code.
func outcome(host string, r *pb.CommandResult) error {
	if r.GetError() == "" {
		return nil
	}
	code := fault.Code(r.GetCode())
	if !code.Known() {
		code = fault.Internal
	}
	return fault.New(code, "", "host %q: %s: %w", host, r.GetError(), ErrRefused)
}

// SetGateways makes gs the known gateways, told to every host now and when it
// attaches. A process that leads no more names none.
func (s *Server) SetGateways(e view.Epoch, gs []service.Gateway) {
	list := &pb.GatewayList{Epoch: wire.EpochProto(e)}
	for _, g := range gs {
		list.Gateways = append(list.Gateways, &pb.GatewayAddress{Name: g.Name, PollAddress: g.Poll})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deposed != "" {
		return
	}
	s.gateways = list
	for _, a := range s.hosts {
		if a.conn == nil {
			continue
		}
		select {
		case a.conn.out <- gatewaysMessage(list):
		default:
			// It has taken nothing for long: it gets the list when it attaches anew.
			a.conn.end("the host does not take what is sent")
		}
	}
}

func gatewaysMessage(l *pb.GatewayList) *pb.AttachResponse {
	return &pb.AttachResponse{Message: &pb.AttachResponse_Gateways{Gateways: l}}
}
