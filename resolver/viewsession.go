package resolver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// features of views that this holder's users know to pick by.
func features() []string { return []string{"out", "marks", "shed", "beats", "several"} }

// longestBeat is how rarely the plane may say that it lives.
const longestBeat = time.Minute

// viewSession is one stream to one control. Two goroutines share it: one
// receives and obeys, the other sends.
type viewSession struct {
	h       *Views
	address string
	stream  pb.SubscriptionService_SubscribeClient
	watch   *time.Timer                // ends the stream when nothing is heard
	epoch   atomic.Pointer[view.Epoch] // of the last welcome
	region  string
	ready   chan struct{}      // closed when the control has welcomed this subscriber
	every   chan time.Duration // how often a beat is expected from here
	again   chan string        // services whose whole views are to be asked for
	named   map[string]bool    // :: service → subscribed to; the sender's own
	quiet   time.Duration      // after which the stream is given up; the receiver's own
	took    bool
}

// caught is session, whose panics end the stream and nothing else.
func (h *Views) caught(ctx context.Context, address string) (took bool, err error) {
	if h.panics.catch("following "+address, func() { took, err = h.session(ctx, address) }) {
		return false, errors.New("the stream was left for a defect of this program: " + h.panics.text())
	}
	return took, err
}

// session subscribes at one control until the stream ends. It says whether a
// view was taken.
func (h *Views) session(ctx context.Context, address string) (took bool, err error) {
	conn, err := h.cfg.connect(address)
	if err != nil {
		return false, fmt.Errorf("cannot dial control %s: %w", address, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &viewSession{
		h: h, address: address, watch: time.AfterFunc(silence, cancel), ready: make(chan struct{}), every: make(chan time.Duration, 1),
		again: make(chan string), named: map[string]bool{}, quiet: silence,
	}
	defer s.watch.Stop()
	sent := make(chan struct{})
	defer func() {
		cancel()
		<-sent
		err = errors.Join(err, conn.Close())
	}()
	if s.stream, err = pb.NewSubscriptionServiceClient(conn).Subscribe(ctx); err != nil {
		close(sent)
		return false, err
	}
	go func() {
		defer close(sent)
		defer cancel()
		h.panics.catch("sending to "+address, func() { s.send(ctx, conn) })
	}()
	err = s.receive(ctx)
	return s.took, err
}

// link is a connection to a control.
type link interface {
	grpc.ClientConnInterface
	Close() error
}

func (c *ViewsConfig) dial(address string) (link, error) {
	options := append([]grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxTable))}, c.Dial...)
	return grpc.NewClient(target(address), options...)
}

// send says hello, then what is wanted, what is applied, and that it lives. An
// error is seen by who receives.
func (s *viewSession) send(ctx context.Context, conn link) {
	hello := s.h.hello()
	if s.stream.Send(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Hello{Hello: hello}}) != nil {
		return
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	select {
	case <-s.ready:
	case <-ctx.Done():
		return
	}
	if f := s.h.cfg.beside; f != nil {
		beside := make(chan struct{})
		defer func() { <-beside }()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			defer close(beside)
			s.h.panics.catch("on the connection to "+s.address, func() { f(ctx, conn) })
		}()
	}
	s.h.forgetAcks()
	m := s.h.edits(s.named)
	passer := passing{s.h.cfg.Passer}
	if m == nil {
		m = passer.next(true)
	} else if s.stream.Send(m) == nil {
		m = passer.next(true)
	}
	for {
		if m != nil && s.stream.Send(m) != nil {
			return
		}
		select { // each leaves something to say, but the end
		case <-s.h.edit:
			m = s.h.edits(s.named)
		case <-s.h.ack:
			m = s.h.acks(*s.epoch.Load())
		case <-passer.ready():
			m = passer.next(false)
		case service := <-s.again:
			m = &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: &pb.SubscriptionEdit{Add: []*pb.Subscription{{Service: service}}}}}
		case every := <-s.every:
			beat.Reset(every)
			m = nil
		case <-beat.C:
			m = &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Beat{Beat: &pb.FollowBeat{}}}
		case <-ctx.Done():
			return
		}
	}
}

