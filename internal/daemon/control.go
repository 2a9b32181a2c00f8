package daemon

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/fairlead-platform/fairlead/internal/bucket/dir"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/surface/attach"
	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/internal/surface/witness"
)

// controlRole is the control plane of one process: store, authority, bucket,
// the leader, and the sockets by which it is reached.
type controlRole struct {
	p         *process
	plane     cli.Plane
	lock      *lock
	authority *identity.Authority
	keys      *identity.Keystore
	store     store.Store
	bucket    *dir.Bucket
	hosts     *attach.Server
	gateways  *stream.Server
	leader    *control.Control
	discovery *discovery.Plane
	views     *views.Server
	witness   *witness.Server
	api       *httpapi.API
	drills    *drills
	artifacts artifactMetrics
	way       *way // to the leader, while standing by
	refusals  *identity.Refusals

	// listening is where the API listens; address is where it is dialled here.
	listening, address string
	socket             *socket
	grpc               *grpc.Server
	web                *http.Server
	local              *http.Server
	serving            *running
	leading            *running
	chores             *running
	refusing           *running
	closings           []func() error // in the order of their opening
}

// openControl opens everything in the data folder. Nothing is served yet.
func openControl(ctx context.Context, p *process, plane cli.Plane, api string) (*controlRole, error) {
	c := &controlRole{p: p, plane: plane, refusals: &identity.Refusals{}}
	if err := c.open(ctx, api); err != nil {
		return nil, errors.Join(err, c.closeAll())
	}
	return c, nil
}

func (c *controlRole) open(ctx context.Context, api string) error {
	// 1. The folder's lock, because everything below belongs to whoever has it.
	var err error
	if c.lock, err = openData(c.p.Data); err != nil {
		return err
	}
	c.closings = append(c.closings, c.lock.Close)
	// 2. The store, before the authority, because it says which authority it is led under.
	if c.store, err = openStore(ctx, c.p, c.plane.Store); err != nil {
		return err
	}
	c.closings = append(c.closings, c.store.Close)
	// 3. The authority, in a folder of its own: losing the store does not lose the trust.
	if err := c.openAuthority(ctx); err != nil {
		return err
	}
	c.closings = append(c.closings, c.authority.Close)
	if err := c.openIdentity(api); err != nil {
		return err
	}
	// 4. The bucket.
	if err := c.openBucket(); err != nil {
		return err
	}
	c.closings = append(c.closings, c.bucket.Close)
	return nil
}

// shared says that other controls may have the store open.
func (c *controlRole) shared() bool { return c.plane.Store != "" }

func (c *controlRole) openBucket() error {
	open := dir.Open
	if c.shared() {
		open = dir.OpenShared
	}
	var err error
	if c.bucket, err = open(orFolder(c.plane.Bucket, c.p.Data, dirBucket)); err == nil {
		c.bucket.Log = c.p.log.With("part", "bucket")
	}
	return err
}

// orFolder is the folder that was named, or the data folder's own.
func orFolder(named, data, own string) string {
	if named != "" {
		return named
	}
	return filepath.Join(data, own)
}

// standDown ends leading, and nothing else: what is under way is taken up again
// by who leads next. It may be called twice.
func (c *controlRole) standDown() error {
	var errs []error
	for _, r := range []*running{c.chores, c.refusing, c.leading} {
		if r != nil {
			errs = append(errs, r.stop())
		}
	}
	return errors.Join(errs...)
}

// close ends leading first, then the sockets, then gives everything up.
func (c *controlRole) close() error {
	errs := []error{c.standDown()}
	if c.drills != nil {
		c.drills.close()
	}
	if c.serving != nil {
		c.grpc.Stop()
		errs = append(errs, c.web.Close(), c.local.Close(), c.serving.stop())
		c.way.close()
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
	if err := errors.Join(checkStore(o.Store), inUse(o.Data)); err != nil {
		return err
	}
	if err := free(port{"--api", o.API}, port{"--ops", o.Ops}); err != nil {
		return err
	}
	// 2. Open, then serve.
	c, err := openControl(ctx, p, o.Plane, o.API)
	if err != nil {
		return endedIsFine(ctx, err)
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
	// 3. Say so once it leads, or knows who does.
	if err := until(ctx, func() bool { return c.leader.Leading() || c.shared() && c.leader.Leader().Holder != "" }); err != nil {
		return nil // told to end before it began
	}
	p.say("control is up: API %s and %s, ops http://%s/", c.address, c.socket.path, ops)
	c.tellStore()
	releaseMemory()
	<-ctx.Done()
	return nil
}
