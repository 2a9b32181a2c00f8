package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

const upGateway = "gw"

// installation is everything in one process.
type installation struct {
	p       *process
	o       cli.UpOptions
	control *controlRole
	gateway *gatewayRole
	hosts   []*hostRole
	probers []*proberRole
	ops     string
}

// Up runs everything in one process.
func (Roles) Up(ctx context.Context, o cli.UpOptions) (err error) {
	p, err := newProcess(o.Process)
	if err != nil {
		return err
	}
	if len(o.Zones) == 0 {
		o.Zones = []string{"default"}
	}
	in := &installation{p: p, o: o}
	// 1. What can be refused is refused before anything is made.
	if err := in.check(); err != nil {
		return err
	}
	// 2. Control first, because the others join at it.
	if in.control, err = openControl(ctx, p, o.Plane, o.API); err != nil {
		return endedIsFine(ctx, err)
	}
	defer func() { err = errors.Join(err, in.control.close()) }()
	if err := in.control.serve(ctx, o.API); err != nil {
		return err
	}
	if in.ops, err = p.serveOps(o.Ops); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeOps()) }()
	if err := in.lead(ctx); err != nil {
		return endedIsFine(ctx, err)
	}
	// 3. The gateway, the hosts and the probers, which join by tokens like anyone's.
	if err := in.open(); err != nil {
		return errors.Join(err, in.close())
	}
	defer func() { err = errors.Join(err, in.close()) }()
	if err := in.join(ctx); err != nil {
		return endedIsFine(ctx, err)
	}
	in.gateway.serve(ctx)
	for _, h := range in.hosts {
		h.serve(ctx)
	}
	for _, r := range in.probers {
		r.serve(ctx)
	}
	// 4. Say so once all of them serve.
	if err := until(ctx, in.serves); err != nil {
		return nil // told to end before it began
	}
	in.greet()
	releaseMemory()
	return in.wait(ctx)
}

func (in *installation) check() error {
	seen := map[string]bool{} // :: zone → named already
	for _, z := range in.o.Zones {
		if err := identity.CheckName(hostName(z)); err != nil || z == "" {
			return fault.New(fault.Invalid, "give letters and digits, separated by commas: --zones a,b,c", "%q is not the name of a zone", z)
		}
		if seen[z] {
			return fault.New(fault.Invalid, "name each zone once", "zone %q is named twice", z)
		}
		seen[z] = true
	}
	if err := checkStore(in.o.Store); err != nil {
		return err
	}
	// The folder before the ports: who starts twice is told of the first.
	if err := inUse(in.o.Data); err != nil {
		return err
	}
	return free(port{"--api", in.o.API}, port{"--ops", in.o.Ops}, port{"--gateway", in.o.Gateway}, port{"--poll", in.o.Poll})
}

func hostName(zone string) string { return "host-" + zone }

func proberName(zone string) string { return "prober-" + zone }

// standsBy is how long up waits for the lead: a term of one that died, and some.
const standsBy = 12 * time.Second

// lead waits until control leads. Beside another control the gateway and the
// hosts of up would wait for ever, each of a name that the other's may have.
func (in *installation) lead(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, standsBy)
	defer cancel()
	err := until(limited, in.control.leader.Leading)
	if other := in.control.leader.Leader(); err != nil && ctx.Err() == nil && other.Holder != "" {
		return fault.New(fault.Conflict, "run `fairlead control`, `gateway` and `host` where there is more than one control, or name another store",
			"another control leads on this store: %s at %s", other.Holder, other.Address)
	}
	if err != nil && ctx.Err() == nil {
		return fault.New(fault.Unavailable, "look at the log, and at the store", "the lead could not be taken within %s", standsBy)
	}
	return err
}

