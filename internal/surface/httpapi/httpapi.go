// Package httpapi serves the operator API and the giving of identities: by
// Connect, gRPC and plain JSON. It works on the store alone, where every write
// is bound to the version that was read, and looks at the running world through
// small readers; it commands neither hosts nor gateways. Read [Config] first,
// then deploy.go, which is the pattern of every write, and watch.go.
package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// Hosts tells what runs.
type Hosts interface {
	// States is every host since the leader started, with its instances.
	States() []service.HostState
}

// Gateways tells who routes by what.
type Gateways interface {
	States() []service.GatewayState
}

// Logs tells what instances wrote.
type Logs interface {
	// Logs hands lines to emit until they end, or, when followed, until ctx
	// does. It returns emit's error, or why the lines cannot be had.
	Logs(ctx context.Context, q service.LogQuery, emit func([]service.LogLine) error) error
}

// Leader tells of the control role, and takes what only it may do.
type Leader interface {
	Leading() bool
	Epoch() view.Epoch
	// Alarms in force for the service; for the installation when it is empty.
	Alarms(service string) []string
	// RetryAt is when a saga that waits is tried again, by the leader's own
	// clock, which began anew with it; zero where it waits for nothing.
	RetryAt(saga string) time.Time
	// Stops of a service that wait for callers.
	Stops(service string) []service.StopWait
	// RetireGateway ends the membership of a gateway that is gone for good.
	RetireGateway(ctx context.Context, name string) error
	// RetireHost ends the membership of a host that is gone for good.
	RetireHost(ctx context.Context, name string) error
	// DrainHost says whether anything is to run on a host.
	DrainHost(ctx context.Context, name string, drain bool) error
}

// Authority signs identities; *identity.Authority is one.
type Authority interface {
	Sign(csrPEM []byte, id identity.ID, opts ...identity.SignOption) ([]byte, error)
	Bundle() []byte
	Fingerprint() string
	TrustDomain() string
}

// Config of an API. Store, Bucket, Hosts, Gateways, Logs, Leader, Authority,
// NewID and Rand are required.
type Config struct {
	Store     store.Store
	Bucket    bucket.Bucket
	Hosts     Hosts
	Gateways  Gateways
	Logs      Logs
	Leader    Leader
	Authority Authority
	// Discovery tells what is believed of instances; nil is nothing.
	Discovery Discovery
	// Views tells who picks by which view; nil knows of nobody.
	Views Views
	// Refusals are told to relays, and read anew once one was added; nil keeps none.
	Refusals *identity.Refusals
	// Drills exercises what is claimed; nil makes none.
	Drills Drills
	// Refused is told of each question that a service's policy forbids; nil
	// need not know.
	Refused func(err error)
	// Runtime compares authorities and registry; nil compares nothing.
	Runtime Runtime
	// Registry takes registrations; nil takes none.
	Registry Registry
	// NewID gives identities that are never given twice: instant plus random.
	NewID func() string
	// Rand is where the secrets of tokens come from.
	Rand io.Reader
	// Now is time.Now when nil.
	Now func() time.Time
	// Version of the program, for GetInfo.
	Version string
	// MaxArtifact bounds an uploaded file, in bytes; zero means 4 GiB.
	MaxArtifact int64
	// MaxArtifacts is how many bytes all artifacts may take before those that
	// nothing names are collected early; zero means without a bound.
	MaxArtifacts int64
	Log          *slog.Logger // discarded when nil
}

// API implements the operator's services and the identity service.
type API struct {
	Config
	// uses guards artifacts between a deploy that names one and the collector.
	uses       artifactUses
	challenges challenges
	refusing   sync.Mutex // who reads the refusal list
}

// New returns an API.
func New(c Config) *API {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MaxArtifact == 0 {
		c.MaxArtifact = 4 << 30
	}
	if c.Refused == nil {
		c.Refused = func(error) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &API{Config: c, uses: artifactUses{at: map[string]time.Time{}}, challenges: challenges{open: map[string]challenge{}}}
}

// Handler serves every method; who may call which is asked before it.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	opts := []connect.HandlerOption{
		connect.WithInterceptors(faults{log: a.Log}),
		connect.WithReadMaxBytes(8 << 20),
		connect.WithCodec(strictJSON{"json"}),
		connect.WithCodec(strictJSON{"json; charset=utf-8"}),
	}
	mux.Handle(fairleadv1connect.NewServiceAPIServiceHandler(a, opts...))
	mux.Handle(fairleadv1connect.NewAdminAPIServiceHandler(a, opts...))
	mux.Handle(fairleadv1connect.NewDiscoveryAPIServiceHandler(a, opts...))
	mux.Handle(fairleadv1connect.NewRegistryServiceHandler(a, opts...))
	mux.Handle(fairleadv1connect.NewResolveServiceHandler(a, opts...))
	mux.Handle(fairleadv1connect.NewIdentityServiceHandler(identityConnect{api: a}, opts...))
	return onlyMethods(mux)
}

// by is who asks, for the record: what the request says, or the peer.
func by(ctx context.Context, said string) string {
	if said != "" {
		return cut(said, 100)
	}
	if p := identity.PeerFromContext(ctx); !p.Anonymous() {
		return p.ID.Name
	}
	return ""
}

// cut bounds what a person wrote; a character is left out whole.
func cut(text string, most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }

// faults gives every error its code on the wire.
type faults struct{ log *slog.Logger }

func (f faults) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, req)
		if err != nil {
			return nil, f.onWire(req.Spec().Procedure, err)
		}
		return resp, nil
	}
}

func (f faults) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, conn); err != nil {
			return f.onWire(conn.Spec().Procedure, err)
		}
		return nil
	}
}

func (f faults) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (f faults) onWire(procedure string, err error) error {
	err = Coded(err)
	if fault.CodeOf(err) == fault.Internal {
		f.log.Error("request failed", "procedure", procedure, "error", err)
	}
	return fault.ToConnect(err)
}

// artifactUses remembers which artifacts were asked for lately, so that the
// collector does not take one between its upload and the deploy that names it.
type artifactUses struct {
	// deploys is held for reading from looking an artifact up to naming it in
	// a document, and for writing while artifacts are collected.
	deploys sync.RWMutex
	mu      sync.Mutex
	at      map[string]time.Time // :: digest → last asked for
}

func (u *artifactUses) touch(digest string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at[digest] = now
}

// since says whether the digest was asked for after the instant, and forgets
// what was not.
func (u *artifactUses) since(digest string, after time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at, ok := u.at[digest]; ok && at.After(after) {
		return true
	}
	delete(u.at, digest)
	return false
}
