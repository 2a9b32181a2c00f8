package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
)

// serveAll serves the three listeners until they are closed.
func serveAll(c *controlRole, roles, others net.Listener) error {
	ended := make(chan error, 3)
	go func() { ended <- plain("streams", c.grpc.Serve(roles)) }()
	go func() { ended <- plain("the API", c.web.Serve(others)) }()
	go func() { ended <- plain("the local API", c.local.Serve(c.socket)) }()
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
