package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

type registerCmd struct {
	Name     string `arg:"" help:"Name of the service."`
	Address  string `name:"address" required:"" placeholder:"HOST:PORT" help:"Where callers reach the instance. It must show that it is yours."`
	Zone     string `name:"zone" placeholder:"ZONE" help:"Zone it stands in."`
	Revision string `name:"revision" placeholder:"NAME" help:"Revision that it runs, as you name it."`
	Identity string `name:"identity" placeholder:"DIR" help:"Folder of the identity to register by: it may register instances of the service of its own name only. Default: the operator's credential."`
	Webroot  string `name:"webroot" placeholder:"DIR" help:"Folder that the instance serves at /: the challenge is put into it. Default: this command answers at the address itself, before the instance listens there."`
}

const (
	renewEvery = 10 * time.Second
	retryRenew = 2 * time.Second
	leaveWait  = 5 * time.Second
)

// Run registers, renews until it is told to end, and then deregisters.
func (cmd *registerCmd) Run(c *call) error {
	cl, err := c.dialBy(cmd.Identity)
	if err != nil {
		return err
	}
	defer cl.close()
	req := &fairleadv1.RegisterRequest{Service: cmd.Name, Address: cmd.Address, Zone: cmd.Zone, Revision: cmd.Revision}
	asked, err := cl.registry.Register(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	hide, err := cmd.show(asked.Msg)
	if err != nil {
		return err
	}
	req.Challenge = asked.Msg.GetChallenge()
	entered, err := cl.registry.Register(c.ctx, connect.NewRequest(req))
	if err := errors.Join(remote(err), hide()); err != nil {
		return err
	}
	if c.out.table() {
		c.out.line("instance %s of %s is registered at %s; it is renewed until this command ends", entered.Msg.GetInstance(), cmd.Name, cmd.Address)
	} else if err := c.out.message(entered.Msg); err != nil {
		return err
	}
	return c.renew(cl, entered.Msg.GetInstance())
}

// show has the address answer the challenge until hide is called.
func (cmd *registerCmd) show(m *fairleadv1.RegisterResponse) (hide func() error, err error) {
	if cmd.Webroot != "" {
		file := filepath.Join(cmd.Webroot, filepath.FromSlash(m.GetPath()))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, fmt.Errorf("cannot show the challenge: %w", err)
		}
		if err := os.WriteFile(file, []byte(m.GetContent()), 0o644); err != nil {
			return nil, fmt.Errorf("cannot show the challenge: %w", err)
		}
		return func() error { return os.Remove(file) }, nil
	}
	ln, err := net.Listen("tcp", cmd.Address)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the instance listens there already? Then name the folder that it serves by --webroot", "cannot show the challenge at %s: %w", cmd.Address, err)
	}
	srv := &http.Server{ReadHeaderTimeout: leaveWait, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != m.GetPath() {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, m.GetContent()) // who went away cannot be told
	})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	return func() error {
		err := srv.Close()
		if serr := <-ended; !errors.Is(serr, http.ErrServerClosed) {
			err = errors.Join(err, serr)
		}
		return err
	}, nil
}

// renew renews the lease until the command is told to end.
func (c *call) renew(cl *client, id string) error {
	wait := renewEvery
	for {
		timer := time.NewTimer(wait)
		select { // the end, or time to renew
		case <-c.ctx.Done():
			timer.Stop()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), leaveWait)
			defer cancel()
			_, err := cl.registry.Deregister(ctx, connect.NewRequest(&fairleadv1.DeregisterRequest{Instance: id}))
			return remote(err)
		case <-timer.C:
		}
		_, err := cl.registry.RenewLease(c.ctx, connect.NewRequest(&fairleadv1.RenewLeaseRequest{Instance: id}))
		switch {
		case err == nil:
			wait = renewEvery
		case c.ctx.Err() != nil || away(err): // after an interruption of its own, control gives each lease its full term anew
			wait = retryRenew
		default:
			return remote(err)
		}
	}
}
