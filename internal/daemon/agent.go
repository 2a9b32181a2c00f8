package daemon

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fairlead-platform/fairlead/internal/agent"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/resolver"
)

// agentRole is one agent: a resolver, its local API, and its trust.
type agentRole struct {
	p        *process
	o        cli.AgentOptions
	folder   string
	lock     *os.File
	keys     *identity.Keystore // where it joins by token
	own      *credential.Folder // where it was given an identity
	resolver *resolver.Resolver
	agent    *agent.Agent
	trust    *trust
	socket   *socket
	port     net.Listener // nil without tokens
	runs     []*running
	webs     []*http.Server
}

func openAgent(p *process, o cli.AgentOptions) (*agentRole, error) {
	a := &agentRole{p: p, o: o, folder: filepath.Join(p.Data, dirAgent, o.Name)}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

func (a *agentRole) open() error {
	// 1. Who may ask by a token, because what cannot be read is refused before anything is made.
	tokens, err := readTokens(a.o.Tokens)
	if err != nil {
		return err
	}
	// 2. The identity, and the lock of the folder: two agents would write the same views.
	role, dial, err := a.identify()
	if err != nil {
		return err
	}
	if a.lock, err = os.OpenFile(filepath.Join(a.folder, fileLock), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("cannot lock the agent's folder: %w", err)
	}
	if err := take(a.lock, a.folder); err != nil {
		return err
	}
	// 3. What is on disk: it is picked by before any connection is made.
	a.resolver, err = resolver.Open(context.Background(), resolver.Config{
		StateDir: a.folder, Plane: a.o.Control, Name: a.o.Name, TLS: dial, Zone: a.o.Zone, FirstView: -1, Log: a.p.log.With("part", "resolver"),
	})
	if err != nil {
		return err
	}
	a.agent, err = agent.New(agent.Config{
		Resolver: a.resolver, Role: string(role), Name: a.o.Name, Identity: a.identity,
		Workloads: a.o.Workloads, Tokens: tokens, Metrics: a.p.ops.Registry(), Log: a.p.log,
	})
	if err != nil {
		return err
	}
	a.p.ops.Check("views of agent "+a.o.Name, a.ready)
	// 4. Where it is asked.
	if err := freeSocket(a.o.Socket); err != nil {
		return err
	}
	if a.socket, err = listenSocket(a.o.Socket); err != nil {
		return err
	}
	// Each is known by his user: the folder of the socket says who reaches it.
	if err := os.Chmod(a.o.Socket, 0o666); err != nil {
		return fmt.Errorf("cannot open the socket to workloads: %w", err)
	}
	if len(tokens) == 0 {
		return nil
	}
	if a.port, err = net.Listen("tcp", a.o.Listen); err != nil {
		return cannotListen("--listen", a.o.Listen, err)
	}
	return nil
}

// freeSocket refuses a path that is anything but a socket at which nobody
// listens any more: what is there is removed.
func freeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode()&fs.ModeSocket == 0 {
		err = errors.New("something else is there")
	}
	if err != nil {
		return fault.New(fault.Invalid, "name another path by --socket", "cannot listen at %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), trustTimeout)
	defer cancel()
	conn, err := cli.DialSocket(ctx, path)
	if err != nil {
		return nil // who listened there is gone
	}
	return errors.Join(fault.New(fault.Conflict, "stop that one, or name another path by --socket", "cannot listen at %s: another process listens there", path), conn.Close())
}

// ready: it holds something to answer by, or hears the plane.
func (a *agentRole) ready() error {
	if s := a.resolver.Status(); !s.Connected && len(a.resolver.OnDisk()) == 0 {
		return errors.New("no view is held and the plane is not heard")
	}
	return nil
}

// identify is what the agent is, and how it dials the plane.
func (a *agentRole) identify() (identity.Role, *tls.Config, error) {
	if err := os.MkdirAll(a.folder, 0o700); err != nil {
		return "", nil, fmt.Errorf("cannot make the agent's folder: %w", err)
	}
	if a.o.Identity != "" {
		f, err := credential.Open(a.o.Identity)
		if err != nil {
			return "", nil, fault.Wrap(fault.Invalid, "", err)
		}
		if f.Name() != a.o.Name {
			return "", nil, fault.New(fault.Invalid, "leave --name out, or name the folder of its identity", "the identity in %s is %s, not one named %q", a.o.Identity, f.ID(), a.o.Name)
		}
		a.own = f
		return identity.Role(f.Role()), f.TLS(), nil
	}
	keys, err := identity.OpenKeystore(a.folder, identity.ForRole(identity.Agent))
	if err != nil {
		return "", nil, err
	}
	a.keys = keys
	a.trust = a.p.newTrust(&trust{
		role: identity.Agent, name: a.o.Name, keys: keys, controls: a.o.Control, token: fleetToken(a.o.Joining), hint: tokenHint(a.o.Joining, identity.Agent),
		connected: func() bool { return a.resolver.Status().Connected },
	})
	return identity.Agent, keys.ClientTLS(identity.Control, identity.Relay), nil
}

// identity that the agent has now; empty before it has joined.
func (a *agentRole) identity() string {
	if a.own != nil {
		return a.own.ID()
	}
	id, err := a.keys.ID()
	if err != nil {
		return ""
	}
	return id.String()
}

// readTokens reads lines of WORKLOAD TOKEN.
func readTokens(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	wrong := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "write lines of WORKLOAD TOKEN into it, and chmod 600", "cannot use the tokens in "+path+": "+format, args...)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, wrong("%w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, wrong("others may read it (mode %04o)", info.Mode().Perm())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, wrong("%w", err)
	}
	defer f.Close()
	tokens := map[string]string{} // :: token → workload
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 || identity.CheckName(words[0]) != nil || len(words[1]) < 16 || tokens[words[1]] != "" {
			return nil, wrong("line %d is not a workload and a token of its own, of 16 characters or more", n)
		}
		tokens[words[1]] = words[0]
	}
	if err := lines.Err(); err != nil {
		return nil, wrong("%w", err)
	}
	return tokens, nil
}