func (s *viewSession) receive(ctx context.Context) error {
	if _, err := s.stream.Header(); err != nil {
		return err
	}
	for welcomed := false; ; {
		m, err := s.stream.Recv()
		if err != nil {
			return err
		}
		if b := m.GetBeat(); b != nil {
			s.quiet = s.beat(b)
		}
		s.watch.Reset(s.quiet)
		s.h.hear(m.GetBeat().GetAge().AsDuration() + m.GetWelcome().GetAge().AsDuration())
		passing{s.h.cfg.Passer}.heard(m)
		switch m := m.GetMessage().(type) {
		case *pb.SubscribeResponse_Welcome:
			if err := s.welcomed(m.Welcome, welcomed); err != nil {
				return err
			}
			welcomed = true
		case *pb.SubscribeResponse_Doors:
			s.h.toldOf(m.Doors)
		case *pb.SubscribeResponse_Change:
			err = s.changes(ctx, welcomed, m.Change)
		case *pb.SubscribeResponse_Changes:
			err = s.changes(ctx, welcomed, m.Changes.GetChanges()...)
		case *pb.SubscribeResponse_Refused:
			s.h.refused(m.Refused.GetServices())
		case *pb.SubscribeResponse_Refusal:
			return s.h.sentAway(m.Refusal)
		}
		if err != nil {
			return err
		}
	}
}

// beat says when the next one comes, and after what silence the stream is given
// up.
func (s *viewSession) beat(b *pb.FollowBeat) (quiet time.Duration) {
	s.h.sheds(time.Duration(b.GetShedMs()) * time.Millisecond)
	next := max(beatEvery, min(time.Duration(b.GetNextMs())*time.Millisecond, longestBeat))
	select {
	case <-s.every: // it was not heeded yet
	default:
	}
	s.every <- next
	return max(silence, 3*next)
}

// welcomed takes a welcome. A later one of a stream has a later epoch: another
// leader is followed by who is at the other end.
func (s *viewSession) welcomed(w *pb.SubscribeWelcome, again bool) error {
	p, ok := peer.FromContext(s.stream.Context())
	e := wire.Epoch(w.GetEpoch())
	if again && e.Incarnation == "" {
		e.Incarnation, w.Region = s.epoch.Load().Incarnation, s.region
	}
	if err := s.h.heed(e, ok && s.h.cfg.Authenticated(p)); err != nil {
		return err
	}
	s.epoch.Store(&e)
	s.region = w.GetRegion()
	if s.h.cfg.Passer != nil {
		s.h.cfg.Passer.Welcomed(e, s.region)
	}
	s.h.toldOf(w.GetDoors())
	if again {
		return nil
	}
	s.h.arrived(s.address, w.GetMissing())
	close(s.ready)
	return nil
}

// changes takes views, each by itself.
func (s *viewSession) changes(ctx context.Context, welcomed bool, all ...*pb.ViewChange) error {
	if !welcomed {
		return errors.New("a view came before the welcome")
	}
	for _, c := range all {
		if err := s.change(ctx, c); err != nil {
			return err
		}
		s.watch.Reset(s.quiet) // applying may have taken long
	}
	return nil
}

// change takes one view. One that does not fit what is held is asked for whole.
func (s *viewSession) change(ctx context.Context, p *pb.ViewChange) error {
	c, err := wire.Change(p, s.region, *s.epoch.Load())
	if err == nil {
		err = s.h.take(c)
	}
	switch {
	case err == nil:
		s.took = true
		return nil
	case c.Full() || !errors.Is(err, view.ErrBase) && !errors.Is(err, view.ErrDigest):
		return err
	}
	select {
	case s.again <- c.Service:
	case <-ctx.Done():
	}
	return nil
}

