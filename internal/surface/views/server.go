// Package views is the server's side of the stream of service views: it sends
// each subscriber the views of the services that it names, each as one change
// from the version that it holds, and knows what each picks by. What is
// published is handed to it; it decides nothing. A stalled subscriber has a
// sender of its own, which takes the newest whenever it can send, and delays no
// other. Read [Server] first.
package views

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/admission"
	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/view"
)

// Config joins a Server to its process. Functions are called from many
// goroutines at once.
type Config struct {
	// Peer says who is at the other end of a stream, by its certificate. What a
	// subscriber says of itself must equal it.
	Peer func(ctx context.Context) (role, name string, err error)
	// Refused is told of each subscription that a service's policy forbids; nil
	// need not know.
	Refused func(err error)
	// Leader is the address of another control that leads, for who is refused
	// here; nil, or an empty one, knows of none.
	Leader func() string
	// Clock must be monotonic; nil means time.Now.
	Clock func() time.Time
	// Relay says that what is published here comes from elsewhere: doors and
	// population are told and not counted, and views may be of earlier epochs.
	Relay bool
	// Age is how long ago the control was heard that what is sent comes from;
	// nil means that it is this one.
	Age func() time.Duration
	// Has says why a service cannot be had here; nil has every one. It is called
	// with each subscription, and calls nothing of the server.
	Has func(service string) error
	// Unlimited lets everyone in at once, however many come.
	Unlimited bool
	// Beat is how often one is sent; zero means 1 s. Where there are many
	// subscribers, those that know of it are sent one less often.
	Beat time.Duration
	// Log may be nil.
	Log *slog.Logger
}

// MostServices that one subscriber may hold; a relay holds those of many.
const (
	MostServices = 2000
	mostOfARelay = 20_000
)

// Features of views that a subscriber must know to pick as they mean: that a
// weight of 0 is not to be used, that health is disregarded where a zone is
// marked, and that more may be known than is told.
func Features() []string { return []string{"out", "marks", "shed"} }

// Server serves SubscriptionService while views are published here, from Begin
// to End.
type Server struct {
	pb.UnimplementedSubscriptionServiceServer
	cfg  Config
	gate gate

	// mu is held for writing, except by what every stream does all the time: its
	// sender takes changes, and its reader takes in acknowledgements. These hold it
	// for reading, so that nobody waits for one that is slow; what either of them
	// writes is the stream's, and its own. What they write of a topic is under the
	// topic's lock.
	mu          sync.RWMutex
	leads       bool
	epoch       view.Epoch
	since       time.Duration // when views began to be published here
	region      string
	topics      map[string]*topic      // :: service → its views
	subscribers map[string]*subscriber // :: key → its newest stream, open or not
	gone        map[string][]string    // :: role/name → keys of those that left
	forgot      time.Time
	open        int                    // streams
	relaysOpen  int                    // of them
	relays      map[string]*subscriber // :: name → one that is connected and said how it is
	population  admission.Population
	doors       Doors
	leaving     *leaving      // nil: subscribers are served
	began       time.Time     // what durations are counted from
	shed        time.Duration // how long the rest waits, where that is longer than it should
	shedWhy     string
	delays      delays          // of senders that could have sent, since Load was asked
	asks        map[uint64]*ask // :: number → who waits for rosters of relays
	asked       uint64
	past        [3]budget.Histogram // of services that are no more, by kind
}