// serve answers, by what is held, and follows the plane.
func (a *agentRole) serve(ctx context.Context) {
	quiet := slog.NewLogLogger(a.p.log.Handler(), slog.LevelDebug)
	web := func(s *http.Server, l net.Listener) {
		s.ReadHeaderTimeout, s.ErrorLog = 10*time.Second, quiet
		a.webs = append(a.webs, s)
		a.runs = append(a.runs, start(ctx, func(context.Context) error { return plain("the agent", s.Serve(l)) }))
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC without TLS
	web(&http.Server{Handler: a.agent.OnSocket(), ConnContext: a.agent.SocketContext, Protocols: protocols}, a.socket)
	if a.port != nil {
		web(&http.Server{Handler: a.agent.OnPort(), Protocols: protocols}, a.port)
	}
	a.runs = append(a.runs, start(ctx, a.agent.Run))
	if a.trust != nil {
		a.runs = append(a.runs, start(ctx, a.trust.run))
		return
	}
	a.runs = append(a.runs, start(ctx, func(ctx context.Context) error {
		a.own.Run(ctx, renewBy(a.own, a.o.Control), func(err error) { a.p.log.Warn("cannot renew the identity, will try again", "error", err) })
		return nil
	}))
}

// renewBy asks the first control that renews.
func renewBy(f *credential.Folder, controls []string) credential.Call {
	return func(ctx context.Context, csr []byte) (cert, bundle []byte, err error) {
		for _, address := range controls {
			var conn *grpc.ClientConn
			if conn, err = grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(f.TLS("control")))); err != nil {
				continue
			}
			cert, bundle, err = identity.RenewOver(conn)(ctx, csr)
			_ = conn.Close() // it was used for this alone
			if err == nil {
				return cert, bundle, nil
			}
		}
		return nil, nil, err
	}
}

// stop ends what was begun.
func (a *agentRole) stop() error {
	var errs []error
	for _, s := range a.webs {
		errs = append(errs, s.Close())
	}
	for _, r := range a.runs {
		errs = append(errs, r.stop())
	}
	if len(a.webs) == 0 && a.socket != nil {
		errs = append(errs, a.socket.Close())
	}
	if len(a.webs) == 0 && a.port != nil {
		errs = append(errs, a.port.Close())
	}
	if a.resolver != nil {
		errs = append(errs, a.resolver.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Close())
	}
	return errors.Join(errs...)
}

// Agent runs an agent as a process of its own.
func (Roles) Agent(ctx context.Context, o cli.AgentOptions) (err error) {
	p, err := newProcess(o.Process)
	if err != nil {
		return err
	}
	// 1. What can be refused is refused before anything is made.
	if o.Name == "" && o.Identity != "" {
		f, err := credential.Open(o.Identity)
		if err != nil {
			return fault.Wrap(fault.Invalid, "", err)
		}
		o.Name = f.Name()
	}
	if err := identity.CheckName(o.Name); err != nil {
		return fault.Wrap(fault.Invalid, "name the agent by --name", err)
	}
	if err := free(port{"--ops", o.Ops}, port{"--listen", o.Listen}); err != nil {
		return err
	}
	a, err := openAgent(p, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	ops, err := p.serveOps(o.Ops)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeOps()) }()
	// 2. It answers by what is on disk, whether or not it has joined yet.
	a.serve(ctx)
	where := o.Socket
	if a.port != nil {
		where += " and http://" + a.port.Addr().String() + "/"
	}
	p.say("agent is up: %s on %s, ops http://%s/", o.Name, where, ops)
	if a.keys != nil && !a.keys.Have() {
		if err := a.trust.join(ctx, o.TokenFile != ""); err != nil {
			return endedIsFine(ctx, err)
		}
	}
	releaseMemory()
	<-ctx.Done()
	return nil
}
