package resolver_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

// plane is a control that publishes views on loopback; its address outlives it.
type plane struct {
	*views.Server
	address string
	stop    func()
}

func publishing(t *testing.T, address string, e view.Epoch) *plane {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{address: l.Addr().String()}
	p.Server = views.New(views.Config{Peer: func(ctx context.Context) (string, string, error) {
		name, err := nameOf(ctx)
		return "gateway", name, err
	}})
	p.Begin(e)
	g := grpc.NewServer()
	p.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	p.stop = sync.OnceFunc(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// seen makes a view with so many endpoints in rotation, and so many out.
func seen(e view.Epoch, service string, counter uint64, in, out int) *view.Service {
	s := &view.Service{Name: service, Epoch: e, Version: view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: counter}}
	for i := range in + out {
		x := view.Endpoint{ID: fmt.Sprintf("i%03d", i), Address: "127.0.0.1:1", Weight: 1000, Verdict: view.Eligible}
		if i >= in {
			x.Weight, x.Verdict = 0, view.Ineligible
		}
		s.Endpoints = append(s.Endpoints, x)
	}
	return s
}

func viewsConfig(folder string, controls ...string) resolver.ViewsConfig {
	return resolver.ViewsConfig{
		Name: "g", Folder: folder, Controls: controls,
		Dial: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(named("g")),
		},
		Authenticated: func(*peer.Peer) bool { return true },
	}
}

func openViews(t *testing.T, cfg resolver.ViewsConfig) *resolver.Views {
	t.Helper()
	h, err := resolver.OpenViews(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// runViews runs h until the returned function or the end of the test.
func runViews(t *testing.T, h *resolver.Views) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the holder ended by %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// untilViews waits until what is held is as it must be; each view is
// "service version in/of source", where keeps says that it is on disk too.
func untilViews(t *testing.T, h *resolver.Views, want ...string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		changed := h.Changed()
		var got []string
		for _, v := range h.Status().Views {
			s := h.View(v.Service)
			text := v.Service
			if s != nil {
				text += fmt.Sprintf(" %d/%d %d of %d %s", v.Version.Epoch, v.Version.Counter, s.InRotation(), len(s.Endpoints), v.Source)
			}
			if v.Keeps == v.Version && s != nil {
				text += " kept"
			}
			got = append(got, text)
		}
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("held are %q, want %q", got, want)
		}
	}
}

