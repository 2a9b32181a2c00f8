package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// far is a network namespace that two links lead to: one to control, one to
// hosts and callers. It ends with the test's process, whatever happens.
type far struct {
	t                    *testing.T
	enter                []string // runs a command there
	near, nearData, data string   // IPs: control's, the hosts', and its own
}

func newFar(t *testing.T) *far {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test makes a network namespace and links to it: run it as root")
	}
	for _, command := range []string{"ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Fatalf("this test needs the command %s (packages iproute2 and util-linux): %v", command, err)
		}
	}
	// What keeps the namespace says so, and lives as long as its input is open.
	keeper := exec.Command("unshare", "-n", "sh", "-c", "echo here; exec cat")
	in, err := keeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Start(); err != nil {
		t.Fatalf("cannot make a network namespace: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := keeper.Wait(); err != nil {
			t.Errorf("what kept the network namespace ended with %v", err)
		}
	})
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatalf("cannot make a network namespace: unshare -n ended: %v", err)
	}
	pid := strconv.Itoa(keeper.Process.Pid)
	f := &far{t: t, enter: []string{"nsenter", "-t", pid, "-n"}}
	f.link(pid)
	return f
}

// link lays both links. A name that is free says which addresses are.
func (f *far) link(pid string) {
	f.t.Helper()
	for n := os.Getpid() % 200; ; n = (n + 1) % 200 {
		name := fmt.Sprintf("flt%d", n)
		out, err := exec.Command("ip", "link", "add", name+"c", "type", "veth", "peer", "name", "c", "netns", pid).CombinedOutput()
		if err != nil && strings.Contains(string(out), "File exists") {
			continue
		}
		if err != nil {
			f.t.Fatalf("cannot lay a link into a network namespace (the kernel's veth): %v\n%s", err, out)
		}
		net := fmt.Sprintf("10.231.%d.", n)
		f.near, f.nearData, f.data = net+"1", net+"129", net+"130"
		f.run("ip", "link", "add", name+"d", "type", "veth", "peer", "name", "d", "netns", pid)
		f.run("ip", "addr", "add", f.near+"/25", "dev", name+"c")
		f.run("ip", "addr", "add", f.nearData+"/25", "dev", name+"d")
		f.run("ip", "link", "set", "dev", name+"c", "up")
		f.run("ip", "link", "set", "dev", name+"d", "up")
		f.there("ip", "addr", "add", net+"2/25", "dev", "c")
		f.there("ip", "addr", "add", f.data+"/25", "dev", "d")
		for _, dev := range []string{"lo", "c", "d"} {
			f.there("ip", "link", "set", "dev", dev, "up")
		}
		return
	}
}