// open makes the roles; nothing of them runs yet.
func (in *installation) open() error {
	controls := []string{in.control.address}
	mint := func(role identity.Role, name string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return in.control.api.Mint(ctx, role, name) }
	}
	var err error
	in.gateway, err = openGateway(in.p, gatewayConfig{
		name: upGateway, controls: controls, public: in.o.Gateway, poll: in.o.Poll, drain: in.o.Drain, bodyTimeout: in.o.BodyTimeout,
		token: mint(identity.Gateway, upGateway), hint: "it joins again by itself", anew: true,
		// Instances end when nothing is in flight any more and while the gateway
		// still hears its hosts, because hosts wait for it to let them go.
		stopping: func() { in.stopHosts() },
	})
	if err != nil {
		return err
	}
	for _, zone := range in.o.Zones {
		name := hostName(zone)
		h, err := openHost(in.p, hostConfig{
			name: name, zone: zone, controls: controls, keep: in.o.KeepInstances,
			token: mint(identity.Host, name), hint: "it joins again by itself", anew: true,
		})
		if err != nil {
			return err
		}
		in.hosts = append(in.hosts, h)
		name = proberName(zone)
		r, err := openProber(in.p, proberConfig{name: name, zone: zone, controls: controls, token: mint(identity.Prober, name), hint: "it joins again by itself", anew: true})
		if err != nil {
			return err
		}
		in.probers = append(in.probers, r)
	}
	return nil
}

// join gives an identity of the present authority to who has none.
func (in *installation) join(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	trusts := []*trust{in.gateway.trust}
	for _, h := range in.hosts {
		trusts = append(trusts, h.trust)
	}
	for _, r := range in.probers {
		trusts = append(trusts, r.trust)
	}
	for _, t := range trusts {
		print, err := t.keys.Fingerprint()
		if err == nil && print == in.control.authority.Fingerprint() {
			continue
		}
		group.Go(func() error { return t.join(ctx, false) })
	}
	return group.Wait()
}

// serves: the leader leads, the gateway follows it, the hosts are attached.
func (in *installation) serves() bool {
	if !in.control.leader.Leading() || !in.gateway.holder.Status().Connected {
		return false
	}
	attached := 0
	for _, h := range in.control.hosts.States() {
		if h.Connected && h.Reported && slices.ContainsFunc(in.hosts, func(r *hostRole) bool { return r.name == h.Name }) {
			attached++
		}
	}
	return attached == len(in.hosts)
}

func (in *installation) greet() {
	in.p.say("fairlead is up: gateway http://%s/, API %s and %s, ops http://%s/, data %s",
		in.gateway.gateway.PublicAddr(), in.control.address, in.control.socket.path, in.ops, in.p.Data)
	if len(in.o.Zones) > 1 {
		in.p.say("zones %s", strings.Join(in.o.Zones, ", "))
	}
	if in.p.Data != cli.DefaultData(os.Getenv, os.Geteuid()) {
		in.p.say("in a second terminal first:\n  export FAIRLEAD_DATA=%s", in.p.Data)
	}
	if os.Geteuid() == 0 {
		in.p.say("note: instances run as root unless deployed with --user, and could then read the operator's credential and socket in %s", in.p.Data)
	} else {
		in.p.say("note: instances run as the user that runs fairlead, and could read the operator's credential and socket in %s", in.p.Data)
	}
	in.control.tellStore()
	in.p.say("deploy something: fairlead deploy hello -- python3 -m http.server '$(PORT)'")
}

// wait for the end that is asked for, or for the failure of a role.
func (in *installation) wait(ctx context.Context) error {
	failed := make(chan error, 1+len(in.hosts))
	watch := func(what string, r *running) {
		<-r.done
		failed <- fmt.Errorf("%s ended: %w", what, errors.Join(r.err, errors.New("everything else is ended with it")))
	}
	go watch("the gateway", in.gateway.serving) // these end with their roles
	for _, h := range in.hosts {
		go watch(h.name, h.running)
	}
	select {
	case <-ctx.Done():
		in.p.say("ending: requests in flight may go on for %s; a second Ctrl-C ends at once", in.o.Drain)
		return nil
	case err := <-failed:
		return err
	}
}

// stopHosts stops all hosts side by side. It may be called twice.
func (in *installation) stopHosts() error {
	var group errgroup.Group
	for _, h := range in.hosts {
		group.Go(h.stop)
	}
	return group.Wait()
}

// close ends leading, because a deploy that meets hosts which end would be
// taken to have failed; then the probers, whom nobody hears; then the gateway, which ends the hosts when nothing is
// in flight; and then whatever of the hosts is left.
func (in *installation) close() error {
	errs := []error{in.control.standDown()}
	for _, r := range in.probers {
		errs = append(errs, r.stop())
	}
	if in.gateway != nil {
		errs = append(errs, in.gateway.stop(false))
	}
	return errors.Join(append(errs, in.stopHosts())...)
}