// edits says what is wanted otherwise than the stream knows; nil is nothing.
func (h *Views) edits(named map[string]bool) *pb.SubscribeRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wanted == nil {
		return nil
	}
	e := &pb.SubscriptionEdit{}
	for service := range named {
		if !h.wanted[service] {
			delete(named, service)
			e.Drop = append(e.Drop, service)
		}
	}
	for service := range h.wanted {
		if named[service] {
			continue
		}
		named[service] = true
		sub := &pb.Subscription{Service: service}
		x := h.held[service]
		h.wakeLocked(service, x)
		if t := x.held.Told(); t != nil {
			sub.Held = wire.HeldProto(t.Version, t.Digest().String())
		}
		e.Add = append(e.Add, sub)
	}
	if len(e.Add)+len(e.Drop) == 0 {
		return nil
	}
	slices.Sort(e.Drop)
	slices.SortFunc(e.Add, func(a, b *pb.Subscription) int {
		if a.GetService() < b.GetService() {
			return -1
		}
		return 1
	})
	return &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: e}}
}

// forgetAcks: a new stream has heard of none.
func (h *Views) forgetAcks() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.held {
		x.acked = nil
	}
	signal(h.ack)
}

// acks says what came into force since it was said last; nil is nothing.
func (h *Views) acks(e view.Epoch) *pb.SubscribeRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &pb.ViewsApplied{}
	for service, x := range h.held {
		t := x.applied.Told()
		if t == nil || x.applied == x.acked || t.Version.Incarnation != e.Incarnation {
			continue
		}
		x.acked = x.applied
		m.Views = append(m.Views, &pb.AppliedView{
			Service: service, Epoch: t.Version.Epoch, Counter: t.Version.Counter, Objection: x.applied.Objection(),
		})
	}
	if len(m.Views) == 0 {
		return nil
	}
	return &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Applied{Applied: m}}
}

// whileAway says what became of calls since the last stream ended; nil is not known.
func (h *Views) whileAway() *pb.AwayReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == nil {
		return nil
	}
	out := &pb.AwayReport{AwayMs: uint64(max(0, h.cfg.Clock().Sub(h.lost.at).Milliseconds()))}
	if h.cfg.Calls == nil {
		return nil
	}
	all, failed, unroutable := h.cfg.Calls()
	out.Calls, out.Failed, out.Unroutable = all-h.lost.all, failed-h.lost.failed, unroutable-h.lost.unroutable
	return out
}

func (h *Views) sheds(window time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shed != window {
		h.shed = window
		h.changedLocked()
	}
}

// hear notes that a control was heard, so long ago.
func (h *Views) hear(ago time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = h.cfg.Clock().Add(-max(0, ago))
}

func (h *Views) refused(services []*pb.RefusedRoute) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range services {
		if x := h.held[r.GetService()]; x != nil && x.refused != r.GetReason() {
			x.refused = r.GetReason()
			h.cfg.event(Event{Kind: SubscriptionRefused, Service: r.GetService(), Why: r.GetReason()})
			h.noteLocked("the view of " + r.GetService() + " is refused: " + r.GetReason())
		}
	}
}

func (h *Views) arrived(address string, missing []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connected, h.missing, h.lost = address, missing, nil
	h.cfg.event(Event{Kind: Connected, Plane: address})
	clear(h.failed)
	h.cfg.Log.Info("views are followed", "control", address, "away", h.away.Back(h.cfg.Clock()).Round(time.Millisecond))
	if len(missing) > 0 {
		h.noteLocked(fmt.Sprintf("this program is too old for what views here mean by %v", missing))
	}
	h.changedLocked()
}

func (h *Views) left(ctx context.Context, address string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connected != "" {
		h.connected = ""
		h.lost = &lost{at: h.cfg.Clock()}
		if h.cfg.Calls != nil {
			h.lost.all, h.lost.failed, h.lost.unroutable = h.cfg.Calls()
		}
		h.changedLocked()
		h.cfg.event(Event{Kind: Disconnected, Plane: address, Why: text(err)})
	} else {
		h.failed[address] = true
	}
	if ctx.Err() != nil {
		return
	}
	if now := h.cfg.Clock(); h.away.Failed(now) {
		h.cfg.Log.Info("views are not followed", "control", address, "error", err, "for", h.away.For(now).Round(time.Second))
	}
	for _, rule := range []error{view.ErrOlderEpoch, view.ErrLeft, view.ErrRivalEpoch, view.ErrUnauthenticated, view.ErrMalformed, view.ErrOlderVersion, view.ErrDigest, view.ErrOtherRegion} {
		if errors.Is(err, rule) {
			h.noteLocked(err.Error())
		}
	}
}
