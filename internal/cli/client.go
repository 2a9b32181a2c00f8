package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

const (
	// SocketName is the API's socket within the data folder.
	SocketName = "api.sock"
	// DefaultAPI is where the API is dialled when the socket is dead.
	DefaultAPI = "127.0.0.1:7700"
	// maxSocketPath is what the kernel takes, in bytes.
	maxSocketPath = 107
	// dialWait is how long the API may take to take a connection.
	dialWait = 10 * time.Second
	// answerWait is how long an answer may take before it is said what is waited for.
	answerWait = 10 * time.Second
)

// client is the API as a command uses it.
type client struct {
	fairleadv1connect.ServiceAPIServiceClient
	fairleadv1connect.DiscoveryAPIServiceClient
	admin    fairleadv1connect.AdminAPIServiceClient
	registry fairleadv1connect.RegistryServiceClient
	identity fairleadv1connect.IdentityServiceClient
	resolve  fairleadv1connect.ResolveServiceClient
	close    func()
}

// dial finds the API: the one that is named, or the data folder's socket, or,
// where that is dead, the default address.
func (c *call) dial() (*client, error) {
	if api := c.opts.API; api != "" {
		if path, ok := socketPath(api); ok {
			return c.overSocket(path)
		}
		return c.overTLS(api)
	}
	cl, err := c.overSocket(filepath.Join(c.opts.Data, SocketName))
	if err == nil {
		return cl, nil
	}
	remote, tlsErr := c.overTLS(DefaultAPI)
	if tlsErr == nil {
		return remote, nil
	}
	return nil, &unreachableError{fault.New(fault.Unavailable,
		"start one with `fairlead up`; or name the data folder of the one that runs by --data or FAIRLEAD_DATA",
		"no control answers: %w; nor does %s: %w", err, DefaultAPI, tlsErr)}
}

// socketPath says whether an address is a socket's.
func socketPath(api string) (string, bool) {
	if path, ok := strings.CutPrefix(api, "unix:"); ok {
		return path, true
	}
	return api, strings.Contains(api, "/")
}

func (c *call) overSocket(path string) (*client, error) {
	dial := func(ctx context.Context) (net.Conn, error) { return DialSocket(ctx, path) }
	probe, err := dial(c.ctx)
	if err != nil {
		return nil, &unreachableError{fmt.Errorf("cannot reach the API: %w", err)}
	}
	first := make(chan net.Conn, 1) // the probe is the first request's connection
	first <- probe
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case conn := <-first:
			return conn, nil
		default:
			return dial(ctx)
		}
	}}
	return c.newClient(transport, "http://fairlead"), nil
}

func (c *call) overTLS(address string) (*client, error) {
	cfg, err := identity.OperatorTLS(c.opts.Data)
	if err != nil {
		return nil, &unreachableError{err}
	}
	probe, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: dialWait}, Config: cfg}).DialContext(c.ctx, "tcp", address)
	if err != nil {
		return nil, &unreachableError{fmt.Errorf("cannot reach the API at %s: %w", address, err)}
	}
	_ = probe.Close() // only whether it is there was asked
	return c.newClient(&http.Transport{TLSClientConfig: cfg}, "https://"+address), nil
}

func (c *call) newClient(t *http.Transport, base string) *client {
	hc := &http.Client{Transport: &patient{next: t, after: answerWait, tell: func() {
		fmt.Fprintln(c.env.Stderr, "fairlead: the API has not answered for "+answerWait.String()+" and is waited for: its process may be stopped or stuck")
	}}}
	return &client{
		ServiceAPIServiceClient:   fairleadv1connect.NewServiceAPIServiceClient(hc, base),
		DiscoveryAPIServiceClient: fairleadv1connect.NewDiscoveryAPIServiceClient(hc, base),
		registry:                  fairleadv1connect.NewRegistryServiceClient(hc, base),
		identity:                  fairleadv1connect.NewIdentityServiceClient(hc, base),
		resolve:                   fairleadv1connect.NewResolveServiceClient(hc, base),
		admin:                     fairleadv1connect.NewAdminAPIServiceClient(hc, base),
		close:                     t.CloseIdleConnections,
	}
}

// patient tells once per request that its answer is long in coming. Streams are
// waited for in silence: they may have nothing to say.
type patient struct {
	next  http.RoundTripper
	after time.Duration
	tell  func()
}

// RoundTrip is that of http.RoundTripper.
func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+") {
		defer time.AfterFunc(p.after, p.tell).Stop()
	}
	return p.next.RoundTrip(r)
}

// DialSocket dials a UNIX socket, by a short way where its path is too long.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	short, release, err := ShortSocketPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	return (&net.Dialer{}).DialContext(ctx, "unix", short)
}

// unreachableError says that no API answered.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// unreachable says whether err came from the way to the API, not from the API.
func unreachable(err error) bool {
	var way *unreachableError
	if errors.As(err, &way) {
		return true
	}
	var ce *connect.Error
	if !errors.As(err, &ce) || connect.IsWireError(err) || errors.Is(err, context.Canceled) {
		return false
	}
	// What did not come by the wire was made here, of a connection that failed
	// or of a request that could not be made.
	return ce.Code() != connect.CodeInvalidArgument && ce.Code() != connect.CodeUnimplemented
}

// away says whether who follows something had better ask again: there is no
// API, or it is on its way out or not yet in.
func away(err error) bool {
	return unreachable(err) || errors.Is(remote(err), fault.Unavailable)
}

// remote gives what the API said its code and hint.
func remote(err error) error {
	if err == nil || unreachable(err) {
		return err
	}
	return fault.FromConnect(err)
}