func (f *far) run(args ...string) {
	f.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

func (f *far) there(args ...string) {
	f.t.Helper()
	f.run(append(f.enter[:len(f.enter):len(f.enter)], args...)...)
}

// cut off from control: nothing arrives, and nothing says so.
func (f *far) cut() { f.there("ip", "link", "set", "dev", "c", "down") }

func (f *far) heal() { f.there("ip", "link", "set", "dev", "c", "up") }

// deployPast deploys twice, so that what a gateway that is cut off routes to is
// neither what serves nor what is kept warm, and is told each time which one it is.
func (p *plant) deployPast(gateway, service string, releases ...string) {
	p.t.Helper()
	for _, release := range releases {
		began := time.Now()
		r := p.run(p.deployArgs(service, "--env", "RELEASE="+release)...)
		if took := time.Since(began); r.code != 0 || took > 10*time.Second || !strings.Contains(r.all(), gateway) {
			p.t.Errorf("a deploy past %s took %s and ended with %d, expected at most 10 s, 0 and its name:\n%s", gateway, took, r.code, r.all())
		}
	}
}

// collected waits until the revision runs no more.
func (p *plant) collected(service, revision string) {
	p.t.Helper()
	eventually(p.t, 40*time.Second, revision+" is collected", func() bool {
		for _, i := range p.status(service).Instances {
			if i.Revision == revision && i.State == "live" {
				return false
			}
		}
		return true
	})
}

// outlastGrace returns when what nobody refers to was collected that lost its last
// reference only now: what lost it before had its grace too. Until then it does
// meanwhile again and again.
func (p *plant) outlastGrace(meanwhile func()) {
	p.t.Helper()
	if r := p.run("deploy", "passing", "--ready-timeout", "1s", "--force", "--", "false"); r.code != 1 {
		p.t.Fatalf("exit %d of a release that ends at once:\n%s", r.code, r.all())
	}
	p.must("abort", "passing")
	eventually(p.t, 60*time.Second, "what failed is collected", func() bool {
		meanwhile()
		all := p.status("passing").Revisions
		return len(all) > 0 && all[len(all)-1].State == "retired"
	})
}

// answeredBy is who answers through a gateway.
func (p *plant) answeredBy(gateway, service string) string {
	for _, d := range p.ways() {
		if d.gateway == gateway {
			var k connection
			defer k.close()
			a := k.send(d.address, service, request{path: "/"})
			if a.err != nil || a.code != 200 {
				return fmt.Sprintf("%d %s %v", a.code, a.body, a.err)
			}
			return a.revision()
		}
	}
	return "no such gateway"
}

func TestAGatewayCutOffThroughAWholeDeploy(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	p := newPlant(t, plantOptions{controlAt: f.near, hostArgs: []string{"--advertise", f.nearData}})
	p.addGatewayAt("far", place{control: p.api, listen: f.data + ":8080", poll: f.data + ":7702", enter: f.enter}, p.token("gateway"))
	p.deploy("hello")
	p.agree("hello", "hello-00001", 10*time.Second)
	c := p.call("hello", 6)
	c.more(100)

	t.Run("by its network the old revision answers through it until it is back", func(t *testing.T) {
		f.cut()
		p.deployPast("far", "hello", "2", "3")
		p.outlastGrace(func() {
			if by := p.answeredBy("far", "hello"); by != "hello-00001" {
				t.Fatalf("answered by %s", by)
			}
		})
		if out := p.must("explain", "hello").stdout; !strings.Contains(out, "far") {
			t.Errorf("the gateway is not named:\n%s", out)
		}
		f.heal()
		p.agree("hello", "hello-00003", 20*time.Second)
		p.collected("hello", "hello-00001")
	})
	t.Run("by SIGSTOP the old revision is there when it goes on", func(t *testing.T) {
		gw := p.gateways[1]
		gw.stop()
		p.deployPast(gw.name, "hello", "4", "5")
		p.outlastGrace(func() {})
		gw.resume()
		c.more(100)
		p.agree("hello", "hello-00005", 20*time.Second)
		p.collected("hello", "hello-00003")
	})
	c.more(100)
	c.end()
}

func TestAGatewayThatJoinsWhileTheRoutesAreWaitedForIsWaitedForToo(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	slow, joins := startRelay(t, p.api), startRelay(t, p.api)
	joins.delay(50 * time.Millisecond)
	at := func(r *relay) place { return place{control: r.address, listen: freeAddress(t), poll: freeAddress(t)} }
	p.addGatewayAt("slow", at(slow), p.token("gateway"))
	token := p.token("gateway")
	p.deploy("hello")
	p.agree("hello", "hello-00001", 10*time.Second)

	d := p.start(p.deployArgs("hello", "--env", "A=b")...)
	d.waitFor("instances", 10*time.Second)
	slow.hold() // it is heard, and hears nothing
	eventually(t, 10*time.Second, "the routes are waited for", func() bool { return p.status("hello").Deployment.Step == "routes" })
	joining := make(chan struct{})
	go func() {
		defer close(joining)
		p.control.waitFor("gateway=joins", 5*time.Second)
		joins.hold() // it is known from now on, and has no table yet
		slow.release()
	}()
	p.addGatewayAt("joins", at(joins), token)
	<-joining
	select {
	case <-d.done:
		t.Errorf("the deploy has ended without the gateway that joined:\n%s", d.out)
	case <-time.After(1500 * time.Millisecond):
	}
	joins.release()
	if err := d.wait(20 * time.Second); err != nil || !strings.Contains(d.out.String(), "4 of 4 gateways") {
		t.Errorf("%v, expected the routes to be acknowledged by all four:\n%s", err, d.out)
	}
	p.agree("hello", "hello-00002", 10*time.Second)
}
