package relay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/relay"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/internal/surface/witness"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; it is never what is measured.
const patience = 60 * time.Second

var (
	first  = view.Epoch{Incarnation: "01JDXH3W8PZ6QK2M4N5R7S9TVW", Number: 1, Nonce: "n"}
	second = view.Epoch{Incarnation: first.Incarnation, Number: 2, Nonce: "m"}
)

// published makes a view with so many endpoints in rotation.
func published(e view.Epoch, service string, counter uint64, endpoints int) *view.Service {
	s := &view.Service{Name: service, Epoch: e, Version: view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: counter}}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, view.Endpoint{ID: fmt.Sprintf("%s%04d", service, i), Address: "127.0.0.1:1", Weight: 1000, Verdict: view.Eligible})
	}
	s.Marks = []view.ZoneMark{{Group: service + "-00001", Counted: endpoints, In: endpoints}}
	return s
}

// who says by metadata who is at the other end of a stream, as a certificate does.
func who(ctx context.Context) (role, name string, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if names, roles := md.Get("name"), md.Get("role"); len(names) == 1 && len(roles) == 1 {
		return roles[0], names[0], nil
	}
	return "", "", errors.New("no name")
}

// as is the credentials of somebody.
type as struct{ role, name string }

func (a as) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"role": a.role, "name": a.name}, nil
}
func (as) RequireTransportSecurity() bool { return false }

func dial(role, name string, more ...grpc.DialOption) []grpc.DialOption {
	return append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(as{role, name})}, more...)
}