func TestTheViewsOfWhatIsWantedAreHeldKeptAndAcknowledged(t *testing.T) {
	folder := t.TempDir()
	p := publishing(t, "", leader)
	p.Publish(seen(leader, "a", 1, 3, 0), view.Adds)
	p.Publish(seen(leader, "b", 2, 1, 0), view.Adds)
	h := openViews(t, viewsConfig(folder, p.address))
	runViews(t, h)
	h.Want([]string{"a", "c"})
	untilViews(t, h, "a 1/1 3 of 3 stream kept", "c")
	p.Publish(seen(leader, "a", 3, 2, 1), view.Withdraws)
	p.Publish(seen(leader, "c", 4, 1, 0), view.Adds)
	untilViews(t, h, "a 1/3 2 of 3 stream kept", "c 1/4 1 of 1 stream kept")
	h.Want([]string{"b", "c"})
	untilViews(t, h, "b 1/2 1 of 1 stream kept", "c 1/4 1 of 1 stream kept")
	deadline := time.Now().Add(patience)
	for _, err := os.Stat(filepath.Join(folder, "a.view")); !os.IsNotExist(err); _, err = os.Stat(filepath.Join(folder, "a.view")) {
		if time.Now().After(deadline) {
			t.Fatalf("the file of what is wanted no more: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	if len(p.Holders("a")) != 0 {
		t.Error("what is wanted no more is subscribed to")
	}
}

func TestAViewIsAcknowledgedOnlyOnceWhoPicksByItWasTold(t *testing.T) {
	p := publishing(t, "", leader)
	p.Publish(seen(leader, "a", 1, 3, 0), view.Adds)
	h := openViews(t, viewsConfig(t.TempDir(), p.address))
	told, goOn := make(chan uint64), make(chan struct{})
	defer h.OnChange(func(s *view.Service) {
		told <- s.Version.Counter
		<-goOn
	})()
	runViews(t, h)
	h.Want([]string{"a"})
	if n := <-told; n != 1 {
		t.Fatalf("told of %d", n)
	}
	if got := p.Holders("a"); len(got) != 1 || !got[0].Version.Zero() {
		t.Errorf("while it is told: %+v", got)
	}
	goOn <- struct{}{}
	deadline := time.Now().Add(patience)
	for got := p.Holders("a"); len(got) != 1 || !got[0].Current; got = p.Holders("a") {
		if time.Now().After(deadline) {
			t.Fatalf("never acknowledged: %+v", got)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestViewsAreHeldFromDiskBeforeAnyConnection(t *testing.T) {
	folder := t.TempDir()
	p := publishing(t, "", leader)
	p.Publish(seen(leader, "a", 1, 2, 1), view.Adds)
	h := openViews(t, viewsConfig(folder, p.address))
	stop := runViews(t, h)
	h.Want([]string{"a"})
	untilViews(t, h, "a 1/1 2 of 3 stream kept")
	stop()
	p.stop()

	h = openViews(t, viewsConfig(folder, p.address))
	untilViews(t, h, "a 1/1 2 of 3 disk kept")
	var got []string
	defer h.OnChange(func(s *view.Service) { got = append(got, s.Version.String()) })()
	if !slices.Equal(got, []string{"i/1/1"}) {
		t.Errorf("who listens is told %v", got)
	}
	runViews(t, h)
	h.Want([]string{"a"})

	next := view.Epoch{Incarnation: "i", Number: 2, Nonce: "m"}
	q := publishing(t, p.address, next)
	q.Publish(seen(next, "a", 1, 3, 0), view.Adds)
	untilViews(t, h, "a 2/1 3 of 3 stream kept")
}

func TestALeaderThatWasSucceededIsNotFollowedAfterARestartEither(t *testing.T) {
	folder := t.TempDir()
	next := view.Epoch{Incarnation: "i", Number: 2, Nonce: "m"}
	p := publishing(t, "", next)
	p.Publish(seen(next, "a", 1, 3, 0), view.Adds)
	h := openViews(t, viewsConfig(folder, p.address))
	stop := runViews(t, h)
	h.Want([]string{"a"})
	untilViews(t, h, "a 2/1 3 of 3 stream kept")
	stop()
	p.stop()

	old := publishing(t, p.address, leader)
	old.Publish(seen(leader, "a", 9, 1, 0), view.Adds)
	old.Publish(seen(leader, "b", 10, 1, 0), view.Adds)
	h = openViews(t, viewsConfig(folder, old.address))
	runViews(t, h)
	h.Want([]string{"a", "b"})
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for changed := h.Changed(); !slices.ContainsFunc(h.Status().Notes, func(n string) bool { return strings.Contains(n, view.ErrOlderEpoch.Error()) }); changed = h.Changed() {
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("it is not said: %q", h.Status().Notes)
		}
	}
	untilViews(t, h, "a 2/1 3 of 3 disk kept", "b")
}

func TestAViewsFileThatCannotBeReadIsSetAsideAndTheOthersAreHeld(t *testing.T) {
	folder := t.TempDir()
	p := publishing(t, "", leader)
	p.Publish(seen(leader, "a", 1, 3, 0), view.Adds)
	p.Publish(seen(leader, "b/../c", 2, 1, 0), view.Adds)
	h := openViews(t, viewsConfig(folder, p.address))
	stop := runViews(t, h)
	h.Want([]string{"a", "b/../c"})
	untilViews(t, h, "a 1/1 3 of 3 stream kept", "b/../c 1/2 1 of 1 stream kept")
	stop()
	path := filepath.Join(folder, "a.view")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-9] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	h = openViews(t, viewsConfig(folder, p.address))
	untilViews(t, h, "b/../c 1/2 1 of 1 disk kept")
	if notes := h.Status().Notes; len(notes) != 1 || !strings.Contains(notes[0], "set aside as a.view.unreadable-1") {
		t.Errorf("notes: %q", notes)
	}
	runViews(t, h)
	h.Want([]string{"a", "b/../c"})
	untilViews(t, h, "a 1/1 3 of 3 stream kept", "b/../c 1/2 1 of 1 disk kept")
}

func TestWhatDoesNotFitIsAskedForWholeOnTheSameStream(t *testing.T) {
	p := publishing(t, "", leader)
	one := seen(leader, "a", 1, 3, 0)
	p.Publish(one, view.Adds)
	h := openViews(t, viewsConfig(t.TempDir(), p.address))
	runViews(t, h)
	h.Want([]string{"a"})
	untilViews(t, h, "a 1/1 3 of 3 stream kept")
	two := seen(leader, "a", 2, 4, 0)
	one.Endpoints[0].Zone = "of a plane that changed what it had published"
	two.Endpoints[0].Zone = one.Endpoints[0].Zone
	p.Publish(two, view.Adds)
	untilViews(t, h, "a 1/2 4 of 4 stream kept")
	if h.View("a").Endpoints[0].Zone != two.Endpoints[0].Zone {
		t.Error("it holds what was not published")
	}
}
