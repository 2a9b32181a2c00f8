package e2e

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAnInstanceThatNothingWatchesIsRegisteredAfterItsAddressAnsweredAndLeavesWithItsCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	if err := ln.Close(); err != nil { // the command answers the challenge there itself
		t.Fatal(err)
	}
	p := w.start("register", "legacy", "--address", address, "--zone", "z1")
	eventually(t, time.Minute, "it is listed", func() bool {
		r := w.run("instances", "legacy")
		return r.code == 0 && strings.Contains(r.stdout, "z1")
	})
	if r := w.run("diff-runtime"); !strings.Contains(r.stdout, "host") {
		t.Errorf("the sources are not shown:\n%s", r.stdout)
	}
	w.must("deploy", "hello", "--", testapp)
	if r := w.run("register", "hello", "--address", address); r.code != 2 || !strings.Contains(r.stderr, "source host") {
		t.Errorf("a registration for what a host runs: exit code %d\n%s", r.code, r.stderr)
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "it is gone", func() bool { return w.run("instances", "legacy").code == 2 })
	w.must("external", "set", "pay", "--endpoint", "pay.example:443,abroad")
	eventually(t, time.Minute, "the third party is listed", func() bool { return strings.Contains(w.run("instances", "pay").stdout, "abroad") })
}
