package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/prober"
)

// proberRole is one prober and its trust.
type proberRole struct {
	name     string
	lock     *os.File
	keys     *identity.Keystore
	prober   *prober.Role
	trust    *trust
	running  *running
	trusting *running
}

// proberConfig of one prober.
type proberConfig struct {
	name, zone string
	controls   []string
	token      func(context.Context) (string, error)
	hint       string
	anew       bool // an identity comes by itself where it is damaged
}

func openProber(p *process, cfg proberConfig) (*proberRole, error) {
	r := &proberRole{name: cfg.name}
	folder := filepath.Join(p.Data, dirProber, cfg.name)
	var err error
	if r.keys, err = openKeys(p, folder, identity.Prober, cfg.anew); err != nil {
		return nil, err
	}
	// Two of one name would take each other's stream away for ever.
	if r.lock, err = os.OpenFile(filepath.Join(folder, fileLock), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("cannot lock prober folder: %w", err)
	}
	if err := take(r.lock, folder); err != nil {
		return nil, errors.Join(err, r.lock.Close())
	}
	r.prober = prober.NewRole(prober.RoleConfig{
		Name: cfg.name, Zone: cfg.zone, Control: cfg.controls, Connect: prober.ByGRPC(toControl(r.keys, cfg.controls)),
		Library: "fairlead prober " + p.Version, Logger: p.log, Metrics: p.ops.Registry(),
	})
	r.trust = p.newTrust(&trust{
		role: identity.Prober, name: cfg.name, keys: r.keys, controls: cfg.controls, token: cfg.token, hint: cfg.hint,
		connected: r.prober.Connected,
	})
	return r, nil
}

func (r *proberRole) serve(ctx context.Context) {
	r.running = start(ctx, r.prober.Run)
	r.trusting = start(ctx, r.trust.run)
}

func (r *proberRole) stop() error {
	if r.running == nil {
		return r.lock.Close()
	}
	return errors.Join(r.running.stop(), r.trusting.stop(), r.lock.Close())
}

// ready: a prober that no control hears is of no use.
func (r *proberRole) ready() error {
	if !r.prober.Connected() {
		return errors.New("no control is heard: what is seen is told to nobody")
	}
	return nil
}

// Prober runs a prober as a process of its own.
func (Roles) Prober(ctx context.Context, o cli.ProberOptions) (err error) {
	p, err := newProcess(o.Process)
	if err != nil {
		return err
	}
	// 1. What can be refused is refused before anything is made.
	if err := identity.CheckName(o.Name); err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	if err := free(port{"--ops", o.Ops}); err != nil {
		return err
	}
	r, err := openProber(p, proberConfig{
		name: o.Name, zone: o.Zone, controls: o.Control, token: fleetToken(o.Joining), hint: tokenHint(o.Joining, identity.Prober),
	})
	if err != nil {
		return err
	}
	p.ops.Check("prober "+o.Name, r.ready)
	defer func() { err = errors.Join(err, r.stop()) }()
	ops, err := p.serveOps(o.Ops)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeOps()) }()
	// 2. Without an identity it is nobody.
	if !r.keys.Have() {
		if err := r.trust.join(ctx, o.TokenFile != ""); err != nil {
			return endedIsFine(ctx, err)
		}
	}
	r.serve(ctx)
	p.say("prober is up: %s in zone %s, ops http://%s/", o.Name, o.Zone, ops)
	releaseMemory()
	select {
	case <-ctx.Done():
		return nil
	case <-r.running.done:
		return r.running.err
	}
}
