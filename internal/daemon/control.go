package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"

	"github.com/fairlead-platform/fairlead/internal/bucket/dir"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/sqlite"
	"github.com/fairlead-platform/fairlead/internal/surface/attach"
	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
	"github.com/fairlead-platform/fairlead/view"
)

const ballast = 16 << 20

// controlRole is the control plane of one process: store, authority, bucket,
// the leader, and the sockets by which it is reached.
type controlRole struct {
	p         *process
	lock      *lock
	authority *identity.Authority
	keys      *identity.Keystore
	store     *sqlite.Store
	bucket    *dir.Bucket
	hosts     *attach.Server
	gateways  *stream.Server
	leader    *control.Control
	api       *httpapi.API

	address  string // host:port of the API, as dialled here
	socket   *socket
	grpc     *grpc.Server
	web      *http.Server
	local    *http.Server
	serving  *running
	leading  *running
	chores   *running
	closings []func() error // in the order of their opening
}

// openControl opens everything in the data folder. Nothing is served yet.
func openControl(p *process, api string) (*controlRole, error) {
	c := &controlRole{p: p}
	if err := c.open(api); err != nil {
		return nil, errors.Join(err, c.closeAll())
	}
	return c, nil
}

func (c *controlRole) open(api string) error {
	// 1. The folder's lock, because everything below belongs to whoever has it.
	var err error
	if c.lock, err = openData(c.p.Data); err != nil {
		return err
	}
	c.closings = append(c.closings, c.lock.Close)
	// 2. The authority, in a folder of its own: losing the store does not lose the trust.
	if c.authority, err = identity.OpenAuthority(filepath.Join(c.p.Data, dirAuthority), identity.AuthorityOptions{}); err != nil {
		return err
	}
	c.closings = append(c.closings, c.authority.Close)
	if err := c.openIdentity(api); err != nil {
		return err
	}
	// 3. The store and the bucket.
	c.store, err = sqlite.Open(sqlite.Options{Path: filepath.Join(c.p.Data, dirControl, "store.db"), Ballast: ballast, Log: c.p.log})
	if err != nil {
		return storeFault(err)
	}
	c.closings = append(c.closings, c.store.Close)
	if c.bucket, err = dir.Open(filepath.Join(c.p.Data, dirBucket)); err != nil {
		return err
	}
	c.closings = append(c.closings, c.bucket.Close)
	// 4. The leader, its ports to the world, and the API over them.
	c.assemble()
	return nil
}

// storeFault gives the errors of opening the store their exit code.
func storeFault(err error) error {
	switch {
	case errors.Is(err, store.ErrLocked), errors.Is(err, store.ErrNewer), errors.Is(err, store.ErrReadOnly):
		return fault.Wrap(fault.Invalid, "name another folder by --data, or use the newer program", err)
	}
	return err
}

// openIdentity gives control its identity and the operator a credential.
func (c *controlRole) openIdentity(api string) error {
	var err error
	if c.keys, err = identity.OpenKeystore(filepath.Join(c.p.Data, dirControl), identity.ForRole(identity.Control)); err != nil {
		return err
	}
	return c.issue(api)
}

// issue renews what the authority's own process has of it. It does nothing
// while that is good.
func (c *controlRole) issue(api string) error {
	id := identity.ID{TrustDomain: c.authority.TrustDomain(), Role: identity.Control, Name: "control"}
	print, err := c.keys.Fingerprint()
	if err != nil || print != c.authority.Fingerprint() || time.Now().After(c.keys.RenewAt()) {
		host, _, err := net.SplitHostPort(api)
		if err != nil {
			return fault.New(fault.Invalid, "give HOST:PORT by --api", "%q is not an address to listen on: %w", api, err)
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			host = ""
		}
		if err := c.authority.Issue(c.keys, id, identity.WithHosts(host)); err != nil {
			return err
		}
	}
	return identity.WriteOperatorCredential(c.authority, c.p.Data, operatorName())
}

// operatorName is who runs this process.
func operatorName() string {
	if u, err := user.Current(); err == nil && identity.CheckName(u.Username) == nil {
		return u.Username
	}
	return fmt.Sprintf("uid-%d", os.Getuid())
}

func (c *controlRole) assemble() {
	c.hosts = attach.New(attach.Config{
		PeerName: peerName, Logger: c.p.log.With("part", "attach"), Artifacts: c.artifact,
		Admit: func(ctx context.Context, h service.Host, kept view.Epoch) (view.Epoch, error) {
			return c.leader.AdmitHost(ctx, h, kept)
		},
	})
	c.gateways = stream.New(stream.Config{
		PeerName: peerName, Log: c.p.log.With("part", "stream"),
		Admit: func(ctx context.Context, g service.GatewayState) (view.Epoch, error) {
			return c.leader.AdmitGateway(ctx, g)
		},
		Goodbye: func(ctx context.Context, name string) error { return c.leader.GatewayGoodbye(ctx, name) },
	})
	c.leader = control.New(control.Config{
		Store: c.store, Hosts: c.hosts, Gateways: c.gateways, Name: processName(), LockIsLease: true,
		SetGateways: c.hosts.SetGateways,
		Logger:      c.p.log.With("part", "control"), Metrics: c.p.ops.Registry(),
	})
	c.api = httpapi.New(httpapi.Config{
		Store: c.store, Bucket: c.bucket, Hosts: c.hosts, Gateways: c.gateways, Logs: logReader{c.hosts}, Leader: leaderReader{c.leader, c.store},
		Authority: c.authority, NewID: newID, Rand: rand.Reader, Version: c.p.Version, Log: c.p.log.With("part", "api"),
	})
	c.p.ops.Check("control", func() error {
		if !c.leader.Leading() {
			return errors.New("this control does not lead")
		}
		return nil
	})
}

