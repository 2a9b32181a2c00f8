package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/gateway"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

// gatewayRole is one gateway: the proxy, the holder of its route table, and
// its trust.
type gatewayRole struct {
	p       *process
	keys    *identity.Keystore
	gateway *gateway.Gateway
	holder  *resolver.Holder
	trust   *trust
	tables  *tables
	views   *lateViews

	seeing    *running
	following *running
	serving   *running
	trusting  *running
	reporting *running
	reports   gateway.Reports
}

// gatewayConfig of one gateway.
type gatewayConfig struct {
	name         string
	controls     []string
	public, poll string
	drain        time.Duration
	bodyTimeout  time.Duration
	zone         string // empty prefers none
	token        func(context.Context) (string, error)
	hint         string
	anew         bool // an identity comes by itself where it is damaged
	// stopping is called when nothing is in flight any more.
	stopping func()
}

func openGateway(p *process, cfg gatewayConfig) (*gatewayRole, error) {
	g := &gatewayRole{p: p, tables: &tables{}, views: &lateViews{}}
	folder := filepath.Join(p.Data, dirGateway, cfg.name)
	// 1. The identity that was given to it, if it has one.
	var err error
	if g.keys, err = openKeys(p, folder, identity.Gateway, cfg.anew); err != nil {
		return nil, err
	}
	// 2. The proxy, which locks the folder and opens the listeners.
	session, guard := newID(), identity.Guard{Socket: identity.SocketGatewayPoll}
	g.gateway, err = gateway.New(gateway.Config{
		Name: cfg.name, Session: session, Public: cfg.public, Poll: cfg.poll, Dir: folder, Tables: g.tables, Views: g.views,
		ServerCreds: g.keys.RoleCredentials(identity.ServerOptions{}),
		ServerOptions: []grpc.ServerOption{
			grpc.ChainUnaryInterceptor(guard.Unary),
			grpc.ChainStreamInterceptor(guard.Stream),
		},
		PeerName: peerName, Logger: p.log, Metrics: p.ops.Registry(), Zone: cfg.zone, Drain: cfg.drain, BodyTimeout: cfg.bodyTimeout, Stopping: cfg.stopping, Watch: p.ops.Watch,
	})
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	// 3. The holder, after the proxy, because it tells control the addresses.
	g.holder, err = resolver.OpenHolder(resolver.HolderConfig{
		Name: cfg.name, Session: session, PublicAddress: g.gateway.PublicAddr().String(), PollAddress: g.gateway.PollAddr().String(),
		Library: "fairlead gateway " + p.Version, Path: filepath.Join(folder, "routes"), Controls: cfg.controls,
		Dial: toControl(g.keys, cfg.controls), OnApply: g.tables.apply, Polled: g.gateway.Polled, Waiting: g.gateway.Waiting, Refuse: gateway.RefuseRoute, Log: p.log,
	})
	if err != nil {
		return nil, errors.Join(err, g.gateway.Close())
	}
	g.tables.held = g.holder
	g.views.Views, err = resolver.OpenViews(resolver.ViewsConfig{
		Name: cfg.name, Session: session, Library: "fairlead gateway " + p.Version, Folder: filepath.Join(folder, "views"),
		Controls: cfg.controls, Relays: resolver.RelaysLast, Dial: toControl(g.keys, cfg.controls, identity.Relay), Calls: g.gateway.Calls, Log: p.log,
	})
	if err != nil {
		return nil, errors.Join(err, g.gateway.Close())
	}
	g.reports = gateway.Reports{Control: func() string { return g.holder.Status().Control }, Dial: toControl(g.keys, cfg.controls), Alone: g.alone, Zone: cfg.zone}
	g.trust = p.newTrust(&trust{
		role: identity.Gateway, name: cfg.name, keys: g.keys, controls: cfg.controls, token: cfg.token, hint: cfg.hint,
		connected: func() bool { return g.holder.Status().Connected },
	})
	p.ops.Check("routes of gateway "+cfg.name, g.ready)
	return g, nil
}

// ready: a table is held, from control or from disk, or control was heard.
func (g *gatewayRole) ready() error {
	if s := g.holder.Status(); g.holder.Table() == nil && !s.Connected {
		return errors.New("no route table is held and no control is heard")
	}
	return nil
}

// alone: nobody has said for a while how instances do.
func (g *gatewayRole) alone() bool {
	s := g.views.Status()
	return !s.Connected && s.Age > aloneAfter
}

const aloneAfter = 5 * time.Second

