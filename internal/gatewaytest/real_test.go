package gatewaytest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

// realWorld joins the stream's server and the resolver's holder over gRPC on
// loopback, through a relay per gateway that can be cut.
type realWorld struct {
	t        *testing.T
	mu       sync.Mutex
	backend  string // address of the control that runs; empty when none does
	gateways []*realGateway
	controls []*realControl
}

func newRealWorld(t *testing.T) *realWorld { return &realWorld{t: t} }

func (w *realWorld) current() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.backend
}

func (w *realWorld) Close() {
	for _, g := range w.gateways {
		g.Stop()
		g.relay.Close()
	}
	for _, c := range w.controls {
		c.Close()
	}
}

type realControl struct {
	*stream.Server
	w    *realWorld
	grpc *grpc.Server
	done chan error
	once sync.Once
}

func (w *realWorld) Control(cfg gatewaytest.PortConfig) gatewaytest.Control {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	c := &realControl{
		Server: stream.New(stream.Config{Admit: cfg.Admit, Goodbye: cfg.Goodbye, PeerName: nameInMetadata}),
		w:      w, grpc: grpc.NewServer(stream.ServerOptions()...), done: make(chan error, 1),
	}
	c.Register(c.grpc)
	go func() { c.done <- c.grpc.Serve(l) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backend = l.Addr().String()
	w.controls = append(w.controls, c)
	return c
}

func (c *realControl) Close() {
	c.once.Do(func() {
		c.w.mu.Lock()
		c.w.backend = ""
		c.w.mu.Unlock()
		c.grpc.Stop()
		if err := <-c.done; err != nil {
			c.w.t.Errorf("the control's server ended: %v", err)
		}
	})
}

func nameInMetadata(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if names := md.Get("name"); len(names) == 1 {
		return names[0], nil
	}
	return "", errors.New("no name")
}

// named sends the name that credentials would prove.
type named string

func (n named) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"name": string(n)}, nil
}
func (named) RequireTransportSecurity() bool { return false }

type realGateway struct {
	w      *realWorld
	name   string
	dir    string
	relay  *relay
	holder *resolver.Holder
	stop   context.CancelFunc
	ran    chan error

	mu     sync.Mutex
	refuse map[string]string // :: service → reason
}

func (w *realWorld) Gateway(name string) gatewaytest.Subject {
	g := &realGateway{
		w: w, name: name, dir: filepath.Join(w.t.TempDir(), "disk"),
		relay: newRelay(w.t, w.current), refuse: map[string]string{},
	}
	w.gateways = append(w.gateways, g)
	g.Start()
	return g
}

func (g *realGateway) Start() {
	h, err := resolver.OpenHolder(resolver.HolderConfig{
		Name: g.name, PollAddress: "127.0.0.1:1", PublicAddress: "127.0.0.1:2",
		Path: filepath.Join(g.dir, "routes"), Controls: []string{g.relay.Address()},
		Dial: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(named(g.name)),
		},
		Authenticated: func(*peer.Peer) bool { return true },
		Refuse:        g.objection,
	})
	if err != nil {
		g.w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g.holder, g.stop, g.ran = h, stop, make(chan error, 1)
	go func() { g.ran <- h.Run(ctx) }()
}

func (g *realGateway) Stop() {
	g.stop()
	if g.ran == nil {
		return
	}
	if err := <-g.ran; err != nil {
		g.w.t.Errorf("the holder ended: %v", err)
	}
	g.ran = nil
}

func (g *realGateway) objection(r view.Route) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if reason, ok := g.refuse[r.Service]; ok {
		return errors.New(reason)
	}
	return r.Check()
}

func (g *realGateway) Refuse(service, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if reason == "" {
		delete(g.refuse, service)
		return
	}
	g.refuse[service] = reason
}

func (g *realGateway) Table() *view.Table                { return g.holder.Table() }
func (g *realGateway) Cut()                              { g.relay.Cut() }
func (g *realGateway) Heal()                             { g.relay.Heal() }
func (g *realGateway) Goodbye(ctx context.Context) error { return g.holder.Goodbye(ctx) }

// Tamper edits the file as whoever knows its format would.
func (g *realGateway) Tamper(service string, edit func(view.Route) view.Route) {
	path := filepath.Join(g.dir, "routes")
	content, err := os.ReadFile(path)
	g.must(err)
	head, body, _ := bytes.Cut(content, []byte("\n"))
	var s view.Snapshot
	g.must(json.Unmarshal(body, &s))
	for i, r := range s.Routes {
		if r.Service == service {
			s.Routes[i] = edit(r)
		}
	}
	body, err = json.Marshal(s)
	g.must(err)
	fields := bytes.Fields(head)
	sum := sha256.Sum256(body)
	g.must(os.WriteFile(path, fmt.Appendf(nil, "%s %s sha256:%x %d\n%s", fields[0], fields[1], sum, len(body), body), 0o600))
}

// FailKeeping puts a file where the folder was: nothing can be written there.
func (g *realGateway) FailKeeping(err error) {
	away := g.dir + ".away"
	if err != nil {
		g.must(os.Rename(g.dir, away))
		g.must(os.WriteFile(g.dir, nil, 0o600))
		return
	}
	g.must(os.Remove(g.dir))
	g.must(os.Rename(away, g.dir))
}

func (g *realGateway) must(err error) {
	if err != nil {
		g.w.t.Fatal(err)
	}
}
