// Package resolvertest is a control plane for the tests of programs that use
// package resolver: a real one's streams, on loopback, by mutual TLS, with the
// views that the test sets. It decides nothing by itself: what is set is what
// callers are told. Read [Plane] first.
package resolvertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

// Plane publishes views to callers on loopback and takes their reports. It is
// safe for concurrent use.
type Plane struct {
	dir     string
	address string
	tls     credentials.TransportCredentials

	mu       sync.Mutex
	epoch    view.Epoch
	counter  uint64
	services map[string]*view.Service // :: service → as it was set last
	running  *server                  // nil: stopped
	outcomes map[string]Outcomes      // :: instance → since the plane began
	changed  chan struct{}            // closed when outcomes change
}

// Outcomes are what callers reported of one instance.
type Outcomes struct {
	OK, Failed, Refused uint64
	Zone, Revision      string // of who reported last
}

// New starts a plane that ends with the test.
func New(t testing.TB) *Plane {
	t.Helper()
	p, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Start starts a plane. Close ends it and removes its files.
func Start() (*Plane, error) {
	dir, err := os.MkdirTemp("", "fairlead-plane")
	if err != nil {
		return nil, fmt.Errorf("cannot start a plane: %w", err)
	}
	p := &Plane{
		dir: dir, services: map[string]*view.Service{}, outcomes: map[string]Outcomes{}, changed: make(chan struct{}),
		epoch: view.Epoch{Incarnation: rand.Text()}, address: "127.0.0.1:0",
	}
	if err = p.identify(); err == nil {
		err = p.Restart()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start a plane: %w", err), os.RemoveAll(dir))
	}
	return p, nil
}

// Close ends the plane and removes its files.
func (p *Plane) Close() error {
	p.Stop()
	return os.RemoveAll(p.dir)
}

// Address that it listens on, host:port; the same after a Restart.
func (p *Plane) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// Identity is a folder with the identity of a caller.
func (p *Plane) Identity() string { return filepath.Join(p.dir, "caller") }

// Config of a resolver that follows this plane.
func (p *Plane) Config(stateDir string, services ...string) resolver.Config {
	return resolver.Config{StateDir: stateDir, Services: services, Plane: []string{p.Address()}, Identity: p.Identity()}
}

// Open a resolver that follows this plane, with an empty folder of its own. It is
// closed with the test.
func (p *Plane) Open(t testing.TB, services ...string) *resolver.Resolver {
	t.Helper()
	r, err := resolver.Open(t.Context(), p.Config(t.TempDir(), services...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Endpoint in rotation at an address, under the identity "id".
func Endpoint(id, address string) view.Endpoint {
	return view.Endpoint{ID: id, Address: address, Weight: view.FullWeight, Verdict: view.Eligible}
}

// Set publishes a service's view with these endpoints and none else.
func (p *Plane) Set(service string, endpoints ...view.Endpoint) {
	p.Publish(view.Service{Name: service, Endpoints: endpoints})
}

// Publish a view as it is, but for version and epoch, which are set here.
func (p *Plane) Publish(v view.Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v.Endpoints = slices.Clone(v.Endpoints)
	slices.SortFunc(v.Endpoints, func(a, b view.Endpoint) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	p.services[v.Name] = &v
	p.publishLocked(&v)
}

func (p *Plane) publishLocked(s *view.Service) {
	if p.running == nil {
		return
	}
	p.counter++
	v := *s
	v.Epoch = p.epoch
	v.Version = view.Version{Incarnation: p.epoch.Incarnation, Epoch: p.epoch.Number, Counter: p.counter}
	p.running.views.Publish(&v, view.Withdraws)
}

// Stop kills the plane: its streams break, and nothing listens at its address.
func (p *Plane) Stop() {
	p.mu.Lock()
	s := p.running
	p.running = nil
	p.mu.Unlock()
	if s != nil {
		s.stop()
	}
}

// Restart starts a plane that was stopped, under the next epoch, with the views
// that were set.
func (p *Plane) Restart() error {
	p.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.address = l.Addr().String()
	p.epoch.Number++
	p.epoch.Nonce = rand.Text()
	p.running = p.serve(l)
	for _, s := range p.services {
		p.publishLocked(s)
	}
	return nil
}

// NewIncarnation has the next Restart be that of a plane whose store was lost.
func (p *Plane) NewIncarnation() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch = view.Epoch{Incarnation: rand.Text()}
}

// server is one life of the plane.
type server struct {
	views *views.Server
	stop  func()
}

func (p *Plane) serve(l net.Listener) *server {
	s := &server{views: views.New(views.Config{Peer: peerOf, Unlimited: true})}
	s.views.Begin(p.epoch)
	g := grpc.NewServer(grpc.Creds(p.tls))
	s.views.Register(g)
	pb.RegisterEvidenceServiceServer(g, &evidence{p: p})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l) // it ends by Stop
	}()
	s.stop = func() {
		g.Stop()
		<-done
	}
	return s
}

func peerOf(ctx context.Context) (role, name string, err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", "", errors.New("no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", "", errors.New("no TLS")
	}
	who, err := identity.PeerOf(info.State)
	return string(who.ID.Role), who.ID.Name, err
}
