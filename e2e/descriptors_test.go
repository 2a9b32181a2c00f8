package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// All in one process, so that no part of it can open anything for a while.
func TestAProcessWithoutFileDescriptorsSaysSoAndAcceptsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	w.must("deploy", "hello", "--", testapp)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", up.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(len(open) + 10)
	if err := unix.Prlimit(up.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	var idle []net.Conn
	hangUp := func() {
		for _, c := range idle {
			c.Close()
		}
	}
	defer hangUp()
	for range 40 {
		c, err := net.Dial("tcp", w.gateway) // the kernel takes them
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	line := up.waitFor("cannot accept connections", 10*time.Second)
	if !strings.Contains(line, "too many open files") || !strings.Contains(line, "requests") {
		t.Errorf("it says %q", line)
	}
	hangUp()
	eventually(t, 20*time.Second, "requests are answered again", func() bool {
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.gateway+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "hello.localhost"
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	resp, err := http.Get("http://" + w.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `fairlead_accept_errors_total{listener="requests"} `) ||
		strings.Contains(string(text), `fairlead_accept_errors_total{listener="requests"} 0`) {
		t.Errorf("the failures are not counted: %v", err)
	}
	if n := strings.Count(up.out.String(), "cannot accept connections"); n > 12 { // four listeners, three times in half a minute
		t.Errorf("it says so %d times", n)
	}
}
