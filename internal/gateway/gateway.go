package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/view"
)

// Gateway is one gateway. Make it with New, which opens its listeners, and then Run it.
type Gateway struct {
	cfg     Config
	log     *slog.Logger
	start   time.Time // of its monotonic clock
	room    *room
	metrics *metrics
	lock    *os.File
	public  net.Listener
	callers *callers
	poll    net.Listener
	web     *http.Server
	grpc    *grpc.Server

	inflight sync.WaitGroup // requests
	closing  sync.WaitGroup // goroutines that wait for connections to end
	stopping chan struct{}
	cutting  atomic.Bool // what is in flight is cut off
	upgrades upgrades
}

// New locks the gateway's folder and opens its listeners. It serves nobody yet.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m := newMetrics()
	g := &Gateway{
		cfg: cfg, log: cfg.Logger.With("gateway", cfg.Name), start: time.Now(),
		metrics: m, room: newRoom(m.of, cfg.Views, cfg.Zone), stopping: make(chan struct{}),
	}
	if cfg.Metrics != nil {
		if err := m.register(cfg.Metrics, g.room); err != nil {
			return nil, fmt.Errorf("cannot register the gateway's metrics: %w", err)
		}
	}
	var err error
	if g.lock, err = lockFolder(cfg.Dir); err != nil {
		return nil, err
	}
	if g.public, err = net.Listen("tcp", cfg.Public); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot listen for requests: %w", err), g.lock.Close())
	}
	if g.poll, err = listenPoll(cfg.Poll, cfg.Dir, g.log); err != nil {
		return nil, errors.Join(err, g.public.Close(), g.lock.Close())
	}
	g.callers = newCallers(cfg.Watch(g.public, "requests"))
	g.web, g.grpc = g.newWeb(), g.newGRPC()
	return g, nil
}

// PublicAddr is where requests come.
func (g *Gateway) PublicAddr() net.Addr { return g.public.Addr() }

// PollAddr is where hosts dial.
func (g *Gateway) PollAddr() net.Addr { return g.poll.Addr() }

// Serves is the version of the table in force; zero before any.
func (g *Gateway) Serves() view.Version {
	if ix := g.room.index.Load(); ix != nil {
		return ix.version
	}
	return view.Version{}
}

// Polled are the hosts that poll it now, in order.
func (g *Gateway) Polled() []string { return g.room.polled() }

// Waiting are the requests in its queues, :: service → how many; a service
// without any is left out.
func (g *Gateway) Waiting() map[string]int { return g.room.waiting() }

// Close gives up a gateway that was never Run.
func (g *Gateway) Close() error {
	return errors.Join(g.public.Close(), g.poll.Close(), g.lock.Close())
}

func (g *Gateway) newWeb() *http.Server {
	return &http.Server{
		Handler:                      g,
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  callerIdle,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		ConnContext:                  withCaller,
		ConnState:                    part,
	}
}

func (g *Gateway) newGRPC() *grpc.Server {
	opts := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if g.cfg.ServerCreds != nil {
		opts = append(opts, grpc.Creds(g.cfg.ServerCreds))
	}
	s := grpc.NewServer(append(opts, g.cfg.ServerOptions...)...)
	pb.RegisterPollServiceServer(s, &pollServer{g: g})
	return s
}

// Run serves until ctx ends, then drains, and gives everything up. It begins
// with the table that is held, however old.
func (g *Gateway) Run(ctx context.Context) error {
	// The views first: no request is to go where one says that it should not.
	if v := g.cfg.Views; v != nil {
		defer v.OnChange(g.room.see)()
	}
	// Registered first, so that no table between the two is missed.
	cancel := g.cfg.Tables.OnChange(g.room.apply)
	defer cancel()
	g.room.begin(g.cfg.Tables.Table())
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := g.web.Serve(g.callers); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("cannot serve requests: %w", err)
		}
	})
	serving.Go(func() {
		if err := g.grpc.Serve(g.cfg.Watch(g.poll, "hosts")); err != nil {
			failed <- fmt.Errorf("cannot serve hosts: %w", err)
		}
	})
	tidying, stopTidying := context.WithCancel(context.Background())
	serving.Go(func() { g.tidy(tidying) })
	serving.Go(func() { g.callers.look(tidying) })
	var err error
	select { // one of the two servers fails, or the end is asked for
	case err = <-failed:
	case <-ctx.Done():
	}
	g.drain()
	stopTidying()
	serving.Wait()
	return errors.Join(err, g.lock.Close())
}

// drain accepts nothing any more, lets what is in flight end, and cuts off the rest.
func (g *Gateway) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.Drain)
	defer cancel()
	if err := g.web.Shutdown(ctx); err != nil {
		g.cutting.Store(true)
		g.log.Warn("requests are cut off", "after", g.cfg.Drain, "error", err)
		g.callers.cut()
		if err := g.web.Close(); err != nil {
			g.log.Debug("cannot close the listener", "error", err)
		}
	}
	g.upgrades.end(ctx)
	g.inflight.Wait()
	defer context.AfterFunc(ctx, g.callers.cut)()
	g.callers.parting.Wait()
	if g.cfg.Stopping != nil {
		g.cfg.Stopping()
	}
	close(g.stopping)
	g.grpc.Stop()
	g.room.close()
	g.closing.Wait()
}

func (g *Gateway) tidy(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.room.tidy()
			g.room.relent(time.Since(g.start))
		}
	}
}