// listening serves what register puts on a server until stop; address may be
// that of one that was stopped.
func listening(t testing.TB, address string, register func(*grpc.Server)) (at string, stop func()) {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	stop = sync.OnceFunc(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// control publishes views, and takes in what relays merged.
type control struct {
	*views.Server
	address string
	stop    func()
	merged  chan *pb.ReportMergedRequest
}

func controlling(t testing.TB, address string, e view.Epoch) *control {
	t.Helper()
	c := &control{Server: views.New(views.Config{Peer: who}), merged: make(chan *pb.ReportMergedRequest, 100)}
	c.Begin(e)
	c.address, c.stop = listening(t, address, func(g *grpc.Server) {
		c.Register(g)
		witness.New(witness.Config{
			Reporter: func(context.Context) (func(*pb.ReportOutcomesRequest) bool, error) {
				return func(*pb.ReportOutcomesRequest) bool { return true }, nil
			},
			Merged: func(context.Context) (func(*pb.ReportMergedRequest) bool, error) {
				return func(m *pb.ReportMergedRequest) bool { c.merged <- m; return true }, nil
			},
		}).Register(g)
	})
	return c
}

// running is a relay that follows controls.
type running struct {
	*relay.Relay
	address string
	folder  string
	stop    func() // at once
}

var relays atomic.Int32

func relaying(t testing.TB, folder string, controls ...string) *running {
	t.Helper()
	return relayingAt(t, "", folder, controls...)
}

func relayingAt(t testing.TB, address, folder string, controls ...string) *running {
	t.Helper()
	if address == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address = l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	name := "r-" + filepath.Base(folder)
	r := &running{address: address, folder: folder}
	var err error
	r.Relay, err = relay.Open(relay.Config{
		Name: name, Session: fmt.Sprint(relays.Add(1)), Library: "test", Address: address, Folder: folder, Controls: controls, Dial: dial("relay", name), Peer: who,
		Authenticated: func(*peer.Peer) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, stopServing := listening(t, address, func(g *grpc.Server) { r.Register(g) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		stopServing()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// caller holds views as any caller does.
type caller struct {
	*resolver.Views
	stop func()
}

func calling(t testing.TB, name, folder string, relays resolver.Relays, at ...string) *caller {
	t.Helper()
	h, err := resolver.OpenViews(resolver.ViewsConfig{
		Name: name, Folder: folder, Controls: at, Relays: relays, Dial: dial("caller", name), Authenticated: func(*peer.Peer) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	c := &caller{Views: h}
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(c.stop)
	return c
}

// until waits for what gives no signal.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

// holds says whether a caller holds a version of a service.
func (c *caller) holds(service string, e view.Epoch, counter uint64) bool {
	v := c.View(service)
	return v != nil && v.Version == view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: counter}
}

func TestARelayPassesViewsOnAsTheyCame(t *testing.T) {
	c := controlling(t, "", first)
	c.Publish(published(first, "a", 7, 3), view.Adds)
	r := relaying(t, t.TempDir(), c.address)
	x := calling(t, "x", t.TempDir(), resolver.RelaysNever, r.address)
	x.Want([]string{"a", "b"})
	until(t, "a view by the relay", func() bool { return x.holds("a", first, 7) })
	if got, want := x.View("a").Digest(), published(first, "a", 7, 3).Digest(); got != want {
		t.Error("its content is another")
	}
	c.Publish(published(first, "a", 8, 2), view.Withdraws)
	c.Publish(published(first, "b", 9, 1), view.Adds)
	until(t, "changes by the relay", func() bool { return x.holds("a", first, 8) && x.holds("b", first, 9) })
	c.Begin(second)
	c.Publish(published(second, "a", 1, 2), view.Adds)
	until(t, "a new leader's number by the relay", func() bool { return x.holds("a", second, 1) })
	if x.Status().Connected && x.View("b").Version.Epoch != 1 {
		t.Errorf("a view that the new leader has not published yet is %s", x.View("b").Version)
	}
	y := calling(t, "y", t.TempDir(), resolver.RelaysNever, r.address)
	y.Want([]string{"b"})
	until(t, "a view of an earlier leader by the relay", func() bool { return y.holds("b", first, 9) })
}

func TestARelayThatStartsInAnOutageServesFromDiskAndSaysHowOldItIs(t *testing.T) {
	folder := t.TempDir()
	c := controlling(t, "", first)
	c.Publish(published(first, "a", 7, 3), view.Adds)
	r := relaying(t, folder, c.address)
	x := calling(t, "x", t.TempDir(), resolver.RelaysNever, r.address)
	x.Want([]string{"a"})
	until(t, "a view, on the relay's disk too", func() bool {
		held := r.Held().Views
		return x.holds("a", first, 7) && len(held) == 1 && held[0].Keeps == held[0].Version
	})
	if age := x.Status().Age; age > 10*time.Second {
		t.Errorf("while control is heard what is held is %s old", age)
	}
	c.stop()
	r.stop()
	again := relayingAt(t, r.address, folder, c.address)
	y := calling(t, "y", t.TempDir(), resolver.RelaysNever, again.address)
	y.Want([]string{"a"})
	until(t, "a view from the relay's disk", func() bool { return y.holds("a", first, 7) })
	until(t, "it says how old it is", func() bool { return y.Status().Connected && y.Status().Age > time.Second })
	c = controlling(t, c.address, second)
	c.Publish(published(second, "a", 1, 4), view.Adds)
	until(t, "control is back", func() bool { return y.holds("a", second, 1) && y.Status().Age < time.Second })
}

func TestASubscriberHopsBetweenRelaysAndControlWithoutAWholeView(t *testing.T) {
	c := controlling(t, "", first)
	c.Publish(published(first, "a", 1, 200), view.Adds)
	one, two := relaying(t, t.TempDir(), c.address), relaying(t, t.TempDir(), c.address)
	x := calling(t, "x", t.TempDir(), resolver.RelaysNever, c.address)
	x.Want([]string{"a"})
	until(t, "a view", func() bool { return x.holds("a", first, 1) })
	x.stop()
	warm := []*caller{}
	for _, r := range []*running{one, two} {
		w := calling(t, "warm at "+r.address, t.TempDir(), resolver.RelaysNever, r.address)
		w.Want([]string{"a"})
		warm = append(warm, w)
		until(t, "each relay holds it", func() bool { return w.holds("a", first, 1) })
	}
	held := published(first, "a", 1, 200)
	for i, at := range []string{one.address, two.address, c.address, one.address} {
		next := published(first, "a", uint64(i+2), 201+i)
		c.Publish(next, view.Adds)
		for _, w := range warm { // a relay that was late would have passed one over
			until(t, "each relay holds the next", func() bool { return w.holds("a", first, next.Version.Counter) })
		}
		got := rawly(t, at, "hopper", held, next.Version)
		if got.Full() || len(got.Put) != 1 {
			t.Fatalf("at hop %d it is sent %d endpoints, whole: %v", i, len(got.Put), got.Full())
		}
		after, err := held.Apply(got)
		if err != nil {
			t.Fatal(err)
		}
		held = after
	}
}

func TestWhatCallersSawIsMergedAndTold(t *testing.T) {
	c := controlling(t, "", first)
	c.Publish(published(first, "a", 1, 2), view.Adds)
	r := relaying(t, t.TempDir(), c.address)
	x := calling(t, "x", t.TempDir(), resolver.RelaysNever, r.address)
	x.Want([]string{"a"})
	until(t, "a view", func() bool { return x.holds("a", first, 1) })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const reporters = 5
	for i := range reporters {
		conn, err := grpc.NewClient(r.address, dial("caller", fmt.Sprint("c", i))...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		s, err := pb.NewEvidenceServiceClient(conn).ReportOutcomes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.ReportOutcomesRequest{Number: 1, Zone: "z", Revision: fmt.Sprint("shop-0000", i%2), Rows: []*pb.OutcomeRow{{Instance: "a0000", Ok: 1, Failed: 1000}, {Instance: "a0001", Ok: 3}, {Instance: "nobody's", Ok: 3}}}); err != nil {
			t.Fatal(err)
		}
	}
	failed, ok, rows, named := uint32(0), uint32(0), 0, map[string]bool{}
	for told := 0; told < reporters; {
		select {
		case m := <-c.merged:
			told += int(m.GetReporters())
			for _, row := range m.GetRows() {
				for _, p := range append(row.GetZones(), row.GetRevisions()...) {
					named[m.GetCallers()[p.GetCaller()-1]] = true
				}
				if rows++; row.GetInstance() == "a0000" {
					failed += row.GetFailed()
				} else {
					ok += row.GetOk()
				}
			}
		case <-time.After(patience):
			t.Fatal("nothing is told")
		}
	}
	if failed != reporters*20 || ok != reporters*3 || rows > 2*reporters {
		t.Errorf("%d failed and %d good results in %d rows of %d reporters", failed, ok, rows, reporters)
	}
	if !maps.Equal(named, map[string]bool{"z": true, "shop-00000": true, "shop-00001": true}) {
		t.Errorf("who saw it is told apart by %v", named)
	}
}
