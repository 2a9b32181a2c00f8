package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// warnings are the lines of a process that a person should act on.
func (p *process) warnings() (out []string) {
	for _, line := range strings.Split(p.out.String(), "\n") {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			out = append(out, p.name+": "+line)
		}
	}
	return out
}

// TestAStartADeployAndAnewStartOfControlWarnOfNothing: what a log says as a
// warning is for a person to act on, and here is nothing to do.
func TestAStartADeployAndAnewStartOfControlWarnOfNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	relayAt := freeAddress(t)
	relay := f.startRelay("r-1", relayAt, "--token", f.token("relay"))
	identity, state := filepath.Join(f.data, "caller"), filepath.Join(f.data, "state")
	f.must("identity", "caller", "batch", "--out", identity)
	f.must("deploy", "hello", "--instances", "2", "--", testapp)
	c := f.startCaller("hello", state, identity)
	c.waitFor("first 200 OK", 20*time.Second)
	f.must("deploy", "hello", "--env", "A=b")
	f.must("scale", "hello", "1")

	first := f.control
	first.signal(syscall.SIGTERM)
	if err := first.wait(20 * time.Second); err != nil {
		t.Errorf("control ended by %v", err)
	}
	f.control = f.startControl()
	eventually(t, 30*time.Second, "all are back", func() bool {
		return strings.Contains(f.run("hosts").stdout, " yes ") && strings.Contains(f.run("gateways").stdout, " yes ") && strings.Contains(f.run("subscribers", "hello").stdout, "caller/batch")
	})
	f.must("deploy", "hello", "--env", "A=c")
	c.end()
	all := []*process{first, f.control, relay, f.gw, f.host}

	w := newWorld(t)
	up := w.up()
	w.must("deploy", "hello", "--", testapp)
	w.must("delete", "hello")
	up.signal(syscall.SIGTERM)
	if err := up.wait(30 * time.Second); err != nil {
		t.Errorf("up ended by %v", err)
	}
	for _, p := range append(all, up) {
		for _, line := range p.warnings() {
			t.Error(line)
		}
	}
}
