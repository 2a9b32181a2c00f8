package views

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	// helloTimeout bounds how long a stream may stay without its first message.
	helloTimeout = 15 * time.Second
	// stuckTimeout is how long a sender is waited for when its stream is over;
	// one that is stuck in a stalled stream is let go by returning.
	stuckTimeout = 200 * time.Millisecond
	// mostWaiting services and refusals wait to be told; who asks for more
	// without taking any is let go.
	mostWaiting = 20_000
)

// subscriber is one stream. Its handler waits for the end; a reader obeys what
// the subscriber says, and a sender sends, and nobody else does once it runs.
// What it holds is guarded by the server's lock.
type subscriber struct {
	s          *Server
	role, name string
	stream     pb.SubscriptionService_SubscribeServer
	ctx        context.Context // ends with the stream, or when it is ended from here
	cancel     context.CancelFunc
	wake       chan struct{} // holds one: there is something to send

	hello   *pb.SubscribeHello
	epoch   view.Epoch // of the welcome
	open    bool       // from enter until it leaves or is replaced
	left    bool
	heard   time.Time
	holds   map[string]*holding // :: service → what is held of it
	urgent  []*holding          // services of which there may be something to send
	rest    []*holding
	refused []*pb.RefusedRoute

	several  bool               // it can be told of several services at once
	welcomed bool               // under epoch
	doors    bool               // what changed of them is to be told
	claims   bool               // it said that it holds nothing, and was sent nothing yet
	state    *pb.RelayState     // of a relay; nil until it is said
	asks     []*pb.RosterWanted // of a relay
	stirred  time.Duration      // when it was given something while it had nothing to send; 0 is not
	sending  atomic.Int64       // since when it sends a view, as a time.Duration; 0 is not

	once    sync.Once
	refusal *pb.FollowRefusal // why it was ended from here, written before cancel
}

// holding is what a subscriber holds of one service.
type holding struct {
	sub   *subscriber
	topic *topic

	listed        bool // among the topic's holders, between these two
	before, after *holding
	dropped       bool // no longer wanted

	version view.Version // as it said, or as was sent since
	digest  view.Digest
	sent    *view.Service // nil: what it holds is only known by what it said
	waits   bool          // in urgent or rest
	hurries bool          // in urgent

	barred bool          // by the service's policy: nothing is sent, and nothing owed
	since  time.Duration // that it is; it may pick by what it applied still

	applied   view.Version
	objection string
	owes      budget.Number // what came after it is to be acknowledged
	tally     tally         // a relay's, of its subscribers
}

// Subscribe serves one subscriber until either side ends it.
func (s *Server) Subscribe(stream pb.SubscriptionService_SubscribeServer) error {
	role, name, err := s.cfg.Peer(stream.Context())
	if err != nil {
		return status.Errorf(codes.Unauthenticated, "cannot tell who subscribes: %v", err)
	}
	if err := stream.SendHeader(nil); err != nil { // says that this control lives
		return err
	}
	sub := &subscriber{s: s, role: role, name: name, stream: stream, wake: make(chan struct{}, 1), holds: map[string]*holding{}}
	sub.ctx, sub.cancel = context.WithCancel(stream.Context())
	defer sub.cancel()
	defer s.leave(sub)
	greeted, read := make(chan struct{}), make(chan error, 1)
	go func() { read <- sub.read(greeted) }()
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select { // it says hello, says something else, or says nothing
	case <-greeted:
	case err := <-read:
		return sub.over(err)
	case <-timer.C:
		return status.Errorf(codes.DeadlineExceeded, "no hello within %s", helloTimeout)
	}
	return sub.serve(read)
}

// serve waits for the end: the subscriber leaves, the stream breaks, or it is
// ended from here.
func (sub *subscriber) serve(read <-chan error) error {
	sent := make(chan error, 1)
	go func() { sent <- sub.send() }()
	var err error
	select {
	case err = <-read:
	case err = <-sent:
		return sub.over(err)
	case <-sub.ctx.Done():
	}
	sub.cancel()
	timer := time.NewTimer(stuckTimeout)
	defer timer.Stop()
	select {
	case <-sent:
	case <-timer.C:
	}
	return sub.over(err)
}

// read obeys until the stream ends. Greeted is closed once hello was taken.
func (sub *subscriber) read(greeted chan<- struct{}) error {
	first, err := sub.stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	switch {
	case hello == nil:
		return status.Error(codes.InvalidArgument, "the first message must be hello")
	case hello.GetName() != sub.name:
		return status.Errorf(codes.PermissionDenied, "%q may not subscribe as %q", sub.name, hello.GetName())
	}
	if !sub.s.turnAway(sub, hello) {
		if err := sub.s.admit(sub.role, hello); err != nil {
			return err
		}
		sub.s.enter(sub, hello)
	}
	close(greeted)
	for {
		m, err := sub.stream.Recv()
		if err != nil {
			return err
		}
		if err := sub.s.obey(sub, m); err != nil {
			return err
		}
	}
}

