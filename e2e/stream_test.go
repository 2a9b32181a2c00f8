package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func (w *world) request(method, service, path string, body io.Reader) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.gateway+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Host = service + ".localhost"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestAGoProgramStreamsUpgradesAndMovesAGibibyteBothWaysInConstantMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	w.must("deploy", "hello", "--", testapp)

	t.Run("events come one by one", func(t *testing.T) {
		resp := w.request(http.MethodGet, "hello", "/ticks?n=3&every=5s", nil)
		began := time.Now()
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		if err != nil || line != "data: 0\n" || time.Since(began) > 3*time.Second {
			t.Errorf("the first event should come at once: %q %v after %s", line, err, time.Since(began))
		}
	})
	t.Run("both directions at once", func(t *testing.T) {
		pr, pw := io.Pipe()
		written := make(chan error, 1)
		go func() {
			_, err := io.WriteString(pw, "first\n")
			written <- err
		}()
		resp := w.request(http.MethodPost, "hello", "/echo", pr)
		r := bufio.NewReader(resp.Body)
		if line, err := r.ReadString('\n'); err != nil || line != "first\n" {
			t.Fatalf("the first part should come back while the body is open: %q %v", line, err)
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		go func() {
			io.WriteString(pw, "second\n")
			pw.Close()
		}()
		if line, err := r.ReadString('\n'); err != nil || line != "second\n" {
			t.Errorf("the second part: %q %v", line, err)
		}
	})
	t.Run("a WebSocket", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, _, err := websocket.Dial(ctx, "ws://"+w.gateway+"/ws", &websocket.DialOptions{Host: "hello.localhost"})
		if err != nil {
			w.explain(t, up)
			t.Fatal(err)
		}
		defer c.CloseNow()
		if err := c.Write(ctx, websocket.MessageText, []byte("hi")); err != nil {
			t.Fatal(err)
		}
		if _, data, err := c.Read(ctx); err != nil || string(data) != "hello-00001 hi" {
			t.Errorf("%q %v", data, err)
		}
	})
	t.Run("a gibibyte down and up", func(t *testing.T) {
		const size = 1 << 30
		before := anonymous(t, up.cmd.Process.Pid)
		resp := w.request(http.MethodGet, "hello", fmt.Sprintf("/zeros?n=%d", size), nil)
		if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
			t.Errorf("%d bytes came, %v", n, err)
		}
		resp = w.request(http.MethodPost, "hello", "/count", io.LimitReader(zeros{}, size))
		if got, err := io.ReadAll(resp.Body); string(got) != fmt.Sprint(size) || err != nil {
			t.Errorf("the instance counted %s bytes, %v", got, err)
		}
		if grown := anonymous(t, up.cmd.Process.Pid) - before; grown > 64<<20 {
			t.Errorf("memory grew by %d MiB", grown>>20)
		}
	})
	t.Run("a caller that hangs up cancels its request at the instance", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.gateway+"/sleep?for=60s", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "hello.localhost"
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
		eventually(t, 5*time.Second, "the request is at the instance", func() bool {
			return strings.Contains(w.must("logs", "hello").stdout, "GET /sleep")
		})
		cancel()
		<-ended
		eventually(t, 5*time.Second, "the instance notices", func() bool {
			return strings.Contains(w.must("logs", "hello").stdout, "the caller hung up")
		})
	})
}

// explain logs what a process is doing that did not answer: its goroutines, its
// sockets' queues and its file descriptors, and the goroutines of the instances,
// which that ends.
func (w *world) explain(t *testing.T, p *process) {
	t.Helper()
	client := &http.Client{Timeout: 20 * time.Second}
	for _, path := range []string{"/debug/pprof/goroutine?debug=2", "/metrics"} {
		resp, err := client.Get("http://" + w.ops + path)
		if err != nil {
			t.Logf("%s of %s: %v", path, p.name, err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		t.Logf("%s of %s: %v\n%s", path, p.name, err, text)
	}
	sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", p.cmd.Process.Pid))
	t.Logf("sockets of this machine: %v\n%s", err, sockets)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	t.Logf("%d file descriptors are open: %v", len(open), err)
	for _, pid := range processesOf(w.data) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.HasPrefix(string(line), "testapp\x00") {
			t.Logf("the goroutines of instance %d are in its log: %v", pid, syscall.Kill(pid, syscall.SIGQUIT))
		}
	}
	logs := func() string { return w.run("logs", "hello").all() }
	eventually(t, 10*time.Second, "the instance says what it does", func() bool { return strings.Contains(logs(), "goroutine ") })
	t.Logf("logs: %s", logs())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// anonymous is a process's anonymous resident memory in bytes.
func anonymous(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var kib int64
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatal("no RssAnon in /proc/PID/status")
	return 0
}
