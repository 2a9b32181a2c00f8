package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNothingThatACallerMayPickIsStoppedByADeployARestartAFewerOrACollection: a
// caller with the README's ten lines sends requests to a service all the while,
// straight to its instances, and not one fails.
func TestNothingThatACallerMayPickIsStoppedByADeployARestartAFewerOrACollection(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	identity := filepath.Join(f.data, "caller")
	f.must("identity", "caller", "batch", "--out", identity)
	f.must("deploy", "hello", "--instances", "3", "--", testapp)
	c := f.startCaller("hello", filepath.Join(f.data, "state"), identity)
	c.waitFor("first 200 OK", 20*time.Second)
	for _, step := range [][]string{
		{"deploy", "hello", "--", testapp2},
		{"restart", "hello"},
		{"scale", "hello", "1"},
		{"scale", "hello", "3"},
		{"deploy", "hello", "--env", "A=1"}, // only one revision is kept warm: the first is collected
		{"scale", "hello", "2"},
		{"restart", "hello"},
	} {
		c.more(100)
		f.must(step...)
	}
	gone := func() bool {
		for _, i := range f.status("hello").Instances {
			if i.Revision == "hello-00001" {
				return false
			}
		}
		return true
	}
	eventually(t, time.Minute, "the first revision is collected", gone)
	table := f.must("routes", "hello").stdout
	for _, who := range []string{"hello-00003", "gateway/", "caller/batch", "current"} {
		if !strings.Contains(table, who) {
			t.Errorf("the table does not say %q:\n%s", who, table)
		}
	}
	c.more(100)
	c.end()
}

// TestAStopWaitsForACallerAtARelayThatTakesNothingAndSaysSo, and goes on by itself.
func TestAStopWaitsForACallerAtARelayThatTakesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	identity := filepath.Join(f.data, "caller")
	f.must("identity", "caller", "batch", "--out", identity)
	r := f.startRelay("r-1", freeAddress(t), "--token", f.token("relay"))
	f.must("deploy", "hello", "--instances", "3", "--", testapp)
	c := f.startCaller("hello", filepath.Join(f.data, "state"), identity)
	c.waitFor("first 200 OK", 20*time.Second)
	eventually(t, 30*time.Second, "the caller is at the relay", func() bool {
		return strings.Contains(f.run("subscribers", "hello").stdout, "via r-1")
	})
	c.more(100)
	f.must("restart", "hello")
	c.more(100)
	f.must("scale", "hello", "2")
	c.more(100)

	c.signal(syscall.SIGSTOP)
	done := make(chan result, 1)
	go func() { done <- f.run("scale", "hello", "1") }()
	eventually(t, 20*time.Second, "status says for whom the stop waits", func() bool {
		return regexp.MustCompile(`waits +the stop of instance \S+ \(.*\) waits for 1 caller \(1 at relay/r-1\); it goes on at `).MatchString(f.run("status", "hello").stdout)
	})
	if out := f.must("explain", "hello").stdout; !strings.Contains(out, "waits for 1 caller (1 at relay/r-1)") {
		t.Errorf("explain does not say it:\n%s", out)
	}
	if res := <-done; res.code != 0 {
		t.Errorf("the stop did not go on: exit %d: %s", res.code, res.all())
	}
	eventually(t, 30*time.Second, "one instance is left", func() bool { return len(f.status("hello").Instances) == 1 })
	c.signal(syscall.SIGCONT)
	c.more(100)
	c.signal(syscall.SIGTERM)
	if err := c.wait(20 * time.Second); err != nil {
		t.Error(err)
	}
	r.signal(syscall.SIGTERM)
}