// over is what the subscriber is told when its stream is over.
func (sub *subscriber) over(err error) error {
	sub.once.Do(func() {}) // from here on the refusal does not change
	switch {
	case sub.refusal != nil:
		return status.Error(codes.Aborted, sub.refusal.GetReason())
	case errors.Is(err, io.EOF):
		return nil
	case err != nil && status.Code(err) != codes.Unknown:
		return err
	}
	return status.Error(codes.Canceled, "the stream ended")
}

// end ends the stream from here; it does not wait. The refusal is sent by
// whoever sends, where that is not stuck.
func (sub *subscriber) end(r *pb.FollowRefusal) {
	sub.once.Do(func() {
		sub.refusal = r
		sub.cancel()
	})
}

// enter makes a stream its subscriber's only one, or ends it where no views are
// published.
func (s *Server) enter(sub *subscriber, hello *pb.SubscribeHello) {
	leader := s.cfg.Leader()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock()
	sub.hello, sub.heard, sub.epoch = hello, now, s.epoch
	if sub.left { // it said hello too late
		return
	}
	if r := s.elsewhereLocked(sub, leader); r != nil {
		sub.end(r)
		return
	}
	if old := s.subscribers[sub.key()]; old != nil {
		old.end(&pb.FollowRefusal{Reason: "another stream of this subscriber replaced this one"})
	}
	s.forgetLocked(now)
	s.replaceLocked(sub)
	sub.open, sub.claims = true, hello.GetHoldsNothing()
	sub.several = slices.Contains(hello.GetFeatures(), featureSeveral)
	s.open++
	if sub.relays() {
		s.relaysOpen++
	}
	s.countLocked()
	s.cfg.Log.Info("a subscriber is connected", "role", sub.role, "name", sub.name, "library", hello.GetLibrary())
}

// key tells subscribers apart. Each gateway and relay has a name of its own; of a
// caller or a service there may be many processes under one.
func (sub *subscriber) key() string {
	switch sub.role {
	case "gateway", "relay":
		return sub.who()
	}
	return sub.who() + "/" + sub.hello.GetSession()
}

func (sub *subscriber) who() string { return sub.role + "/" + sub.name }

// replaceLocked enters a subscriber in the place of those of its name that left:
// whoever starts again and again under new sessions is remembered once.
func (s *Server) replaceLocked(sub *subscriber) {
	for _, key := range s.gone[sub.who()] {
		s.eraseLocked(key)
	}
	delete(s.gone, sub.who())
	s.subscribers[sub.key()] = sub
}

// eraseLocked forgets one that left, unless it came back.
func (s *Server) eraseLocked(key string) {
	if sub := s.subscribers[key]; sub != nil && !sub.open {
		delete(s.subscribers, key)
	}
}

// leave keeps what is known of a subscriber, for people.
func (s *Server) leave(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.left = true; sub.open {
		s.releaseLocked(sub)
		s.gone[sub.who()] = append(s.gone[sub.who()], sub.key())
		s.cfg.Log.Info("a subscriber is no longer connected", "role", sub.role, "name", sub.name)
	}
}

// releaseLocked has nothing more sent to a subscriber.
func (s *Server) releaseLocked(sub *subscriber) {
	sub.open, sub.urgent, sub.rest, sub.refused, sub.asks = false, nil, nil, nil, nil
	sub.stirred = 0
	s.open--
	if sub.relays() {
		s.relaysOpen--
	}
	if s.relays[sub.name] == sub {
		delete(s.relays, sub.name)
	}
	s.countLocked()
	s.unaskLocked(sub)
	for name, h := range sub.holds {
		h.sent = nil
		s.departLocked(h)
		s.unlistLocked(name, h)
	}
}

// unlistLocked has nothing more sent of a service. Who leaves owes nothing.
func (s *Server) unlistLocked(service string, h *holding) {
	t := h.topic
	if h.listed {
		h.sub.leaveLocked(t, h)
	}
	t.holders.remove(h)
	delete(t.barred, h.sub)
	if s.topics[service] == t {
		s.dropLocked(service, t)
	}
}

// remembered is for how long it is known what a subscriber held that left.
const remembered = time.Hour

// forgetEvery is how often those are looked for that left long ago: many come at
// once.
const forgetEvery = time.Minute

