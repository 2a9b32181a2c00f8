package daemon

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/cli"
)

// output collects what a role says and wakes who waits for it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	wake chan struct{}
}

func newOutput() *output { return &output{wake: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	close(o.wake)
	o.wake = make(chan struct{})
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// role is one that runs until the test stops it.
type role struct {
	t      *testing.T
	out    *output
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// run starts a role; what it says goes to its output.
func run(t *testing.T, start func(context.Context, cli.Process) error, data string) *role {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &role{t: t, out: newOutput(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = start(ctx, cli.Process{Data: data, Stdout: r.out, Stderr: r.out, Version: "test", LogLevel: "info", LogFormat: "text"})
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
		if t.Failed() {
			t.Logf("output:\n%s", r.out)
		}
	})
	return r
}

// waitFor waits until the role has said something that matches, and returns it.
func (r *role) waitFor(pattern string) []string {
	r.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(20 * time.Second)
	for {
		r.out.mu.Lock()
		found, wake := re.FindStringSubmatch(r.out.text.String()), r.out.wake
		r.out.mu.Unlock()
		if found != nil {
			return found
		}
		select {
		case <-wake:
		case <-r.done:
			if found := re.FindStringSubmatch(r.out.String()); found != nil {
				return found
			}
			r.t.Fatalf("ended without saying %q: %v\n%s", pattern, r.err, r.out)
		case <-deadline:
			r.t.Fatalf("has not said %q:\n%s", pattern, r.out)
		}
	}
}

// stop ends the role and returns why it ended.
func (r *role) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// end waits for a role that ends by itself.
func (r *role) end() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(20 * time.Second):
		r.t.Fatalf("has not ended:\n%s", r.out)
		return nil
	}
}

const anyPort = "127.0.0.1:0"

func up(edit func(*cli.UpOptions)) func(context.Context, cli.Process) error {
	return func(ctx context.Context, p cli.Process) error {
		o := cli.UpOptions{Process: p, API: anyPort, Ops: anyPort, Gateway: anyPort, Poll: anyPort}
		if edit != nil {
			edit(&o)
		}
		return Roles{}.Up(ctx, o)
	}
}

const upLine = `fairlead is up: gateway http://([0-9.:]+)/, API ([0-9.:]+) and (\S+), ops http://([0-9.:]+)/`

// folder is a data folder with a short path, as sockets like it.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fld")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "data")
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// fairlead runs one command line on a data folder.
func fairlead(t *testing.T, data string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	getenv := func(string) string { return "" }
	code = cli.Run(t.Context(), cli.Env{Args: append([]string{"--data", data}, args...), Stdout: &out, Stderr: &errs, Getenv: getenv, Roles: Roles{}})
	return code, out.String(), errs.String()
}

func mustSay(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}
