package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

// hostRole is one host and its trust.
type hostRole struct {
	name     string
	keys     *identity.Keystore
	host     *host.Host
	trust    *trust
	running  *running
	trusting *running
}

// hostConfig of one host.
type hostConfig struct {
	name, zone string
	controls   []string
	advertise  netip.Addr
	keep       bool          // instances run on at the end
	leave      time.Duration // how long at most others are given to take what runs
	token      func(context.Context) (string, error)
	hint       string
	anew       bool // an identity comes by itself where it is damaged
}

func openHost(p *process, cfg hostConfig) (*hostRole, error) {
	h, control := &hostRole{name: cfg.name}, &heard{}
	folder := filepath.Join(p.Data, dirHost, cfg.name)
	var err error
	if h.keys, err = openKeys(p, folder, identity.Host, cfg.anew); err != nil {
		return nil, err
	}
	h.host, err = host.New(host.Config{
		Name: cfg.name, Zone: cfg.zone, Dir: folder, Control: cfg.controls, DialControl: append(toControl(h.keys, cfg.controls), control.option()),
		Identities: host.Issuing{Issue: issuer(h.keys, cfg.controls), Bundle: h.keys.Bundle}, Plane: cfg.controls,
		DialGateway: func(string) []grpc.DialOption { return dialOptions(h.keys, identity.Gateway) },
		Library:     "fairlead host " + p.Version, Metrics: p.ops.Registry(), Advertise: cfg.advertise, KeepInstances: cfg.keep, Leave: cfg.leave, Logger: p.log,
	})
	if err != nil {
		return nil, err
	}
	p.ops.Check("disk of host "+cfg.name, h.host.Health)
	h.trust = p.newTrust(&trust{
		role: identity.Host, name: cfg.name, keys: h.keys, controls: cfg.controls, token: cfg.token, hint: cfg.hint,
		connected: control.connected,
	})
	return h, nil
}

// issuer asks the first control that answers for the identity of a service.
func issuer(keys *identity.Keystore, controls []string) func(context.Context, string, []byte) ([]byte, []byte, error) {
	return func(ctx context.Context, service string, csr []byte) (cert, bundle []byte, err error) {
		for _, address := range controls {
			if cert, bundle, err = issueAt(ctx, keys, address, service, csr); err == nil || errors.Is(err, fault.Forbidden) {
				return cert, bundle, err
			}
		}
		return nil, nil, err
	}
}

func issueAt(ctx context.Context, keys *identity.Keystore, address, service string, csr []byte) (cert, bundle []byte, err error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(identity.ClientCredentials(keys, identity.Control)))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot dial control: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	m, err := fairleadv1.NewIdentityServiceClient(conn).IssueService(ctx, &fairleadv1.IssueServiceRequest{Service: service, CsrPem: csr})
	if err != nil {
		return nil, nil, fault.FromGRPC(err)
	}
	return m.GetCertificatePem(), m.GetBundlePem(), nil
}

// serve adopts what runs and keeps it running.
func (h *hostRole) serve(ctx context.Context) {
	h.running = start(ctx, h.host.Run)
	h.trusting = start(ctx, h.trust.run)
}

// stop stops the instances, or leaves them.
func (h *hostRole) stop() error {
	if h.running == nil {
		return nil
	}
	return errors.Join(h.running.stop(), h.trusting.stop())
}

// Host runs a host as a process of its own.
func (Roles) Host(ctx context.Context, o cli.HostOptions) (err error) {
	p, err := newProcess(o.Process)
	if err != nil {
		return err
	}
	// 1. What can be refused is refused before anything is made.
	if err := identity.CheckName(o.Name); err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	advertise, err := netip.ParseAddr(o.Advertise)
	if err != nil {
		return fault.New(fault.Invalid, "give the IP address at which gateways reach this machine", "--advertise %q is not an address: %w", o.Advertise, err)
	}
	if err := free(port{"--ops", o.Ops}); err != nil {
		return err
	}
	h, err := openHost(p, hostConfig{
		name: o.Name, zone: o.Zone, controls: o.Control, advertise: advertise, keep: o.KeepInstances, leave: o.Leave,
		token: fleetToken(o.Joining), hint: tokenHint(o.Joining, identity.Host),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	ops, err := p.serveOps(o.Ops)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeOps()) }()
	// 2. With an identity it runs what it was assigned, whether or not control is there.
	if !h.keys.Have() {
		if err := h.trust.join(ctx, o.TokenFile != ""); err != nil {
			return endedIsFine(ctx, err)
		}
	}
	h.serve(ctx)
	p.say("host is up: %s in zone %s, ops http://%s/", o.Name, o.Zone, ops)
	releaseMemory()
	select {
	case <-ctx.Done():
		if !o.KeepInstances && o.Leave > 0 {
			p.say("ending: what runs here is served by other hosts first, where they can take it, for at most %s; a second Ctrl-C ends at once", o.Leave)
		}
		return nil
	case <-h.running.done:
		return h.running.err
	}
}
