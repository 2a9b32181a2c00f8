package resolver_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

const patience = 20 * time.Second

var leader = view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}

func table(e view.Epoch, counter uint64, revisions ...string) *view.Table {
	var routes []view.Route
	for _, r := range revisions {
		service := r[:1]
		routes = append(routes, view.Route{
			Service: service, Sequence: counter, Hosts: []string{service + ".localhost"},
			Splits: []view.Split{{Revision: r, Percent: 100, Group: r, Allowed: []string{r}}},
		})
	}
	return view.NewTable(view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: counter}, e, routes)
}

// control is a stream's server on loopback; its address outlives it.
type control struct {
	*stream.Server
	address string
	hellos  atomic.Int32
	last    atomic.Value // the last service.GatewayState that asked to be admitted
	stop    func()
}

// serve runs a control; address may be empty, or that of one that was stopped.
func serve(t *testing.T, address string, admit func(service.GatewayState) (view.Epoch, error)) *control {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &control{address: l.Addr().String()}
	c.Server = stream.New(stream.Config{
		Admit: func(_ context.Context, g service.GatewayState) (view.Epoch, error) {
			c.last.Store(g)
			c.hellos.Add(1)
			return admit(g)
		},
		Goodbye:  func(context.Context, string) error { return nil },
		PeerName: func(ctx context.Context) (string, error) { return nameOf(ctx) },
	})
	g := grpc.NewServer()
	c.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	var stopped atomic.Bool
	c.stop = func() {
		if stopped.CompareAndSwap(false, true) {
			g.Stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(c.stop)
	return c
}

func admitAll(service.GatewayState) (view.Epoch, error) { return leader, nil }

func nameOf(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if names := md.Get("name"); len(names) == 1 {
		return names[0], nil
	}
	return "", errors.New("no name")
}

type named string

func (n named) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"name": string(n)}, nil
}
func (named) RequireTransportSecurity() bool { return false }

func config(path string, controls ...string) resolver.HolderConfig {
	return resolver.HolderConfig{
		Name: "g", Path: path, Controls: controls,
		Dial: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(named("g")),
		},
		Authenticated: func(*peer.Peer) bool { return true },
	}
}

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "gateway", "routes") }

func open(t *testing.T, cfg resolver.HolderConfig) *resolver.Holder {
	t.Helper()
	h, err := resolver.OpenHolder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// run runs h until the returned function or the end of the test.
func run(t *testing.T, h *resolver.Holder) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		cancel()
		if stopped.CompareAndSwap(false, true) {
			if err := <-done; err != nil {
				t.Errorf("the holder ended by %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// until waits until the status is as it must be.
func until(t *testing.T, h *resolver.Holder, what string, ok func(resolver.HolderStatus) bool) resolver.HolderStatus {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		changed := h.Changed()
		if s := h.Status(); ok(s) {
			return s
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("waited in vain until %s: %+v", what, h.Status())
		}
	}
}

func kept(v view.Version) func(resolver.HolderStatus) bool {
	return func(s resolver.HolderStatus) bool { return s.Version == v && s.Keeps == v }
}

func revision(t *view.Table, service string) string {
	r, ok := t.Route(service)
	if !ok || len(r.Splits) == 0 {
		return ""
	}
	return r.Splits[0].Revision
}

// seed leaves the table a-1 of counter 1 on disk, as a holder keeps it.
func seed(t *testing.T, path string) *view.Table {
	t.Helper()
	one := table(leader, 1, "a-1", "b-1")
	c := serve(t, "", admitAll)
	c.Offer(one)
	h := open(t, config(path, c.address))
	stop := run(t, h)
	until(t, h, "the table is kept", kept(one.Version))
	stop()
	c.stop()
	return one
}

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
