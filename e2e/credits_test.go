package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// itself asks an instance past the gateways, which the instance counts too.
func (i instance) itself(t *testing.T, path string) int {
	t.Helper()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", i.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut("\x00"+string(env), "\x00PORT=")
	port, _, _ := strings.Cut(rest, "\x00")
	resp, err := http.Get("http://127.0.0.1:" + port + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// burst has many ask one gateway at once, and none of them may fail.
func (p *plant) burst(d entrance, service string) {
	p.t.Helper()
	var wg sync.WaitGroup
	began := time.Now()
	for range 20 {
		wg.Go(func() {
			var k connection
			defer k.close()
			for range 3 {
				if a := k.send(d.address, service, request{path: "/sleep?for=2ms"}); a.err != nil || a.code != 200 {
					p.t.Errorf("%s by %s: %d %s %v", service, d.gateway, a.code, a.body, a.err)
				}
			}
		})
	}
	wg.Wait()
	// Where no credit came, they waited for a minute.
	if took := time.Since(began); took > 20*time.Second {
		p.t.Errorf("%s by %s: 60 requests of 2 ms took %s", service, d.gateway, took)
	}
}

// hold sends a request that takes long and returns once the service has n in
// flight. It ends with the returned function.
func (p *plant) hold(d entrance, service string, n int) (hangUp func()) {
	p.t.Helper()
	var k connection
	over := make(chan answer, 1)
	go func() { over <- k.send(d.address, service, request{path: "/sleep?for=50s"}) }()
	eventually(p.t, 20*time.Second, fmt.Sprintf("%d requests of %s are in flight", n, service), func() bool { return p.inFlight(service) == n })
	return func() {
		if k.conn != nil {
			k.conn.Close()
		}
		<-over
	}
}

func (p *plant) inFlight(service string) (n int) {
	for _, i := range p.status(service).Instances {
		n += i.itself(p.t, "/now")
	}
	return n
}

// crowd is a service that many call through both gateways.
type crowd struct {
	*plant
	service                string
	concurrency, instances int
	caller                 *caller
}

func (p *plant) crowd(service string, concurrency, instances int) *crowd {
	p.deploy(service, "--concurrency", strconv.Itoa(concurrency), "--instances", strconv.Itoa(instances))
	for range 2 { // there and back
		for _, d := range p.ways() {
			p.burst(d, service)
		}
	}
	c := &crowd{plant: p, service: service, concurrency: concurrency, instances: instances}
	c.caller = p.call(service, 12, service+"-00001")
	return c
}

// end says that nothing was lost, that no instance ever had more than its
// concurrency in flight, and that the service has all its credits still: as
// many requests as it can bear are in flight at once, through one gateway: what
// is idle elsewhere follows them.
func (c *crowd) end() {
	t := c.t
	t.Helper()
	c.caller.end()
	list := c.status(c.service).Instances
	if len(list) != c.instances {
		t.Errorf("%s has %d instances, expected %d", c.service, len(list), c.instances)
	}
	for _, i := range list {
		if n := i.itself(t, "/most"); n != c.concurrency {
			t.Errorf("%s: instance %s had %d requests in flight at most, expected %d", c.service, i.ID, n, c.concurrency)
		}
	}
	door := c.ways()[0]
	for n := range c.concurrency * c.instances {
		defer c.hold(door, c.service, n+1)()
	}
}

func TestCreditsMoveBetweenGatewaysAndNoneIsLostOrUsedTwiceWhenAGatewayOrAHostDies(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	one, three, spread := p.crowd("one", 1, 1), p.crowd("three", 3, 1), p.crowd("spread", 1, 2)
	all := []*crowd{one, three, spread}
	more := func(what string) {
		t.Helper()
		began := time.Now()
		for _, c := range all {
			c.caller.more(60)
		}
		t.Logf("%s: 60 more answers of each within %s", what, time.Since(began).Round(10*time.Millisecond))
	}
	more("both gateways")

	gw := p.gateways[0]
	gw.kill()
	gw.again()
	more("a gateway was killed and came back")
	gw.kill()
	more("it was killed, and its hosts saw its process end")
	for _, c := range all {
		eventually(t, 10*time.Second, "no credit of "+c.service+" is missing", func() bool { return len(p.status(c.service).Missing) == 0 })
	}
	eventually(t, 10*time.Second, "control has noticed that it is gone, and retires it", func() bool {
		return p.run("gateways", "retire", gw.name).code == 0
	})
	more("it was killed and retired")
	gw.again()
	more("it came back after all")
	for _, h := range p.hosts {
		h.kill() // while it is away, each gateway goes on with the credits that it has
		h.again()
		more(h.name + " came back")
	}
	for _, c := range all {
		c.end()
	}
}
