package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/outage"
	"github.com/fairlead-platform/fairlead/internal/wire"
)

const (
	beatEvery = time.Second
	// deafAfter is how long control may say nothing, beats included, before the
	// stream is taken for dead.
	deafAfter = 5 * time.Second
	// gather is how long a report waits for further changes.
	gather = 5 * time.Millisecond
)

type controlStream = grpc.BidiStreamingClient[pb.AttachRequest, pb.AttachResponse]

// attach keeps a stream to control as long as the host lives. A lost control
// plane changes nothing for what runs.
func (h *Host) attach() {
	away := outage.Outage{After: outage.Moment}
	for turn := 0; h.ctx.Err() == nil && !isClosed(h.departure.stopped) && len(h.cfg.Control) > 0; turn++ {
		addr := h.cfg.Control[turn%len(h.cfg.Control)]
		err := h.attachTo(addr, &away)
		if h.ctx.Err() != nil || isClosed(h.departure.stopped) {
			return
		}
		if now := time.Now(); away.Failed(now) {
			h.log.Warn("no stream to control; what runs goes on", "address", addr, "error", err, "for", away.For(now).Round(time.Second))
		}
		wait := h.redialIn()
		if turn%len(h.cfg.Control) != len(h.cfg.Control)-1 {
			wait = 0 // the next address may lead
		}
		if !sleep(h.ctx, wait) {
			return
		}
	}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// attachTo runs one stream to its end.
func (h *Host) attachTo(addr string, away *outage.Outage) error {
	conn, err := grpc.NewClient(addr, h.cfg.DialControl...)
	if err != nil {
		return fmt.Errorf("cannot dial control: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	stream, err := pb.NewHostControlServiceClient(conn).Attach(ctx)
	if err != nil {
		return fmt.Errorf("cannot attach to control: %w", err)
	}
	deaf := time.AfterFunc(deafAfter, cancel)
	defer deaf.Stop()
	if err := h.greet(stream); err != nil {
		return err
	}
	h.leader.Store(conn)
	defer h.leader.CompareAndSwap(conn, nil)
	s := &session{h: h, ctx: ctx, cancel: cancel, stream: stream, lanes: map[string][]*pb.HostCommand{}}
	s.logs = newLogOrders(ctx, h, conn)
	defer s.work.Wait()
	defer cancel()
	h.log.Info("attached to control", "address", addr, "away", away.Back(time.Now()).Round(time.Millisecond))
	s.work.Go(s.report)
	return s.receive(deaf)
}

// greet says who this is, and takes the leader's epoch, or the refusal.
func (h *Host) greet(stream controlStream) error {
	err := stream.Send(&pb.AttachRequest{Message: &pb.AttachRequest_Hello{Hello: &pb.HostHello{
		Name: h.cfg.Name, Zone: h.cfg.Zone, Session: h.session, Epoch: wire.EpochProto(h.kept()),
		RunsAsRoot: isRoot(), Library: h.cfg.Library, Leaving: isClosed(h.departure.leaves), Room: h.room(),
	}}})
	if err != nil && !isEOF(err) {
		return fmt.Errorf("cannot greet control: %w", err)
	}
	m, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("control gave no welcome: %w", err)
	}
	if r := m.GetRefusal(); r != nil {
		return fmt.Errorf("control refuses this host: %s", r.GetReason())
	}
	if m.GetWelcome() == nil {
		return errors.New("control gave no welcome")
	}
	h.takeRelays(m.GetWelcome().GetRelays())
	if err := h.admit(wire.Epoch(m.GetWelcome().GetEpoch())); err != nil {
		return fmt.Errorf("cannot follow this leader: %w", err)
	}
	return nil
}

// session is one stream to control.
type session struct {
	h      *Host
	ctx    context.Context
	cancel context.CancelFunc
	stream controlStream
	logs   *logOrders
	work   sync.WaitGroup

	sendMu sync.Mutex
	tellMu sync.Mutex // what is told is told in order
	told   bool       // the full report was sent

	lanesMu sync.Mutex
	lanes   map[string][]*pb.HostCommand // :: lane → waiting; present while one is being obeyed
}

func (s *session) send(m *pb.AttachRequest) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	return s.stream.Send(m)
}

// tell reports what is not told yet: all of it first, then changes. It says
// whether there was any.
func (s *session) tell() (told bool, err error) {
	s.tellMu.Lock()
	defer s.tellMu.Unlock()
	r := s.h.fullReport
	if s.told {
		r = s.h.nextReport
	}
	s.told = true
	m := r()
	if m == nil {
		return false, nil
	}
	return true, s.send(&pb.AttachRequest{Message: &pb.AttachRequest_Report{Report: m}})
}

// report tells all once, then changes as they come, beats each second, and says
// goodbye. The goodbye is the last word: control ends the stream by it.
func (s *session) report() {
	defer s.cancel()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	leaves := s.h.departure.leaves
	for {
		if told, err := s.tell(); err != nil || told && !sleep(s.ctx, gather) {
			return // the receiver says why
		}
		// Something changed, the second is over, the host leaves, it has stopped
		// all, or the stream ended.
		select {
		case <-s.h.outgoing.some:
		case <-beat.C:
			if s.send(&pb.AttachRequest{Message: &pb.AttachRequest_Beat{Beat: &pb.HostBeat{Room: s.h.room()}}}) != nil {
				return
			}
		case <-leaves:
			leaves = nil
			if s.send(leaving(false)) != nil {
				return
			}
		case <-s.h.departure.stopped:
			if s.send(leaving(true)) == nil {
				<-s.ctx.Done()
			}
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func leaving(stopped bool) *pb.AttachRequest {
	return &pb.AttachRequest{Message: &pb.AttachRequest_Leaving{Leaving: &pb.HostLeaving{Stopped: stopped}}}
}

func (s *session) receive(deaf *time.Timer) error {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return fmt.Errorf("the stream to control ended: %w", err)
		}
		deaf.Reset(deafAfter)
		switch {
		case m.GetCommand() != nil:
			s.enter(m.GetCommand())
		case m.GetGateways() != nil:
			if err := s.h.takeGateways(m.GetGateways()); err != nil {
				return err
			}
		case m.GetBeat() != nil:
			s.h.takeRelays(m.GetBeat().GetRelays())
		case m.GetLog() != nil:
			s.logs.take(m.GetLog())
		case m.GetRefusal() != nil:
			return fmt.Errorf("control ends the stream: %s", m.GetRefusal().GetReason())
		}
	}
}

// enter has a command obeyed after those before it of the same slot, beside all others.
func (s *session) enter(c *pb.HostCommand) {
	lane := laneOf(c)
	s.lanesMu.Lock()
	defer s.lanesMu.Unlock()
	waiting, busy := s.lanes[lane]
	if busy {
		s.lanes[lane] = append(waiting, c)
		return
	}
	s.lanes[lane] = nil
	s.work.Go(func() { s.serve(lane, c) })
}

func (s *session) serve(lane string, c *pb.HostCommand) {
	for c != nil {
		err := s.h.obey(s.ctx, c)
		res := &pb.CommandResult{Id: c.GetId()}
		if err != nil {
			res.Error, res.Code = err.Error(), string(fault.CodeOf(err))
			s.h.log.Warn("a command is refused", "lane", lane, "error", err)
		}
		// Who learns that a stop is accepted knows what the slot ran until then.
		if _, err := s.tell(); err != nil || s.send(&pb.AttachRequest{Message: &pb.AttachRequest_Result{Result: res}}) != nil {
			s.cancel()
		}
		c = s.next(lane)
	}
}

func (s *session) next(lane string) *pb.HostCommand {
	s.lanesMu.Lock()
	defer s.lanesMu.Unlock()
	waiting := s.lanes[lane]
	if len(waiting) == 0 {
		delete(s.lanes, lane)
		return nil
	}
	s.lanes[lane] = waiting[1:]
	return waiting[0]
}

// fetchArtifact reads an artifact from the leader.
func (h *Host) fetchArtifact(ctx context.Context, digest string, to io.Writer) error {
	conn := h.leader.Load()
	if conn == nil {
		return fault.New(fault.Unavailable, "", "control is not connected")
	}
	stream, err := pb.NewHostControlServiceClient(conn).FetchArtifact(ctx, &pb.FetchArtifactRequest{Digest: digest})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if isEOF(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := to.Write(m.GetChunk()); err != nil {
			return err
		}
	}
}