func (s *Server) forgetLocked(now time.Time) {
	if now.Sub(s.forgot) < forgetEvery {
		return
	}
	s.forgot = now
	for key, sub := range s.subscribers {
		if !sub.open && now.Sub(sub.heard) > remembered {
			s.eraseLocked(key)
		}
	}
	for who, keys := range s.gone {
		if s.gone[who] = slices.DeleteFunc(keys, func(key string) bool { return s.subscribers[key] == nil }); len(s.gone[who]) == 0 {
			delete(s.gone, who)
		}
	}
}

// obey takes in one message of a stream that is open.
func (s *Server) obey(sub *subscriber, m *pb.SubscribeRequest) error {
	if m.GetApplied() != nil || m.GetBeat() != nil {
		s.hear(sub, m.GetApplied().GetViews())
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sub.open {
		return nil
	}
	sub.heard = s.cfg.Clock()
	switch m := m.GetMessage().(type) {
	case *pb.SubscribeRequest_Edit:
		return s.editLocked(sub, m.Edit)
	case *pb.SubscribeRequest_Tally:
		return s.tallyLocked(sub, m.Tally)
	case *pb.SubscribeRequest_Relay:
		return s.stateLocked(sub, m.Relay)
	case *pb.SubscribeRequest_Roster:
		return s.rosterLocked(sub, m.Roster)
	case *pb.SubscribeRequest_Hello:
		return status.Error(codes.InvalidArgument, "hello is said once")
	}
	return nil
}

// hear takes in that a subscriber lives, and what it picks by now.
func (s *Server) hear(sub *subscriber, applied []*pb.AppliedView) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !sub.open {
		return
	}
	sub.heard = s.cfg.Clock()
	now := sub.heard.Sub(s.began)
	for _, a := range applied {
		s.appliedLocked(sub, a, now)
	}
}

func (s *Server) editLocked(sub *subscriber, e *pb.SubscriptionEdit) error {
	for _, name := range e.GetDrop() {
		if h := sub.holds[name]; h != nil {
			s.unlistLocked(name, h)
			h.dropped = true
			delete(sub.holds, name)
		}
	}
	for _, a := range e.GetAdd() {
		if sub.claims && a.GetHeld() != nil {
			return status.Errorf(codes.InvalidArgument, "it said that it holds nothing, and names a view of %s that it holds", a.GetService())
		}
		if why := s.mayLocked(sub, a.GetService()); why != "" {
			sub.refused = append(sub.refused, &pb.RefusedRoute{Service: a.GetService(), Reason: why})
			continue
		}
		s.addLocked(sub, a)
	}
	if len(sub.refused)+len(sub.rest) > mostWaiting {
		return status.Errorf(codes.ResourceExhausted, "more than %d answers wait to be taken", mostWaiting)
	}
	if len(sub.refused) > 0 {
		sub.stir()
	}
	return nil
}

// mayLocked says why a service cannot be had; empty where it can.
func (s *Server) mayLocked(sub *subscriber, service string) string {
	switch {
	case service == "":
		return "it has no name"
	case sub.holds[service] == nil && len(sub.holds) >= MostServices && (!sub.relays() || len(sub.holds) >= mostOfARelay):
		return "a subscriber holds at most 2,000 services"
	}
	if s.cfg.Has != nil {
		if err := s.cfg.Has(service); err != nil {
			return err.Error()
		}
	}
	return ""
}

func (s *Server) addLocked(sub *subscriber, a *pb.Subscription) {
	t := s.topicLocked(a.GetService())
	h := sub.holds[a.GetService()]
	if h == nil {
		h = &holding{sub: sub, topic: t}
		sub.holds[a.GetService()] = h
	}
	h.version, h.sent, h.objection, h.barred = wire.Version(a.GetHeld().GetVersion()), nil, "", false
	var err error
	if h.digest, err = view.ParseDigest(a.GetHeld().GetDigest()); err != nil || h.version.Incarnation != s.epoch.Incarnation {
		h.version = view.Version{} // it holds something that is not known here
	}
	h.applied = h.version
	if !s.admittedLocked(sub, t, a.GetService()) {
		return
	}
	if !h.listed {
		sub.joinLocked(t, h)
		t.holders.add(h)
		delete(t.departed, sub.key())
	}
	if h.queueLocked(false, s.now()) {
		sub.stir()
	}
}

func (s *Server) appliedLocked(sub *subscriber, a *pb.AppliedView, now time.Duration) {
	h := sub.holds[a.GetService()]
	if h == nil || h.topic.newest == nil {
		return
	}
	t := h.topic
	v := view.Version{Region: s.region, Incarnation: sub.epoch.Incarnation, Epoch: a.GetEpoch(), Counter: a.GetCounter()}
	if v.Against(t.newest.Version) == view.Newer || h.barred && v.Against(h.version) == view.Newer {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h.applied, h.objection = v, a.GetObjection()
	if h.barred { // what was on its way when it was refused
		return
	}
	sub.acknowledgeLocked(t, h, budget.NumberOf(v), now)
}
