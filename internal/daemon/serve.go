package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/outage"
	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
)

// serve opens the sockets and begins to lead.
func (c *controlRole) serve(ctx context.Context, api string) error {
	// 1. The listeners.
	ln, err := net.Listen("tcp", api)
	if err != nil {
		return cannotListen("--api", api, err)
	}
	c.listening = ln.Addr().String()
	c.address = dialable(c.listening)
	if c.socket, err = listenSocket(filepath.Join(c.p.Data, cli.SocketName)); err != nil {
		return errors.Join(err, ln.Close())
	}
	// 2. The leader and its ports, which tell others where this control listens.
	c.assemble()
	if err := c.api.LoadRefusals(ctx); err != nil { // before anybody is answered
		return errors.Join(fmt.Errorf("cannot read who is refused: %w", err), ln.Close(), c.socket.Close())
	}
	// 3. One TLS port: streams for roles, the API for operators.
	roles, others := identity.Splitter{Log: c.p.log}.Split(c.p.ops.Watch(ln, "control"), c.keys.ServerTLS(identity.ServerOptions{}))
	guard := identity.Guard{Socket: identity.SocketControl, Refused: c.refusals.Refused}
	c.grpc = grpc.NewServer(append(stream.ServerOptions(),
		grpc.Creds(identity.ServerCredentials(c.refusals)),
		grpc.ChainUnaryInterceptor(guard.Unary),
		grpc.ChainStreamInterceptor(guard.Stream))...)
	c.hosts.Register(c.grpc)
	c.gateways.Register(c.grpc)
	c.views.Register(c.grpc)
	c.witness.Register(c.grpc)
	registerIdentity(c.grpc, c.api)
	fairleadv1.RegisterResolveServiceServer(c.grpc, resolving{c: c})
	fairleadv1.RegisterRegistryServiceServer(c.grpc, registrar{c: c})
	handler := c.way.through(c.api.Handler())
	quiet := slog.NewLogLogger(c.p.log.Handler(), slog.LevelDebug)
	c.web = &http.Server{Handler: guard.HTTP(handler), ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	c.local = &http.Server{Handler: identity.LocalMiddleware(operatorName(), handler), ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	c.serving = start(ctx, func(context.Context) error { return serveAll(c, roles, others) })
	// 4. The leader, last: whoever it admits must find everything in place.
	c.leading = start(ctx, c.leader.Run)
	c.chores = start(ctx, func(ctx context.Context) error { return c.doChores(ctx, api) })
	c.refusing = start(ctx, c.followRefusals)
	return nil
}

// refusalsEvery is how old what this control knows of revocations may be.
const refusalsEvery = time.Second

// followRefusals takes in what other controls revoked.
func (c *controlRole) followRefusals(ctx context.Context) error {
	var away outage.Outage
	for sleep(ctx, refusalsEvery) {
		switch err := c.api.LoadRefusals(ctx); {
		case err == nil:
			away.Back(time.Now())
		case ctx.Err() == nil && away.Failed(time.Now()):
			c.p.log.Warn("cannot read who is refused: those known are refused still", "error", err)
		}
	}
	return nil
}

// doChores renews identities and, while leading, collects what nothing names
// any more.
func (c *controlRole) doChores(ctx context.Context, api string) error {
	tick := time.NewTicker(5 * time.Minute)
	defer tick.Stop()
	for {
		select { // the end, or time for a round
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := c.issue(api); err != nil {
			c.p.log.Error("cannot renew the identity of control", "error", err)
		}
		if !c.leader.Leading() {
			continue
		}
		c.collectArtifacts(ctx)
		if err := c.api.CollectTokens(ctx); err != nil {
			c.p.log.Warn("cannot collect tokens", "error", err)
		}
	}
}

// serveAll serves the three listeners until they are closed.
func serveAll(c *controlRole, roles, others net.Listener) error {
	ended := make(chan error, 3)
	go func() { ended <- plain("streams", c.grpc.Serve(roles)) }()
	go func() { ended <- plain("the API", c.web.Serve(others)) }()
	go func() { ended <- plain("the local API", c.local.Serve(c.p.ops.Watch(c.socket, "socket"))) }()
	return errors.Join(<-ended, <-ended, <-ended)
}

// plain leaves out the error that says that a server was closed.
func plain(what string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("cannot serve %s: %w", what, err)
}

func registerIdentity(s *grpc.Server, api *httpapi.API) {
	fairleadv1.RegisterIdentityServiceServer(s, api.IdentityServer())
}

// socket is a UNIX listener that only its owner may dial.
type socket struct {
	net.Listener
	path string
}

// listenSocket takes the place of a dead socket. Who holds the data folder's
// lock is the only one to have a live one there.
func listenSocket(path string) (*socket, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot replace socket %s: %w", path, err)
	}
	short, release, err := cli.ShortSocketPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on socket %s: %w", path, err)
	}
	// The short path is gone when it is closed; Close removes the real one.
	l.SetUnlinkOnClose(false)
	// The folder is private (0700) before the socket is made, and stays so.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot protect socket %s: %w", path, err), l.Close())
	}
	return &socket{Listener: l, path: path}, nil
}

func (s *socket) Close() error {
	err := s.Listener.Close()
	if rerr := os.Remove(s.path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// dialable turns an address that listens everywhere into one to dial from here.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// until waits for a condition of this process's own parts, which give no
// signal, or for ctx.
func until(ctx context.Context, cond func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
