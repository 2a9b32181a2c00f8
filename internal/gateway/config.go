package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fairlead-platform/fairlead/view"
)

// Tables is the holder of the route table, as a gateway needs it.
type Tables interface {
	// Table in force; nil before any was received.
	Table() *view.Table
	// OnChange has f called with each later table, in order, one at a time.
	// When f returns no lease is granted under an earlier table, so the holder
	// acknowledges a table as served only then. cancel ends the calls.
	OnChange(f func(*view.Table)) (cancel func())
}

// Views is the holder of the services' views, as a gateway needs it.
type Views interface {
	// Want says which services' views to hold. It does not wait.
	Want(services []string)
	// OnChange has f called with each view that is held, and with each later
	// one, one at a time. When f returns leases are granted by it, so the holder
	// acknowledges it only then. cancel ends the calls.
	OnChange(f func(*view.Service)) (cancel func())
}

// Config of a gateway.
type Config struct {
	// Name it is known by; required.
	Name string
	// Session of this process; required. A new session holds no credits of old.
	Session string
	// Public is the address that requests come to; port 0 picks one.
	Public string
	// Poll is the address that hosts dial. A port of 0 picks one, which is kept
	// in Dir so that a restart has it again.
	Poll string
	// Dir is the gateway's folder; required. It is locked while the gateway lives.
	Dir string
	// Tables to route by; required.
	Tables Tables
	// Views to choose by among the instances that a table allows; nil means that
	// nothing is known of any.
	Views Views
	// ServerCreds of the poll listener; nil means plain text.
	ServerCreds credentials.TransportCredentials
	// ServerOptions are added to the poll server: interceptors and the like.
	ServerOptions []grpc.ServerOption
	// PeerName says which host is at the other end of a poll stream; nil means
	// that whoever dials is believed.
	PeerName func(ctx context.Context) (string, error)
	// Logger; nil discards.
	Logger *slog.Logger
	// AccessLog gets one line per request; nil means none.
	AccessLog *slog.Logger
	// Metrics to register with; nil means none.
	Metrics prometheus.Registerer
	// Drain is how long requests in flight may go on after Run is told to end;
	// zero means 30 s.
	Drain time.Duration
	// Zone that the gateway stands in: its instances are leased first, where the
	// service's policy does not say otherwise. Empty prefers none.
	Zone string
	// BodyTimeout is how long the body of a request may pause, and how long a slow
	// one may take before it must have come at minBodyRate; zero means 20 s. It
	// counts while the gateway waits for the caller, until a response begins.
	BodyTimeout time.Duration
	// AbandonedAfter is for how long callers who gave up must have waited in all for
	// an instance that sent nobody a byte meanwhile, so that it is counted as its
	// failure; zero means 5 s.
	AbandonedAfter time.Duration
	// Watch is given each listener with a name, and returns what to accept from;
	// nil leaves them as they are.
	Watch func(l net.Listener, name string) net.Listener
	// HideLease leaves out the response headers that name revision and table.
	HideLease bool
	// Stopping, when set, is called when nothing is accepted any more and what
	// was in flight has ended: the place to say goodbye.
	Stopping func()
}

func (c *Config) check() error {
	switch {
	case c.Name == "":
		return errors.New("cannot make a gateway without a name")
	case c.Session == "":
		return errors.New("cannot make a gateway without a session")
	case c.Dir == "":
		return errors.New("cannot make a gateway without a folder")
	case c.Tables == nil:
		return errors.New("cannot make a gateway without a holder of the route table")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Watch == nil {
		c.Watch = func(l net.Listener, _ string) net.Listener { return l }
	}
	if c.Drain <= 0 {
		c.Drain = view.DefaultDrain
	}
	if c.AbandonedAfter <= 0 {
		c.AbandonedAfter = DefaultAbandonedAfter
	}
	if c.BodyTimeout <= 0 {
		c.BodyTimeout = DefaultBodyTimeout
	}
	return nil
}

// DefaultBodyTimeout is the time-out that a body has by default.
const DefaultBodyTimeout = 20 * time.Second

// Bounds of the proxy.
const (
	minBodyRate    = 500             // bytes a second, of a request's body
	maxHeader      = 64 << 10        // of a request
	maxAnswer      = 256 << 10       // of a response's head
	holdLimit      = 64 << 10        // of a body that is kept to be sent again
	copySize       = 32 << 10        // of a copy buffer
	maxResends     = 2               // beside those after attempts that sent nothing
	maxUnsent      = 64              // such attempts of a request
	maxInforms     = 32              // informational responses before the final one
	maxIdleConns   = 256             // per instance
	idleFor        = 4 * time.Second // below the 5 s after which common servers close
	headerTimeout  = 10 * time.Second
	callerIdle     = 2 * time.Minute
	continueWait   = time.Second           // for an instance that ignores Expect
	upgradeLinger  = 10 * time.Second      // for the second direction to end
	lookEvery      = 50 * time.Millisecond // at callers whose requests take their time
	lingerFor      = 5 * time.Second       // for a caller to take its answer while it sends what nobody reads
	hangupInterval = time.Second           // between looks at a caller whose body is unread
)
