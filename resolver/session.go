package resolver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	beatEvery = time.Second
	// silence ends a stream on which nothing came for so long.
	silence = 3 * time.Second
	// admission is how long a control that answers may take to welcome.
	admission = 15 * time.Second
	// maxTable bounds one message, in bytes.
	maxTable = 256 << 20
)

// goodbye asks the running session to end the membership.
type goodbye struct{ done chan error }

// Goodbye ends the membership: this follower serves no more. It waits until
// the plane has taken it, and Run then ends. The error says why it was not taken.
func (h *Holder) Goodbye(ctx context.Context) error {
	g := &goodbye{done: make(chan error, 1)}
	select {
	case h.goodbyes <- g:
	case <-ctx.Done():
		return fmt.Errorf("cannot say goodbye, no control is connected: %w", ctx.Err())
	}
	select {
	case err := <-g.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("cannot tell whether goodbye was taken: %w", ctx.Err())
	}
}

// session is one stream to one control. Two goroutines share it: one receives
// and obeys, the other sends.
type session struct {
	h       *Holder
	address string
	stream  pb.ViewService_FollowClient
	watch   *time.Timer // ends the stream when nothing is heard
	rules   view.Rules
	took    bool
	welcome chan struct{} // closed when the control has welcomed this follower
	leaving *goodbye      // written by the sender before it says goodbye, read after it has ended
}

// session follows one control until the stream ends. It says whether a table was taken.
func (h *Holder) session(ctx context.Context, address string) (took bool, err error) {
	options := append([]grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxTable)),
	}, h.cfg.Dial...)
	conn, err := grpc.NewClient(target(address), options...)
	if err != nil {
		return false, fmt.Errorf("cannot dial control %s: %w", address, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &session{h: h, address: address, welcome: make(chan struct{}), watch: time.AfterFunc(silence, cancel)}
	defer s.watch.Stop()
	sent := make(chan struct{})
	if s.stream, err = pb.NewViewServiceClient(conn).Follow(ctx); err == nil {
		go func() {
			defer close(sent)
			defer cancel()
			s.send(ctx)
		}()
		err = s.receive(ctx)
	} else {
		close(sent)
	}
	cancel()
	<-sent
	return s.took, errors.Join(s.farewell(err), conn.Close())
}

// farewell answers who asked for a goodbye.
func (s *session) farewell(err error) error {
	if s.leaving == nil {
		return err
	}
	if errors.Is(err, io.EOF) {
		s.leaving.done <- nil
		return errGoodbye
	}
	s.leaving.done <- fmt.Errorf("cannot say goodbye: %w", err)
	return err
}

func target(address string) string {
	if strings.Contains(address, "://") || strings.HasPrefix(address, "unix:") {
		return address
	}
	return "passthrough:///" + address
}

// send says hello, then acknowledges and beats. An error is seen by who receives.
func (s *session) send(ctx context.Context) {
	if s.stream.Send(s.h.hello()) != nil {
		return
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var goodbyes chan *goodbye // nil until welcomed
	welcome := s.welcome
	for {
		var m *pb.FollowRequest
		select {
		case <-welcome:
			welcome, goodbyes = nil, s.h.goodbyes
			continue
		case <-s.h.ack:
			m = s.h.acknowledgement()
		case <-beat.C:
			m = s.h.beat()
		case g := <-goodbyes:
			s.leaving, goodbyes = g, nil
			m = &pb.FollowRequest{Message: &pb.FollowRequest_Goodbye{Goodbye: &pb.FollowGoodbye{}}}
		case <-ctx.Done():
			return
		}
		if s.stream.Send(m) != nil {
			return
		}
	}
}

func (s *session) receive(ctx context.Context) error {
	if _, err := s.stream.Header(); err != nil {
		return err
	}
	s.watch.Reset(admission)
	welcomed := false
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return err
		}
		s.watch.Reset(silence)
		s.h.hear()
		switch m := m.GetMessage().(type) {
		case *pb.FollowResponse_Welcome:
			if err := s.welcomed(ctx, m.Welcome, welcomed); err != nil {
				return err
			}
			welcomed = true
		case *pb.FollowResponse_Routes:
			if !welcomed {
				return errors.New("a table came before the welcome")
			}
			if err := s.routes(ctx, m.Routes); err != nil {
				return err
			}
		case *pb.FollowResponse_Refusal:
			return refusal{reason: m.Refusal.GetReason(), leader: m.Refusal.GetLeader()}
		}
	}
}

