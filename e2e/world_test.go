// Package e2e tests the product as its users meet it: the real binary, real
// processes, real sockets, one file per capability. Read [world] first.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/historytest"
	"github.com/fairlead-platform/fairlead/internal/shelter"
)

// Built once by TestMain.
var (
	fairlead string // the binary under test
	testapp  string // the tests' program, version 1
	testapp2 string // the same, version 2

	testcaller string // a caller by package resolver
)

func TestMain(m *testing.M) {
	shelter.Tests()
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests wait more than they compute
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "fairlead-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if err := buildAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func buildAll(dir string) error {
	fairlead, testapp, testapp2 = filepath.Join(dir, "fairlead"), filepath.Join(dir, "testapp"), filepath.Join(dir, "v2", "testapp")
	testcaller = filepath.Join(dir, "testcaller")
	for _, args := range [][]string{
		{"-o", fairlead, "../cmd/fairlead"},
		{"-o", testapp, "./testapp"},
		{"-o", testcaller, "./testcaller"},
		{"-ldflags", "-X main.version=2", "-o", testapp2, "./testapp"},
	} {
		if out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %v: %w\n%s", args, err, out)
		}
	}
	return os.Chmod(dir, 0o755)
}

// world is one installation of Fairlead in a folder of the test's own.
type world struct {
	t       *testing.T
	data    string
	api     string // host:port
	ops     string
	gateway string // host:port of the gateway's public listener
	poll    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	data, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, data: data, api: freeAddress(t), ops: freeAddress(t), gateway: freeAddress(t), poll: freeAddress(t)}
	t.Cleanup(func() {
		killStrays(t, data)
		if t.Failed() {
			t.Logf("data folder kept for a look: %s", data)
			return
		}
		if err := os.RemoveAll(data); err != nil {
			t.Errorf("cannot remove the data folder: %v", err)
		}
	})
	return w
}

var nextPort atomic.Int32

// freeAddress gives loopback ports below the instances' and the kernel's own ranges.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 5000 {
		port := 10000 + (int32(os.Getpid())*37+nextPort.Add(1))%9000
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port between 10000 and 19000")
	return ""
}

// killStrays ends whatever still runs out of the data folder.
func killStrays(t *testing.T, data string) {
	t.Helper()
	for _, pid := range processesOf(data) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("cannot kill %d: %v", pid, err)
		}
	}
}

// processesOf lists processes whose environment or command line names the folder.
func processesOf(data string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		env, errE := os.ReadFile("/proc/" + e.Name() + "/environ")
		cmd, errC := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if errE == nil && bytes.Contains(env, []byte(data)) || errC == nil && bytes.Contains(cmd, []byte(data)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// process is a running command whose output is kept.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  *lines
	done chan struct{}
	err  error
}

func (w *world) start(args ...string) *process {
	w.t.Helper()
	return w.startCommand(exec.Command(fairlead, args...))
}

func (w *world) startCommand(cmd *exec.Cmd) *process {
	w.t.Helper()
	p := &process{t: w.t, name: strings.Join(cmd.Args[1:min(len(cmd.Args), 3)], " "), out: newLines(), done: make(chan struct{}), cmd: cmd}
	p.cmd.Env = append(w.env(), cmd.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		p.out.close()
		close(p.done)
	}()
	w.t.Cleanup(func() {
		p.kill()
		if w.t.Failed() {
			w.t.Logf("output of %s:\n%s", p.name, p.out.tail(120))
		}
	})
	return p
}

func (p *process) kill() {
	p.cmd.Process.Kill() // already ended is fine
	<-p.done
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("cannot signal %s: %v", p.name, err)
	}
}

func (p *process) wait(d time.Duration) error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(d):
		p.t.Fatalf("%s has not ended within %s:\n%s", p.name, d, p.out.tail(60))
		return nil
	}
}

// waitFor waits for a line that contains text.
func (p *process) waitFor(text string, d time.Duration) string {
	p.t.Helper()
	line, ok := p.out.waitFor(text, d)
	if !ok {
		p.t.Fatalf("%s has not said %q within %s:\n%s", p.name, text, d, p.out.tail(60))
	}
	return line
}

// lines collects output and wakes who waits for a line.
type lines struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wake  chan struct{}
	ended bool
}

func newLines() *lines { return &lines{wake: make(chan struct{})} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(b)
	close(l.wake)
	l.wake = make(chan struct{})
	return len(b), nil
}

func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.wake)
	l.wake = make(chan struct{})
}

