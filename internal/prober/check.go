package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Kind of a check.
type Kind string

const (
	TCP  Kind = "tcp"  // the connection is accepted; the default
	HTTP Kind = "http" // a GET is answered with 200 to 399
	GRPC Kind = "grpc" // the health protocol says SERVING
)

// Check says how to look.
type Check struct {
	Kind Kind
	// Path of an HTTP check, "/" where empty; service of a gRPC check.
	Path string
	// Host header of an HTTP check; the address where empty.
	Host    string
	Timeout time.Duration // zero means 1 s
}

// Dial opens a connection, as net.Dialer does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// look makes one look, over a connection of its own: a kept one would not
// notice a port that closed.
func (t *Target) look(ctx context.Context, dial Dial) Look {
	timeout := t.Check.Timeout
	if timeout == 0 {
		timeout = time.Second
	}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	wire := &weighed{dial: dial}
	switch t.Check.Kind {
	case HTTP:
		err = t.byHTTP(within, wire.Dial)
	case GRPC:
		err = t.byGRPC(within, wire.Dial)
	default:
		err = t.byTCP(within, wire.Dial)
	}
	l := Look{ID: t.ID, Took: time.Since(began), Bytes: int(wire.bytes.Load())}
	l.Result, l.Detail = judge(err)
	return l
}

// weighed counts what goes over the connections that it opens.
type weighed struct {
	dial  Dial
	bytes atomic.Int64
}

// connectBytes is about what it takes to open and close a connection: seven
// packets without anything in them.
const connectBytes = 7 * 52

// Dial is a [Dial].
func (w *weighed) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.bytes.Add(connectBytes)
	c, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &weighedConn{c, w}, nil
}

type weighedConn struct {
	net.Conn
	w *weighed
}

func (c *weighedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.bytes.Add(int64(n))
	return n, err
}

func (c *weighedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.w.bytes.Add(int64(n))
	return n, err
}

// judge says what an error means. A refusal is certain; all else is a sample.
func judge(err error) (eligibility.Result, string) {
	var timeout net.Error
	switch {
	case err == nil:
		return eligibility.Good, ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return eligibility.Refused, "the connection was refused"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return eligibility.TimedOut, "no answer in time"
	}
	return eligibility.Failed, err.Error()
}

func (t *Target) byTCP(ctx context.Context, dial Dial) error {
	c, err := dial(ctx, "tcp", t.Address)
	if err != nil {
		return err
	}
	return c.Close()
}

// instanceHeader names the instance that answers, where its program says so: an
// address may have become another's.
const instanceHeader = "Fairlead-Instance"

// largest body that is read of an answer; the rest says nothing more.
const largestBody = 4 << 10

func (t *Target) byHTTP(ctx context.Context, dial Dial) error {
	path := t.Check.Path
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.Address+path, nil)
	if err != nil {
		return err
	}
	req.Host = t.Check.Host
	req.Header.Set("User-Agent", "fairlead-prober")
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, Proxy: nil, DialContext: dial}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, largestBody)); err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("it answered %s", resp.Status)
	}
	if who := resp.Header.Get(instanceHeader); who != "" && t.ID != "" && who != t.ID {
		return fmt.Errorf("another instance answers there, which says that it is %q", who)
	}
	return nil
}

func (t *Target) byGRPC(ctx context.Context, dial Dial) error {
	if err := t.byTCP(ctx, dial); err != nil { // the library hides a refusal
		return err
	}
	c, err := grpc.NewClient("passthrough:///"+t.Address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }))
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := health.NewHealthClient(c).Check(ctx, &health.HealthCheckRequest{Service: t.Check.Path})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if resp.GetStatus() != health.HealthCheckResponse_SERVING {
		return fmt.Errorf("it says %s", resp.GetStatus())
	}
	return nil
}
