package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/outage"
)

// link is the poll stream to one gateway, dialled again as long as the gateway
// is known. A broken stream is silence: the gateway keeps its credits.
type link struct {
	name, addr string
	out        *outbox
	cancel     context.CancelFunc
	connected  bool // under the host's mu: welcomed, and the stream is up
	away       outage.Outage
}

type pollStream = grpc.BidiStreamingClient[pb.PollRequest, pb.PollResponse]

// newLink starts one. Its cancel ends the goroutine, which waits for no other.
func (h *Host) newLink(name, addr string) *link {
	ctx, cancel := context.WithCancel(h.ctx)
	l := &link{name: name, addr: addr, out: newOutbox(), cancel: cancel, away: outage.Outage{After: outage.Moment}}
	h.life.Go(func() { h.pollOn(ctx, l) })
	return l
}

func (h *Host) pollOn(ctx context.Context, l *link) {
	defer l.cancel()
	for ctx.Err() == nil {
		err := h.poll(ctx, l)
		if ctx.Err() != nil {
			return
		}
		if now := time.Now(); l.away.Failed(now) {
			h.log.Warn("no stream to a gateway; it keeps its credits", "gateway", l.name, "address", l.addr, "error", err, "for", l.away.For(now).Round(time.Second))
		}
		if !sleep(ctx, h.redialIn()) {
			return
		}
	}
}

// redialIn is random, so that a gateway that starts is not met by all at once.
func (h *Host) redialIn() time.Duration { return rand.N(h.cfg.Timing.Redial) }

// poll runs one stream to its end.
func (h *Host) poll(ctx context.Context, l *link) error {
	conn, err := grpc.NewClient(l.addr, h.cfg.DialGateway(l.name)...)
	if err != nil {
		return fmt.Errorf("cannot dial gateway %q: %w", l.name, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewPollServiceClient(conn).Poll(ctx)
	if err != nil {
		return fmt.Errorf("cannot poll gateway %q: %w", l.name, err)
	}
	hello := &pb.PollHello{Host: h.cfg.Name, Zone: h.cfg.Zone, Session: h.session}
	if err := stream.Send(&pb.PollRequest{Message: &pb.PollRequest_Hello{Hello: hello}}); err != nil && !isEOF(err) {
		return fmt.Errorf("cannot greet gateway %q: %w", l.name, err)
	}
	late := time.AfterFunc(deafAfter, cancel)
	first, err := stream.Recv()
	late.Stop()
	if err != nil {
		return fmt.Errorf("gateway %q gave no welcome: %w", l.name, err)
	}
	welcome := first.GetWelcome()
	if welcome == nil || welcome.GetGateway() != l.name {
		return fmt.Errorf("cannot poll gateway %q: who answers there is %q", l.name, welcome.GetGateway())
	}
	process := h.holdGateway(welcome.GetProcess())
	if !h.welcomed(l, welcome, process) {
		if process != nil {
			process.close()
		}
		return nil
	}
	defer h.silent(l)
	sent := make(chan error, 1)
	h.life.Go(func() {
		sent <- sendAll(ctx, l.out, stream)
		cancel()
	})
	err = h.receive(l, stream)
	cancel()
	if serr := <-sent; serr != nil && !errors.Is(serr, context.Canceled) && !isEOF(serr) {
		err = errors.Join(err, serr)
	}
	return err
}

// sendAll is the one sender of a stream. It beats each second.
func sendAll(ctx context.Context, out *outbox, stream pollStream) error {
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	for {
		for _, m := range out.take() {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		if out.waits() {
			continue
		}
		// Something to tell, the second is over, or the stream ended.
		select {
		case <-out.some:
		case <-beat.C:
			if err := stream.Send(&pb.PollRequest{Message: &pb.PollRequest_Beat{Beat: &pb.PollBeat{}}}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *outbox) waits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.order) > 0
}

// welcomed takes what the gateway says it holds, and tells it all: instances,
// withdrawals, ends. From then on its process is waited for, if it could be
// held. False means that the gateway is no longer known.
func (h *Host) welcomed(l *link, w *pb.PollWelcome, process *handle) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.links[l.name] != l {
		return false
	}
	holdings := map[string]int{} // :: instance → credits
	for _, held := range w.GetHoldings() {
		holdings[held.GetInstance()] += int(held.GetCredits())
	}
	l.connected = true
	h.watchGatewayLocked(l.name, process)
	l.out.begin()
	moves := h.ledger.connect(l.name, holdings)
	for _, in := range h.instances {
		if !in.wasLive || !in.runs() {
			continue
		}
		l.out.offer(in, 0)
		if in.retiring {
			delete(in.withdrawn, l.name)
			l.out.terminate(in.rec.ID, drainOf(in))
		}
		in.stirLocked()
	}
	for id := range holdings {
		if in := h.instances[id]; in == nil || !in.runs() {
			l.out.end(id)
		}
	}
	for id := range h.endings {
		l.out.end(id)
	}
	h.sendLocked(moves)
	l.out.synced()
	h.touchAllLocked() // the gateway has, or may have, credits of it that are not missing any more
	h.log.Info("gateway is polled", "gateway", l.name, "session", w.GetSession(), "away", l.away.Back(time.Now()).Round(time.Millisecond))
	return true
}

// silent notes that the stream ended.
func (h *Host) silent(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.connected = false
	l.out.stop()
	if h.links[l.name] == l {
		h.ledger.disconnect(l.name)
	}
	for _, in := range h.instances {
		in.stirLocked()
	}
	h.touchAllLocked()
}

func (h *Host) receive(l *link, stream pollStream) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("the stream of gateway %q ended: %w", l.name, err)
		}
		if e := m.GetEnded(); e != nil {
			h.acknowledged(l.name, e.GetInstance())
			continue
		}
		h.heard(l, m)
	}
}

// heard applies one message. One of a stream that was replaced changes nothing.
func (h *Host) heard(l *link, m *pb.PollResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.links[l.name] != l {
		return
	}
	var about string
	switch {
	case m.GetReturned() != nil:
		about = m.GetReturned().GetInstance()
		h.sendLocked(h.ledger.returned(l.name, about, int(m.GetReturned().GetCredits())))
	case m.GetDemand() != nil:
		h.sendLocked(h.ledger.demand(l.name, m.GetDemand().GetGroup(), int(m.GetDemand().GetWaiting())))
	case m.GetWithdrawn() != nil:
		about = m.GetWithdrawn().GetInstance()
		if in := h.instances[about]; in != nil && in.retiring {
			in.withdrawn[l.name] = true
		}
	case m.GetRefused() != nil:
		about = m.GetRefused().GetInstance()
		h.log.Warn("a gateway was refused a connection", "gateway", l.name, "instance", about, "reason", m.GetRefused().GetReason())
		h.sendLocked(h.ledger.refuse(l.name, about, int(m.GetRefused().GetCredits())))
		if in := h.instances[about]; in != nil {
			in.lookNow()
		}
	}
	if in := h.instances[about]; in != nil {
		in.stirLocked()
	}
}