func (l *lines) waitFor(text string, d time.Duration) (string, bool) {
	deadline := time.After(d)
	for {
		l.mu.Lock()
		all, wake, ended := l.buf.String(), l.wake, l.ended
		l.mu.Unlock()
		for line := range strings.Lines(all) {
			if strings.Contains(line, text) {
				return strings.TrimSpace(line), true
			}
		}
		if ended {
			return "", false
		}
		select {
		case <-wake:
		case <-deadline:
			return "", false
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) tail(n int) string {
	all := strings.Split(strings.TrimRight(l.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

func (w *world) env() []string {
	return append(os.Environ(), "FAIRLEAD_DATA="+w.data, "NO_COLOR=1")
}

// up starts everything in one process and waits until it is up.
func (w *world) up(extra ...string) *process {
	w.t.Helper()
	args := append([]string{"up", "--data", w.data, "--api", w.api, "--gateway", w.gateway, "--ops", w.ops, "--poll", w.poll}, extra...)
	p := w.start(args...)
	p.waitFor("fairlead is up", 20*time.Second)
	return p
}

// result of one command.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) all() string { return r.stdout + r.stderr }

// run runs the command line to its end.
func (w *world) run(args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, fairlead, args...)
	cmd.Env = w.env()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("cannot run fairlead %v: %v", args, err)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// must runs the command line and fails the test unless it exits 0.
func (w *world) must(args ...string) result {
	w.t.Helper()
	r := w.run(args...)
	if r.code != 0 {
		w.t.Fatalf("fairlead %s: exit %d\n%s", strings.Join(args, " "), r.code, r.all())
	}
	return r
}

// status is the part of `fairlead status -o json` that the tests read.
type status struct {
	Service            string
	Generation         int
	ObservedGeneration int
	URL                string
	Traffic            []traffic
	Routes             struct {
		Version      string
		Traffic      []traffic
		Gateways     int
		Acknowledged int
		Behind       []string
	}
	Revisions []struct{ Name, State, Digest, CreatedAt string }
	Instances []instance
	Missing   []struct {
		Gateway string
		Credits int
	}
	Deployment struct {
		Revision string
		Attempt  int
		State    string
		Step     string
		Error    string
		RetryAt  string
	}
}

type traffic struct {
	Revision     string
	Percent      int
	Tag          string
	RequestGroup string
}

type instance struct {
	ID, Slot, Revision, State string
	Pid, Restarts             int
	Host, Zone, Eligibility   string
}

func (w *world) status(service string) status {
	w.t.Helper()
	var s status
	out := w.must("status", service, "-o", "json").stdout
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		w.t.Fatalf("cannot read status: %v\n%s", err, out)
	}
	return s
}

// couldBe fails the test where the service's history has an order that cannot be.
func (w *world) couldBe(service string) {
	w.t.Helper()
	out := w.must("events", service, "--limit", "1000", "-o", "json").stdout
	events, err := historytest.Parse([]byte(out))
	if err == nil && len(events) < 5 {
		err = fmt.Errorf("there are only %d events", len(events))
	}
	if err == nil {
		err = historytest.Check(events)
	}
	if err != nil {
		w.t.Errorf("the history of %s: %v\n%s", service, err, out)
	}
}

// serving returns the one revision that catalog and routes both name, or "".
func (s status) serving() string {
	var catalog, routes string
	for _, t := range s.Traffic {
		if t.Percent == 100 {
			catalog = t.Revision
		}
	}
	for _, t := range s.Routes.Traffic {
		if t.Percent == 100 {
			routes = t.Revision
		}
	}
	if catalog != routes {
		return ""
	}
	return catalog
}

// get sends one GET to the service through the gateway.
func (w *world) get(service, path string) (int, string, http.Header) {
	w.t.Helper()
	code, body, header, err := w.tryGet(service, path)
	if err != nil {
		w.t.Fatalf("GET %s of %s: %v", path, service, err)
	}
	return code, body, header
}

func (w *world) tryGet(service, path string) (int, string, http.Header, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.gateway+path, nil)
	if err != nil {
		return 0, "", nil, err
	}
	req.Host = service + ".localhost"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), resp.Header, err
}

// eventually polls a condition of the outside world that gives no signal.
func eventually(t *testing.T, d time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(d)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", d, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// load sends requests all the time and keeps what went wrong.
type load struct {
	t        *testing.T
	stop     context.CancelFunc
	wg       sync.WaitGroup
	answered atomic.Int64
	mu       sync.Mutex
	failures []string
	seen     map[string]int // :: revision → answers
}

// startLoad runs workers that GET path until stopped.
func (w *world) startLoad(service, path string, workers int) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{t: w.t, stop: cancel, seen: map[string]int{}}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: 30 * time.Second}
	for range workers {
		l.wg.Go(func() {
			for ctx.Err() == nil {
				l.once(ctx, client, w.gateway, service, path)
			}
		})
	}
	w.t.Cleanup(cancel)
	return l
}

func (l *load) once(ctx context.Context, client *http.Client, gateway, service, path string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gateway+path, nil)
	if err != nil {
		l.fail(err.Error())
		return
	}
	req.Host = service + ".localhost"
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			l.fail(err.Error())
		}
		return
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.fail(err.Error())
	case resp.StatusCode != http.StatusOK:
		l.fail(fmt.Sprintf("%d: %s", resp.StatusCode, body))
	default:
		l.answered.Add(1)
		revision, _, _ := strings.Cut(string(body), " ")
		l.mu.Lock()
		l.seen[revision]++
		l.mu.Unlock()
		if named := resp.Header.Get("Fairlead-Revision"); named != revision {
			l.fail(fmt.Sprintf("leased for %s, answered by %s", named, revision))
		}
	}
}

func (l *load) fail(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, time.Now().Format("15:04:05.000 ")+what)
}

// end stops the load and fails the test if a request failed.
func (l *load) end() map[string]int {
	l.t.Helper()
	l.stop()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.failures); n > 0 {
		l.t.Errorf("%d of %d requests failed, the first:\n%s", n, n+int(l.answered.Load()), strings.Join(l.failures[:min(n, 5)], "\n"))
	}
	if l.answered.Load() == 0 {
		l.t.Error("the load was never answered")
	}
	return l.seen
}

// since waits until n more requests were answered.
func (l *load) more(n int64) {
	l.t.Helper()
	from := l.answered.Load()
	eventually(l.t, 20*time.Second, fmt.Sprintf("%d more answers", n), func() bool { return l.answered.Load() >= from+n })
}
