package attach_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/shelter"
	"github.com/fairlead-platform/fairlead/internal/surface/attach"
	"github.com/fairlead-platform/fairlead/view"
)

const hostArg = "attach-test-host"

var epoch = view.Epoch{Incarnation: "world", Number: 7, Nonce: "leader"}

func TestMain(m *testing.M) {
	hosttest.Main()
	shelter.Tests()
	if len(os.Args) == 6 && os.Args[1] == hostArg {
		if err := runHost(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// runHost is a host in a process of its own, so that it can be killed.
func runHost(name, dir, control, gateway string) error {
	cfg := hostConfig(name, dir, control)
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	h, err := host.New(cfg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("host runs")
	return h.Run(ctx)
}

func hostConfig(name, dir, control string) host.Config {
	return host.Config{
		Name: name, Zone: "zone-" + name, Dir: filepath.Join(dir, name), PortDir: filepath.Join(dir, "ports"),
		Control: []string{control},
		DialControl: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(named(name)),
		},
		Timing: host.Timing{Redial: 100 * time.Millisecond, Kill: time.Second},
	}
}

// named stands for the identity that mutual TLS gives.
type named string

func (n named) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"test-identity": string(n)}, nil
}

func (named) RequireTransportSecurity() bool { return false }

func peerName(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get("test-identity"); len(v) == 1 {
		return v[0], nil
	}
	return "", errors.New("no identity")
}

// plane is a leader's half over a real socket.
type plane struct {
	*attach.Server
	addr  string
	dir   string
	serve *grpc.Server

	mu        sync.Mutex
	processes map[string]*exec.Cmd // :: host name → its process
	admit     func(service.Host, view.Epoch) (view.Epoch, error)
}

func newPlane(t *testing.T, artifacts map[string][]byte) *plane {
	t.Helper()
	p := &plane{dir: t.TempDir(), processes: map[string]*exec.Cmd{}}
	p.admit = func(service.Host, view.Epoch) (view.Epoch, error) { return epoch, nil }
	p.Server = attach.New(attach.Config{
		PeerName: peerName,
		Admit: func(_ context.Context, h service.Host, kept view.Epoch) (view.Epoch, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.admit(h, kept)
		},
		Artifacts: func(_ context.Context, digest string) (io.ReadCloser, error) {
			b, ok := artifacts[digest]
			if !ok {
				return nil, errors.New("no such artifact")
			}
			return io.NopCloser(strings.NewReader(string(b))), nil
		},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	p.serve = grpc.NewServer()
	p.Register(p.serve)
	served := make(chan error, 1)
	go func() { served <- p.serve.Serve(l) }()
	t.Cleanup(func() {
		p.stopHosts(t)
		p.serve.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p
}

// start runs a host and waits until it has attached and reported.
func (p *plane) start(t *testing.T, name string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, hostArg, name, p.dir, p.addr, "")
	cmd.Stderr = logWriter{t}
	cmd.Env = append(os.Environ(), "GORACE="+hosttest.QuickExit)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.processes[name] = cmd
	p.mu.Unlock()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "host runs\n" {
		t.Fatalf("host %s says %q: %v", name, line, err)
	}
	p.await(t, "host "+name+" reported", func(st service.HostState) bool {
		return st.Name == name && st.Connected && st.Reported
	})
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// crash kills a host and returns when the leader has seen it.
func (p *plane) crash(t *testing.T, name string) {
	t.Helper()
	p.mu.Lock()
	cmd := p.processes[name]
	delete(p.processes, name)
	p.mu.Unlock()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
	p.await(t, "host "+name+" gone", func(st service.HostState) bool { return st.Name == name && !st.Connected })
}

func (p *plane) stopHosts(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cmd := range p.processes {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for name, cmd := range p.processes {
		if err := cmd.Wait(); err != nil {
			t.Errorf("host %s: %v", name, err)
		}
	}
}

// await waits until some host's state satisfies ok.
func (p *plane) await(t *testing.T, what string, ok func(service.HostState) bool) service.HostState {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		changed := p.Changed()
		for _, st := range p.States() {
			if ok(st) {
				return st
			}
		}
		again := time.NewTimer(20 * time.Millisecond) // what grows without a change
		select {
		case <-changed:
		case <-again.C:
		case <-deadline:
			t.Fatalf("no %s, have %+v", what, p.States())
		}
		again.Stop()
	}
}