// New makes a Server; Register puts it on a gRPC server.
func New(cfg Config) *Server {
	if cfg.Refused == nil {
		cfg.Refused = func(error) {}
	}
	if cfg.Leader == nil {
		cfg.Leader = func() string { return "" }
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Beat == 0 {
		cfg.Beat = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, relays: map[string]*subscriber{}, topics: map[string]*topic{}, subscribers: map[string]*subscriber{}, gone: map[string][]string{}, asks: map[uint64]*ask{}, began: cfg.Clock()}
	if !cfg.Unlimited {
		s.gate.rule = admission.New(admission.Floor)
	}
	return s
}

type delays struct {
	sync.Mutex
	budget.Histogram
}

// gate lets subscribers in. It has a lock of its own: who is refused waits for
// nobody.
type gate struct {
	sync.Mutex
	rule        *admission.Gate // nil lets everyone in
	in, refused [2]uint64       // by class
}

// now is the time since the server began.
func (s *Server) now() time.Duration { return s.cfg.Clock().Sub(s.began) }

// Register puts the service on a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { pb.RegisterSubscriptionServiceServer(r, s) }

// SetRegion says of which region the views are that follow.
func (s *Server) SetRegion(region string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.region = region
}

// Begin takes views and subscribers from now on, under an epoch. Streams that
// were welcomed under another are welcomed anew: a new leader ends none. Views
// of another incarnation are forgotten.
func (s *Server) Begin(e view.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leads && e == s.epoch {
		return
	}
	for name, t := range s.topics {
		if clear(t.frames); t.newest != nil && t.newest.Epoch.Incarnation != e.Incarnation {
			s.emptyLocked(name, t)
		}
	}
	if !s.leads {
		s.since = s.now()
	}
	s.leads, s.epoch = true, e
	for _, sub := range s.subscribers {
		sub.stir()
	}
}

// current says whether a view may be published now: those of the present epoch,
// and at a relay those of an earlier one, which it may hold still.
func (s *Server) currentLocked(e view.Epoch) bool {
	return s.leads && (e == s.epoch || s.cfg.Relay && e.Against(s.epoch) == view.Older)
}

// Publish makes v what is sent of its service. It does not wait for anyone.
// Views that take traffic from trouble go before others that wait to be sent.
// What is not of the present epoch, or lower than before, is ignored. The view
// is not to be changed afterwards.
func (s *Server) Publish(v *view.Service, nature view.Nature) {
	for _, sub := range s.publish(v, v.Digest(), nature) { // without the lock, which all who are woken take
		sub.stir()
	}
}

// publish returns who has something to send now.
func (s *Server) publish(v *view.Service, digest view.Digest, nature view.Nature) (stirred []*subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.currentLocked(v.Epoch) {
		return nil
	}
	t := s.topicLocked(v.Name)
	if t.newest != nil && v.Version.Against(t.newest.Version) != view.Newer {
		s.cfg.Log.Warn("a view that is no newer was published", "service", v.Name, "published", v.Version, "newest", t.newest.Version)
		return nil
	}
	admits := t.newest == nil || !slices.Equal(t.newest.Callers, v.Callers)
	now := s.now()
	t.publish(v, digest, nature, now)
	if admits {
		s.admitLocked(t)
	}
	t.ledger.Publish(budget.NumberOf(v.Version), nature, t.callers, now)
	stirred = make([]*subscriber, 0, t.holders.count)
	for h := range t.holders.all() {
		if h.queueLocked(nature.Urgent(), now) {
			stirred = append(stirred, h.sub)
		}
	}
	return stirred
}

// Forget drops the views of a service that is no more. Who holds it keeps it.
func (s *Server) Forget(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[service]; t != nil {
		s.emptyLocked(service, t)
	}
}

// emptyLocked leaves nothing of what was published of a service.
func (s *Server) emptyLocked(service string, t *topic) {
	t.newest, t.recent = nil, nil
	s.retireLocked(t)
	t.ledger = budget.Ledger{}
	clear(t.frames)
	for sub := range t.barred { // there is nothing any more that they are kept from
		s.letInLocked(sub, t, sub.holds[service])
	}
	s.dropLocked(service, t)
}

// End ends every stream with a refusal, and forgets everything: what another
// leader publishes is not known here.
func (s *Server) End() {
	leader := s.cfg.Leader()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads = false
	for _, sub := range s.subscribers {
		sub.end(&pb.FollowRefusal{Reason: "no views are published here any more", Leader: leader})
		sub.open = false // nothing is left of what it would release
	}
	clear(s.relays)
	s.relaysOpen = 0
	s.open, s.shed, s.shedWhy = 0, 0, ""
	for _, t := range s.topics {
		s.retireLocked(t)
	}
	clear(s.topics)
	clear(s.subscribers)
	clear(s.gone)
}

// retireLocked counts on what was measured of a service that is dropped.
func (s *Server) retireLocked(t *topic) {
	for k := range s.past {
		s.past[k].Merge(&t.ledger.Latency[k])
	}
}

func (s *Server) topicLocked(service string) *topic {
	t := s.topics[service]
	if t == nil {
		t = &topic{frames: map[frameKey]*frame{}, barred: map[*subscriber]struct{}{}}
		s.topics[service] = t
	}
	return t
}

// dropLocked forgets a topic that has neither a view nor subscribers.
func (s *Server) dropLocked(service string, t *topic) {
	if t.newest == nil && t.holders.count == 0 {
		delete(s.topics, service)
	}
}
