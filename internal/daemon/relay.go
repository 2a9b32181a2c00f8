package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/relay"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
)

// relayRole is one relay, the port at which it is subscribed to, and its trust.
type relayRole struct {
	p         *process
	lock      *os.File
	keys      *identity.Keystore
	refusals  *identity.Refusals
	refused   string // file of theirs
	relay     *relay.Relay
	trust     *trust
	listener  net.Listener
	grpc      *grpc.Server
	drain     time.Duration
	following *running
	serving   *running
	trusting  *running
}

// relayConfig of one relay.
type relayConfig struct {
	name, listen, advertise string
	controls                []string
	drain                   time.Duration
	token                   func(context.Context) (string, error)
	hint                    string
}

func openRelay(p *process, cfg relayConfig) (*relayRole, error) {
	folder := filepath.Join(p.Data, dirRelay, cfg.name)
	r := &relayRole{p: p, drain: cfg.drain, refusals: &identity.Refusals{}, refused: filepath.Join(folder, "refused.json")}
	// 1. The identity that was given to it, if it has one, and the folder's lock.
	var err error
	if r.keys, err = identity.OpenKeystore(folder, identity.ForRole(identity.Relay)); err != nil {
		return nil, err
	}
	if r.lock, err = os.OpenFile(filepath.Join(folder, fileLock), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("cannot lock relay folder: %w", err)
	}
	if err := take(r.lock, folder); err != nil {
		return nil, errors.Join(err, r.lock.Close())
	}
	refused, err := identity.LoadRefusals(r.refused)
	if err != nil { // to let in who was revoked is worse than not to start
		return nil, errors.Join(fault.Wrap(fault.NeedsOperator, "remove it, and let the relay reach control, which tells the list anew", err), r.lock.Close())
	}
	r.refusals.Set(refused)
	// 2. The listener, before what tells control where it is.
	if r.listener, err = net.Listen("tcp", cfg.listen); err != nil {
		return nil, errors.Join(cannotListen("--listen", cfg.listen, err), r.lock.Close())
	}
	// 3. What it serves: from disk, until control is heard.
	r.relay, err = relay.Open(relay.Config{
		Name: cfg.name, Session: newID(), Library: "fairlead relay " + p.Version, Address: advertised(cfg.advertise, r.listener.Addr().String()),
		Folder: folder, Controls: cfg.controls, Dial: toControl(r.keys, cfg.controls), Peer: peerRole, Reporter: reporting, Revoked: r.revoked, Log: p.log.With("part", "relay"),
	})
	if err != nil {
		return nil, errors.Join(err, r.listener.Close(), r.lock.Close())
	}
	r.trust = p.newTrust(&trust{
		role: identity.Relay, name: cfg.name, keys: r.keys, controls: cfg.controls, token: cfg.token, hint: cfg.hint, connected: r.relay.Connected,
	})
	p.ops.Registry().MustRegister(relay.NewMetrics(r.relay))
	p.ops.Check("views of relay "+cfg.name, r.ready)
	return r, nil
}

// revoked has the list in force, and on disk for a start without control.
func (r *relayRole) revoked(refused []string) {
	r.refusals.Set(refused)
	if err := identity.KeepRefusals(r.refused, refused); err != nil {
		r.p.log.Warn("the refusal list is not on disk", "error", err)
	}
}

// ready: there is something to serve.
func (r *relayRole) ready() error {
	if !r.relay.Serves() {
		return errors.New("no view is held and no control was heard")
	}
	return nil
}

func (r *relayRole) serve(ctx context.Context) {
	guard := identity.Guard{Socket: identity.SocketRelay, Refused: r.refusals.Refused}
	r.grpc = grpc.NewServer(append(stream.ServerOptions(),
		grpc.Creds(r.keys.RoleCredentials(identity.ServerOptions{Revoked: r.refusals})),
		grpc.ChainUnaryInterceptor(guard.Unary),
		grpc.ChainStreamInterceptor(guard.Stream))...)
	r.relay.Register(r.grpc)
	r.following = start(ctx, r.relay.Run)
	r.serving = start(ctx, func(context.Context) error {
		return plain("subscribers", r.grpc.Serve(r.p.ops.Watch(r.listener, "relay")))
	})
	r.trusting = start(ctx, r.trust.run)
}

// stop sends subscribers elsewhere first, while control still hears that this
// relay is about to end.
func (r *relayRole) stop() error {
	if r.following == nil {
		return errors.Join(r.listener.Close(), r.lock.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.drain)
	defer cancel()
	r.relay.Drain(ctx)
	r.grpc.Stop()
	return errors.Join(r.serving.stop(), r.following.stop(), r.trusting.stop(), r.lock.Close())
}

// Relay runs a relay as a process of its own.
func (Roles) Relay(ctx context.Context, o cli.RelayOptions) (err error) {
	p, err := newProcess(o.Process)
	if err != nil {
		return err
	}
	// 1. What can be refused is refused before anything is made.
	if err := identity.CheckName(o.Name); err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	if err := free(port{"--listen", o.Listen}, port{"--ops", o.Ops}); err != nil {
		return err
	}
	r, err := openRelay(p, relayConfig{
		name: o.Name, listen: o.Listen, advertise: o.Advertise, controls: o.Control, drain: o.Drain,
		token: fleetToken(o.Joining), hint: tokenHint(o.Joining, identity.Relay),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	ops, err := p.serveOps(o.Ops)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeOps()) }()
	// 2. Without an identity it is nobody; with one it serves whether or not control is there.
	if !r.keys.Have() {
		if err := r.trust.join(ctx, o.TokenFile != ""); err != nil {
			return endedIsFine(ctx, err)
		}
	}
	r.serve(ctx)
	p.say("relay is up: %s, subscribers %s, ops http://%s/", o.Name, r.listener.Addr(), ops)
	releaseMemory()
	select {
	case <-ctx.Done():
		return nil
	case <-r.serving.done:
		return r.serving.err
	}
}
