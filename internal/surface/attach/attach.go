// Package attach is the leader's side of the streams that hosts keep to it: it
// welcomes hosts by their identity, sends them commands and takes in what they
// report. It decides nothing about services and stores nothing. Read [Server]
// first.
package attach

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// What a command's error can say. Each is found by errors.Is, beside the
// fault code of the error.
var (
	// ErrAbsent: the host is not connected; nothing was done. Code unavailable.
	ErrAbsent = errors.New("host is not connected")
	// ErrUnsure: the command was sent and not answered; whether it was done is
	// not known. Code unknown.
	ErrUnsure = errors.New("no answer from the host")
	// ErrRefused: the host answered that it will not. The code is the host's.
	ErrRefused = errors.New("refused by the host")
)

// Config of a server.
type Config struct {
	// PeerName gives the name in the identity of who is at the other end; a
	// host that says another name is refused. Required.
	PeerName func(ctx context.Context) (string, error)
	// Admit says whether a host may attach, and under which epoch it is
	// commanded; kept is the highest that it has on disk. An error refuses the
	// host and is told to it. Required.
	Admit func(ctx context.Context, h service.Host, kept view.Epoch) (view.Epoch, error)
	// Artifacts opens an artifact by digest; nil means that there are none.
	Artifacts func(ctx context.Context, digest string) (io.ReadCloser, error)
	// Relays that serve views now, of which hosts tell what they start; nil is none.
	Relays func() []string
	// Logger; nil means none.
	Logger *slog.Logger
	// Now is a clock with a monotonic reading; nil means time.Now.
	Now func() time.Time
}

// Server is the port to hosts. Its zero value is not usable: see [New].
type Server struct {
	pb.UnimplementedHostControlServiceServer
	cfg Config
	log *slog.Logger

	mu       sync.Mutex
	hosts    map[string]*attached // :: host name → host
	changed  chan struct{}
	gateways *pb.GatewayList   // nil until it is set
	orders   map[string]*order // :: log order → order
	deposed  string            // why no host is welcome; empty means that they are
	turn     int               // counts the ends of leading: who was admitted before one is not welcome after it
}

// New makes a server that no host has attached to yet.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Server{
		cfg: cfg, log: cfg.Logger, hosts: map[string]*attached{},
		changed: make(chan struct{}), orders: map[string]*order{},
	}
}

// Register puts the service on a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { pb.RegisterHostControlServiceServer(r, s) }

func (s *Server) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Depose ends every stream with the reason, and what is read by it, and forgets
// all hosts: this process leads no more. Hosts that come meanwhile are refused,
// also those that were admitted before, and gateways that are named are not
// told, until Lead.
func (s *Server) Depose(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deposed = reason
	s.turn++
	for _, h := range s.hosts {
		if h.conn != nil {
			h.conn.end(reason)
		}
	}
	for _, o := range s.orders {
		o.end(fault.New(fault.Unavailable, "ask again", "cannot read output of %q: %s", o.query.Service, reason))
	}
	clear(s.hosts)
	s.gateways = nil
	s.changedLocked()
}

// Lead welcomes hosts again after a Depose.
func (s *Server) Lead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deposed = ""
}
