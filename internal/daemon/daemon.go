// Package daemon joins the rooms into processes: everything in one (up), or
// each role in its own. It holds no rule of the product; each role's file reads
// as numbered steps, and an order that matters says why. Roles inside up talk
// over the same sockets and the same mutual TLS as on a fleet, and join by the
// same tokens. Read up.go first, then control.go, gateway.go and host.go.
package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/telemetry"
)

// Roles runs the long-running parts for the command line.
type Roles struct{}

var _ cli.Roles = Roles{}

// Signals returns a context that ends with the first SIGINT or SIGTERM. The
// second one ends the process at once; what runs is left to be adopted. A
// terminal that is closed is a first one, however often it says so: shell and
// kernel both do. Where SIGHUP was ignored from the start, it stays so.
func Signals() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan os.Signal, 2)
	if !signal.Ignored(syscall.SIGHUP) {
		closed := make(chan os.Signal, 1)
		signal.Notify(closed, syscall.SIGHUP)
		go func() { // lives as long as the process
			<-closed
			cancel()
		}()
	}
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	go func() { // lives as long as the process
		<-got
		cancel()
		<-got
		os.Exit(cli.ExitFailed)
	}()
	return ctx, cancel
}

// process is what every role of one process shares.
type process struct {
	cli.Process
	log *slog.Logger
	ops *telemetry.Ops
}

func newProcess(p cli.Process) (*process, error) {
	tuneMemory()
	// A reader of the output that ends, like a pager, must not end a role: its
	// instances would be left running. It is caught and not ignored, because
	// instances would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := keepToOurselves(); err != nil {
		return nil, err
	}
	if p.Stdout == nil {
		p.Stdout = io.Discard
	}
	if p.Stderr == nil {
		p.Stderr = io.Discard
	}
	log, err := telemetry.NewLogger(p.Stderr, p.LogFormat, p.LogLevel)
	if err != nil {
		return nil, err
	}
	ops := telemetry.NewOps(log)
	if p.Pprof {
		ops.Profile()
	}
	return &process{Process: p, log: log, ops: ops}, nil
}

// serveOps opens the plain port. It returns its address.
func (p *process) serveOps(address string) (string, error) {
	addr, err := p.ops.Listen(address)
	if err != nil {
		return "", cannotListen("--ops", address, err)
	}
	return addr.String(), nil
}

// closeTimeout bounds what is waited for at the end beside draining.
const closeTimeout = 2 * time.Second

func (p *process) closeOps() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return p.ops.Shutdown(ctx)
}

func (p *process) say(format string, args ...any) { fmt.Fprintf(p.Stdout, format+"\n", args...) }

// running is a part that runs until it is told to stop.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// start runs f until stop. It does not end with ctx, only with stop: the parts
// of a process end in an order.
func start(ctx context.Context, f func(context.Context) error) *running {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = f(ctx)
	}()
	return r
}

func (r *running) stop() error {
	r.cancel()
	<-r.done
	return r.err
}
