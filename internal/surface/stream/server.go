// Package stream is the server's side of the view stream: it sends the newest
// route table to every gateway that follows, each from the version it holds,
// and knows what each serves and keeps. It decides nothing about who may be
// sent a table: Admit says so before anything is sent. A stalled follower has a
// sender of its own and delays no other. Read [Server] first.
package stream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// Config joins a Server to the control role. Functions are called from many
// goroutines at once.
type Config struct {
	// Admit enters a gateway into the membership and returns the leader's
	// epoch; nothing is sent before it has returned. An error refuses the
	// gateway with its text; where it has a method Leader() string, that
	// address is told too.
	Admit func(ctx context.Context, g service.GatewayState) (view.Epoch, error)
	// Goodbye ends a membership, durably. An error is told to the gateway,
	// which stays a member.
	Goodbye func(ctx context.Context, name string) error
	// PeerName says who is at the other end of a stream. What a gateway says of itself must equal it.
	PeerName func(ctx context.Context) (string, error)
	// Clock must be monotonic; nil means time.Now.
	Clock func() time.Time
	// Beat is sent after so long without anything else; zero means 1 s.
	Beat time.Duration
	// Log may be nil.
	Log *slog.Logger
}

// Server serves ViewService. It is a control's port to gateways.
type Server struct {
	pb.UnimplementedViewServiceServer
	cfg Config

	mu      sync.Mutex
	newest  *view.Table
	recent  []*view.Table // offered lately, the newest is last
	offered chan struct{} // closed at the next Offer
	frames  map[frameKey]*frame
	streams map[string]*follower // :: gateway name → its only stream, admitted or not yet
	members map[string]*member   // :: gateway name → what is known of it
	changed chan struct{}        // closed at the next change of States
	stands  bool                 // by, since Dismiss: what is offered is not sent
}

// member is one gateway that was admitted.
type member struct {
	state  service.GatewayState
	stream *follower // that it was admitted on last; says nothing about whether it is open
	heard  time.Time
}

// maxRecent bounds the tables that a reconnecting gateway may be behind by and
// still get an exact delta. They share what did not change.
const maxRecent = 64

// New makes a Server; Register puts it on a gRPC server.
func New(cfg Config) *Server {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Beat == 0 {
		cfg.Beat = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		cfg:     cfg,
		offered: make(chan struct{}),
		frames:  map[frameKey]*frame{},
		streams: map[string]*follower{},
		members: map[string]*member{},
		changed: make(chan struct{}),
	}
}

// Register puts the service on a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { pb.RegisterViewServiceServer(r, s) }

// ServerOptions find half-open connections: a peer that does not answer is
// given up after about 15 s.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 2 * time.Second, PermitWithoutStream: true}),
	}
}

// Offer makes t the table that is sent to every gateway that follows, now and
// when it connects. It does not wait for them. What is lower than was offered
// before, within one incarnation, is ignored, and so is everything between
// Dismiss and Lead. Who serves other content under t's number is sent t whole,
// also when t is offered again.
func (s *Server) Offer(t *view.Table) {
	if t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stands {
		return
	}
	if s.newest != nil && t.Version.Against(s.newest.Version) == view.Older {
		s.cfg.Log.Warn("a lower table was offered", "offered", t.Version, "newest", s.newest.Version)
		return
	}
	t = shared(s.newest, t)
	if n := len(s.recent); n > 0 && s.recent[n-1].Version == t.Version {
		s.recent = s.recent[:n-1] // offered again
	}
	s.newest = t
	s.recent = append(s.recent, t)
	if len(s.recent) > maxRecent {
		s.recent = slices.Clone(s.recent[1:])
	}
	clear(s.frames)
	close(s.offered)
	s.offered = make(chan struct{})
}

// shared is t, sharing with last what did not change.
func shared(last, t *view.Table) *view.Table {
	if last == nil {
		return t
	}
	out, err := last.Apply(t.DeltaFrom(last))
	if err != nil { // the delta was made from last: it fits
		return t
	}
	out.Floor = t.Floor
	return out
}

// States returns every gateway that has been admitted, connected or not,
// ordered by name.
func (s *Server) States() []service.GatewayState {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock()
	out := make([]service.GatewayState, 0, len(s.members))
	for _, m := range s.members {
		g := m.state
		g.Refused = maps.Clone(g.Refused)
		g.Silent = now.Sub(m.heard)
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b service.GatewayState) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Changed is closed at the next change of States. Silence that grows is no
// change: who cares about it looks again when it is due.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Dismiss ends every stream with a refusal, as a leader does that stands down,
// and forgets every gateway and table: what another leader sends is not known
// here. Gateways that come again are asked for by Admit.
func (s *Server) Dismiss(reason, leader string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stands = true
	for _, f := range s.streams {
		f.end(&pb.FollowRefusal{Reason: reason, Leader: leader})
	}
	s.newest, s.recent = nil, nil
	clear(s.frames)
	clear(s.members)
	s.changedLocked()
}

// Lead takes offers again after a Dismiss.
func (s *Server) Lead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stands = false
}

func (s *Server) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}