// toControl are the options of a role that dials one of several controls. A
// stopped process still takes connections: the next address is not to wait for
// it. Where there is no other address, patience is better: many may come at once.
func toControl(keys *identity.Keystore, controls []string, others ...identity.Role) []grpc.DialOption {
	options := dialOptions(keys, append([]identity.Role{identity.Control}, others...)...)
	if len(controls) > 1 {
		options = append(options, grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: nextControl}))
	}
	return options
}

const nextControl = 1500 * time.Millisecond

// dialOptions of a role that dials another.
func dialOptions(keys *identity.Keystore, expect ...identity.Role) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(identity.ClientCredentials(keys, expect...)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
	}
}

// serve begins to route, by what is held, and to follow control.
func (g *gatewayRole) serve(ctx context.Context) {
	g.serving = start(ctx, g.gateway.Run)
	g.following = start(ctx, g.holder.Run)
	g.seeing = start(ctx, g.views.Run)
	g.trusting = start(ctx, g.trust.run)
	g.reporting = start(ctx, func(ctx context.Context) error { return g.gateway.Report(ctx, g.reports) })
}

// stop drains, and then says goodbye if it is to: the gateway serves no more.
func (g *gatewayRole) stop(goodbye bool) error {
	if g.serving == nil {
		return g.gateway.Close()
	}
	err := g.serving.stop()
	if goodbye && g.holder.Status().Connected {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if gerr := g.holder.Goodbye(ctx); gerr != nil {
			g.p.log.Warn("goodbye was not taken: retire this gateway if it does not come back", "error", gerr)
		}
	}
	return errors.Join(err, g.reporting.stop(), g.following.stop(), g.seeing.stop(), g.trusting.stop())
}

// lateViews are opened after the gateway, which locks the folder that they are
// kept in.
type lateViews struct{ *resolver.Views }

// tables joins the holder, which tells of a table by one function given at its
// making, with the gateway, which is made before it.
type tables struct {
	held *resolver.Holder

	mu sync.Mutex
	f  func(*view.Table) // nil until the gateway runs
}

// Table in force.
func (t *tables) Table() *view.Table { return t.held.Table() }

// OnChange has f called with each later table.
func (t *tables) OnChange(f func(*view.Table)) (cancel func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.f = f
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.f = nil
	}
}

func (t *tables) apply(table *view.Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.f != nil {
		t.f(table)
	}
}

// Gateway runs a gateway as a process of its own.
func (Roles) Gateway(ctx context.Context, o cli.GatewayOptions) (err error) {
	p, err := newProcess(o.Process)
	if err != nil {
		return err
	}
	// 1. What can be refused is refused before anything is made.
	if err := identity.CheckName(o.Name); err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	if err := free(port{"--listen", o.Listen}, port{"--poll", o.Poll}, port{"--ops", o.Ops}); err != nil {
		return err
	}
	g, err := openGateway(p, gatewayConfig{
		name: o.Name, controls: o.Control, public: o.Listen, poll: o.Poll, drain: o.Drain, bodyTimeout: o.BodyTimeout, zone: o.Zone, token: fleetToken(o.Joining), hint: tokenHint(o.Joining, identity.Gateway),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop(true)) }()
	ops, err := p.serveOps(o.Ops)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeOps()) }()
	// 2. Without an identity it is nobody; with one it serves whether or not control is there.
	if !g.keys.Have() {
		if err := g.trust.join(ctx, o.TokenFile != ""); err != nil {
			return endedIsFine(ctx, err)
		}
	}
	g.serve(ctx)
	p.say("gateway is up: %s, requests http://%s/, hosts %s, ops http://%s/", o.Name, g.gateway.PublicAddr(), g.gateway.PollAddr(), ops)
	releaseMemory()
	return g.wait(ctx)
}

// wait for the end that is asked for, or for a failure.
func (g *gatewayRole) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-g.serving.done:
		return g.serving.err
	}
}

func tokenHint(j cli.Joining, role identity.Role) string {
	if j.TokenFile == "" {
		return "start it with --token-file FILE, and write into FILE what `" + tokenFor(role, j.Name) + "` prints"
	}
	return "write into " + j.TokenFile + " what `" + tokenFor(role, j.Name) + "` prints"
}

// tokenFor is the command that makes a token for a name: one that joined before
// joins again by no other.
func tokenFor(role identity.Role, name string) string {
	return "fairlead token create --role " + string(role) + " --name " + name
}

// endedIsFine: to be told to end before the beginning is no failure.
func endedIsFine(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