func newID() string { return ulid.Make().String() }

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// peerName is the name in the identity that the guard let through.
func peerName(ctx context.Context) (string, error) {
	p := identity.PeerFromContext(ctx)
	if p.Anonymous() {
		return "", errors.New("the peer showed no identity")
	}
	return p.ID.Name, nil
}

// artifact opens an artifact by digest, for hosts.
func (c *controlRole) artifact(ctx context.Context, digest string) (io.ReadCloser, error) {
	r, _, err := c.bucket.Open(ctx, httpapi.ArtifactName(digest))
	return r, err
}

type logReader struct{ *attach.Server }

func (l logReader) Logs(ctx context.Context, q service.LogQuery, emit func([]service.LogLine) error) error {
	return l.StreamLogs(ctx, q, emit)
}

type leaderReader struct {
	*control.Control
	store *sqlite.Store
}

// Alarms are the installation's, or what only a person can settle of a service.
func (l leaderReader) Alarms(name string) []string {
	if name == "" {
		alarms := l.Control.Alarms()
		if l.store.Full() {
			alarms = append(alarms, "the disk of the store is full: until there is room only deletions and returns to an earlier route are recorded")
		}
		return alarms
	}
	if text := l.NeedsOperator(name); text != "" {
		return []string{text}
	}
	return nil
}

// serve opens the sockets and begins to lead.
func (c *controlRole) serve(ctx context.Context, api string) error {
	// 1. The listeners.
	ln, err := net.Listen("tcp", api)
	if err != nil {
		return cannotListen("--api", api, err)
	}
	c.address = dialable(ln.Addr().String())
	if c.socket, err = listenSocket(filepath.Join(c.p.Data, cli.SocketName)); err != nil {
		return errors.Join(err, ln.Close())
	}
	// 2. One TLS port: streams for roles, the API for operators.
	roles, others := identity.Splitter{Log: c.p.log}.Split(ln, c.keys.ServerTLS(identity.ServerOptions{}))
	c.grpc = grpc.NewServer(append(stream.ServerOptions(),
		grpc.Creds(identity.ServerCredentials()),
		grpc.ChainUnaryInterceptor(identity.UnaryInterceptor(identity.SocketControl)),
		grpc.ChainStreamInterceptor(identity.StreamInterceptor(identity.SocketControl)))...)
	c.hosts.Register(c.grpc)
	c.gateways.Register(c.grpc)
	registerIdentity(c.grpc, c.api)
	handler := c.api.Handler()
	quiet := slog.NewLogLogger(c.p.log.Handler(), slog.LevelDebug)
	c.web = &http.Server{Handler: identity.Middleware(identity.SocketControl, handler), ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	c.local = &http.Server{Handler: identity.LocalMiddleware(operatorName(), handler), ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	c.serving = start(ctx, func(context.Context) error { return serveAll(c, roles, others) })
	// 3. The leader, last: whoever it admits must find everything in place.
	c.leading = start(ctx, c.leader.Run)
	c.chores = start(ctx, func(ctx context.Context) error { return c.doChores(ctx, api) })
	return nil
}

// doChores collects what nothing names any more, and renews identities.
func (c *controlRole) doChores(ctx context.Context, api string) error {
	tick := time.NewTicker(5 * time.Minute)
	defer tick.Stop()
	for {
		select { // the end, or time for a round
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !c.leader.Leading() {
			continue
		}
		if n, err := c.api.CollectArtifacts(ctx, httpapi.ArtifactGrace); err != nil {
			c.p.log.Warn("cannot collect artifacts", "error", err)
		} else if n > 0 {
			c.p.log.Info("artifacts collected", "count", n)
		}
		if err := c.api.CollectTokens(ctx); err != nil {
			c.p.log.Warn("cannot collect tokens", "error", err)
		}
		if err := c.issue(api); err != nil {
			c.p.log.Error("cannot renew the identity of control", "error", err)
		}
	}
}

// close ends leading first, then the sockets, then gives everything up.
func (c *controlRole) close() error {
	var errs []error
	for _, r := range []*running{c.chores, c.leading} {
		if r != nil {
			errs = append(errs, r.stop())
		}
	}
	if c.serving != nil {
		c.grpc.Stop()
		errs = append(errs, c.web.Close(), c.local.Close(), c.serving.stop())
	}
	return errors.Join(append(errs, c.closeAll())...)
}

func (c *controlRole) closeAll() error {
	var errs []error
	for i := len(c.closings) - 1; i >= 0; i-- {
		errs = append(errs, c.closings[i]())
	}
	c.closings = nil
	return errors.Join(errs...)
}

// Control runs the control plane as a process of its own.
func (Roles) Control(ctx context.Context, o cli.ControlOptions) (err error) {
	p, err := newProcess(o.Process)
	if err != nil {
		return err
	}
	// 1. What can be refused is refused before anything is made.
	if err := errors.Join(inUse(o.Data)); err != nil {
		return err
	}
	if err := free(port{"--api", o.API}, port{"--ops", o.Ops}); err != nil {
		return err
	}
	// 2. Open, then serve.
	c, err := openControl(p, o.API)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.serve(ctx, o.API); err != nil {
		return err
	}
	ops, err := p.serveOps(o.Ops)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeOps()) }()
	// 3. Say so once it leads.
	if err := until(ctx, c.leader.Leading); err != nil {
		return nil // told to end before it began
	}
	p.say("control is up: API %s and %s, ops http://%s/", c.address, c.socket.path, ops)
	releaseMemory()
	<-ctx.Done()
	return nil
}
