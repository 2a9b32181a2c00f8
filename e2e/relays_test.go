package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startRelay runs a relay of the fleet's.
func (f *fleet) startRelay(name, address string, args ...string) *process {
	f.t.Helper()
	p := f.start(append([]string{"relay", "--name", name, "--data", filepath.Join(f.data, "relays"), "--control", f.api, "--listen", address, "--ops", "127.0.0.1:0"}, args...)...)
	p.waitFor("relay is up", 20*time.Second)
	return p
}

func TestControlAndRelayKilledForGoodUnderLoadCostNotOneRequest(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	at := freeAddress(t)
	r := f.startRelay("r-1", at, "--token", f.token("relay"))
	identity := filepath.Join(f.data, "caller")
	f.must("identity", "caller", "batch", "--out", identity)
	f.must("deploy", "hello", "--instances", "3", "--", testapp)
	c := f.startCaller("hello", filepath.Join(f.data, "state"), identity)
	c.waitFor("first 200 OK", 20*time.Second)
	eventually(t, 30*time.Second, "the caller is at the relay", func() bool {
		return regexp.MustCompile(`caller/batch\S* via r-1`).MatchString(f.run("subscribers", "hello").stdout)
	})
	l := f.startLoad("hello", "/", 4)
	l.more(100)
	c.more(100)

	f.control.kill()
	l.more(200)
	c.more(200)
	// A relay that starts anew in the outage serves from its disk.
	r.kill()
	c.more(100)
	r = f.startRelay("r-1", at)
	c.more(100)
	r.kill()
	l.more(200)
	c.more(200)
	l.end()
	c.end()
}

func TestARelayThatIsToldToEndSendsItsCallersToAnother(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	relays := map[string]*process{}
	for _, name := range []string{"r-1", "r-2"} {
		relays[name] = f.startRelay(name, freeAddress(t), "--token", f.token("relay"))
	}
	identity := filepath.Join(f.data, "caller")
	f.must("identity", "caller", "batch", "--out", identity)
	f.must("deploy", "hello", "--", testapp)
	c := f.startCaller("hello", filepath.Join(f.data, "state"), identity)
	c.waitFor("first 200 OK", 20*time.Second)
	via := func() string {
		m := regexp.MustCompile(`caller/batch\S* via (\S+)`).FindStringSubmatch(f.run("subscribers", "hello").stdout)
		return strings.Join(m, " ")
	}
	eventually(t, 30*time.Second, "the caller is at a relay", func() bool { return via() != "" })
	first, other := "r-1", "r-2"
	if strings.HasSuffix(via(), "r-2") {
		first, other = other, first
	}
	relays[first].signal(syscall.SIGTERM)
	if err := relays[first].wait(20 * time.Second); err != nil {
		t.Errorf("the relay ended by %v", err)
	}
	eventually(t, 30*time.Second, "the caller is at the other", func() bool { return strings.HasSuffix(via(), other) })
	c.more(100)
	c.end()
}