func (s *session) welcomed(ctx context.Context, w *pb.FollowWelcome, again bool) error {
	if again {
		return errors.New("welcome was said twice")
	}
	p, ok := peer.FromContext(s.stream.Context())
	s.rules = view.Rules{Authenticated: ok && s.h.cfg.Authenticated(p), Refuse: s.h.cfg.Refuse}
	if err := s.h.heed(ctx, wire.Epoch(w.GetEpoch()), s.rules); err != nil {
		return err
	}
	s.h.arrived(s.address)
	close(s.welcome)
	signal(s.h.ack) // objections and the disk's state are not in hello
	return nil
}

func (s *session) routes(ctx context.Context, p *pb.RouteDelta) error {
	d, err := wire.Delta(p)
	if err != nil {
		return fmt.Errorf("%w: %w", view.ErrDigest, err)
	}
	if err := s.h.heed(ctx, d.Epoch, s.rules); err != nil {
		return err
	}
	if err := s.h.take(d, s.rules); err != nil {
		return err
	}
	s.took = true
	s.watch.Reset(silence) // applying may have taken long
	return nil
}

func (h *Holder) hear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = time.Now()
}

func (h *Holder) arrived(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connected = address
	h.cfg.Log.Info("a control is followed", "control", address, "away", h.away.Back(time.Now()).Round(time.Millisecond))
	h.changedLocked()
}

// hello says who follows and what is held. A digest is left out to ask for a full table.
func (h *Holder) hello() *pb.FollowRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &pb.FollowHello{
		Name: h.cfg.Name, Session: h.cfg.Session,
		PollAddress: h.cfg.PollAddress, PublicAddress: h.cfg.PublicAddress, Library: h.cfg.Library,
		Serves: heldProto(h.applied), Keeps: heldProto(h.kept), Epoch: wire.EpochProto(h.held.Epoch()),
	}
	if h.show != "" {
		m.Epoch = wire.EpochProto(h.held.EpochOf(h.show))
	}
	if h.askFull && m.Serves != nil {
		m.Serves.Digest = ""
	}
	return &pb.FollowRequest{Message: &pb.FollowRequest_Hello{Hello: m}}
}

func (h *Holder) beat() *pb.FollowRequest {
	b := &pb.FollowBeat{}
	if h.cfg.Polled != nil {
		b.Hosts = h.cfg.Polled()
	}
	if h.cfg.Waiting != nil {
		waiting := h.cfg.Waiting()
		for _, service := range slices.Sorted(maps.Keys(waiting)) {
			b.Waiting = append(b.Waiting, &pb.WaitingRequests{Service: service, Requests: int32(min(waiting[service], math.MaxInt32))})
		}
	}
	return &pb.FollowRequest{Message: &pb.FollowRequest_Beat{Beat: b}}
}

func heldProto(h *view.Held) *pb.Held {
	t := h.Told()
	if t == nil {
		return nil
	}
	return wire.HeldProto(t.Version, t.Digest.String())
}

func (h *Holder) acknowledgement() *pb.FollowRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &pb.FollowAck{Serves: heldProto(h.applied), Keeps: heldProto(h.kept)}
	objections := h.applied.Objections()
	for _, service := range slices.Sorted(maps.Keys(objections)) {
		m.Refused = append(m.Refused, &pb.RefusedRoute{Service: service, Reason: objections[service]})
	}
	if h.keepErr != nil {
		m.KeepError = h.keepErr.Error()
	}
	return &pb.FollowRequest{Message: &pb.FollowRequest_Ack{Ack: m}}
}
