package host_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/shelter"
)

const hostArg = "host-test-host"

func TestMain(m *testing.M) {
	hosttest.Main()
	shelter.Tests()
	if len(os.Args) == 3 && os.Args[1] == hostArg {
		fmt.Fprintln(os.Stderr, runChild(os.Args[2]))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// runChild is a host without control in a process of its own: it runs what its
// folder says that it was assigned, until it is killed.
func runChild(dir string) error {
	h, err := host.New(config(dir))
	if err != nil {
		return err
	}
	fmt.Println("host runs")
	return h.Run(context.Background())
}

func config(dir string) host.Config {
	return host.Config{
		Name: "alpha", Dir: dir, PortDir: filepath.Join(filepath.Dir(dir), "ports"),
		DialControl: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
		Timing:      host.Timing{Redial: 50 * time.Millisecond, Kill: 500 * time.Millisecond},
	}
}

// room is a host in this process.
type room struct {
	*host.Host
	dir    string
	cancel context.CancelFunc
	ended  chan error
}

func startIn(t *testing.T, dir string, change func(*host.Config)) *room {
	t.Helper()
	cfg := config(dir)
	cfg.Logger = slog.New(slog.NewTextHandler(testLog{t}, nil))
	if change != nil {
		change(&cfg)
	}
	h, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &room{Host: h, dir: dir, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- h.Run(ctx) }()
	t.Cleanup(func() { r.end(t) })
	until(t, "the host runs", h.Running)
	return r
}

func start(t *testing.T) *room {
	t.Helper()
	return startIn(t, filepath.Join(t.TempDir(), "host"), nil)
}

// end has the host shut down, once.
func (r *room) end(t *testing.T) {
	t.Helper()
	r.cancel()
	if err, first := <-r.ended; first {
		close(r.ended)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

type testLog struct{ t *testing.T }

func (w testLog) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func assignment(t service.Template) service.Assignment {
	return service.Assignment{Slot: "hello-00001.0", Service: "hello", Revision: "hello-00001", Group: "hello-00001", Template: t}
}

func (r *room) assign(t *testing.T, tmpl service.Template) {
	t.Helper()
	if err := r.Assign(assignment(tmpl)); err != nil {
		t.Fatal(err)
	}
}

// until polls a condition of processes, for which there is no signal.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// await waits for an instance that satisfies ok.
func (r *room) await(t *testing.T, what string, ok func(*pb.InstanceReport) bool) *pb.InstanceReport {
	t.Helper()
	var found *pb.InstanceReport
	for deadline := time.Now().Add(30 * time.Second); found == nil; {
		for _, in := range r.Reports() {
			if ok(in) {
				found = in
			}
		}
		if found == nil && time.Now().After(deadline) {
			t.Fatalf("no %s, have %v", what, r.Reports())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return found
}

func (r *room) awaitLive(t *testing.T) *pb.InstanceReport {
	t.Helper()
	return r.await(t, "live instance", func(in *pb.InstanceReport) bool { return in.GetState() == "live" })
}

func (r *room) awaitDetail(t *testing.T, text string) *pb.InstanceReport {
	t.Helper()
	return r.await(t, "instance that says "+text, func(in *pb.InstanceReport) bool {
		return strings.Contains(in.GetDetail(), text)
	})
}

func get(t *testing.T, address, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// child is a host in a process of its own.
func child(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, hostArg, dir)
	cmd.Stderr = testLog{t}
	cmd.Env = append(os.Environ(), "GORACE="+hosttest.QuickExit)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "host runs\n" {
		t.Fatalf("the host says %q: %v", line, err)
	}
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
}
