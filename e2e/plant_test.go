package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/historytest"
)

// member is a role of a plant, which can be killed, stopped and started again.
type member struct {
	*process
	plant   *plant
	name    string // as in plant.fact: "control", "gw1", "h2"
	command func() *exec.Cmd
	up      string // what it says once it is up
}

// plant is an installation of a control, gateways and hosts, each a process of
// its own, whose faults are known: what was dead when decides what a caller may
// have to bear. Start callers by [plant.call].
type plant struct {
	*world
	control  *member
	gateways []*member
	hosts    []*member
	hostArgs []string
	*history
}

// history is what a plant's callers have to know.
type history struct {
	mu        sync.Mutex
	entrances []entrance
	facts     []*fact
}

// entrance is where a gateway takes requests.
type entrance struct{ gateway, address string }

// in is the same plant, as a subtest uses it.
func (p *plant) in(t *testing.T) *plant {
	q, w := *p, *p.world
	w.t = t
	q.world = &w
	return &q
}

// fact is that something was away for a time; to is zero while it still is.
// Dead is when its process was seen to be gone: on a busy machine a killed one
// still has to get the processor for that, and holds what it holds until then.
type fact struct {
	what           string
	from, dead, to time.Time
}

// plantOptions of newPlant; the zero value is a control, two gateways and two
// hosts in zones a and b, of the binary under test, with the embedded store.
type plantOptions struct {
	controlBinary string   // instead of the binary under test
	controlArgs   []string // beyond the usual ones, e.g. --store
	controlEnv    []string
	controlAt     string   // IP at which control is reached, instead of 127.0.0.1
	hostArgs      []string // beyond the usual ones, e.g. --advertise
}

func newPlant(t *testing.T, o plantOptions) *plant {
	t.Helper()
	p := &plant{world: newWorld(t), history: &history{}, hostArgs: o.hostArgs}
	if _, port, err := net.SplitHostPort(p.api); err == nil && o.controlAt != "" {
		p.api = net.JoinHostPort(o.controlAt, port)
	}
	binary := fairlead
	if o.controlBinary != "" {
		binary = o.controlBinary
	}
	p.control = p.member("control", "control is up", func() *exec.Cmd {
		cmd := exec.Command(binary, append([]string{"control", "--data", p.data, "--api", p.api, "--ops", p.ops}, o.controlArgs...)...)
		cmd.Env = o.controlEnv
		return cmd
	})
	p.control.again()
	tokens := map[string]string{"gateway": p.token("gateway"), "host": p.token("host")}
	for i := range 2 {
		p.addGateway(fmt.Sprintf("gw%d", i+1), tokens["gateway"])
		tokens["gateway"] = p.token("gateway")
		p.addHost(fmt.Sprintf("h%d", i+1), string(rune('a'+i)), tokens["host"])
		tokens["host"] = p.token("host")
	}
	for _, m := range p.hosts { // what is deployed first is spread over both
		m.waitFor(`msg="attached to control"`, 30*time.Second)
	}
	p.gateway = p.entrances[0].address // what asks the world asks the first
	return p
}

func (p *plant) addGateway(name, token string) {
	p.addGatewayAt(name, place{control: p.api, listen: freeAddress(p.t), poll: freeAddress(p.t)}, token)
}

// place is where a gateway finds control and is found itself.
type place struct {
	control, listen, poll string
	enter                 []string // a command before its own, e.g. nsenter
}

func (p *plant) addGatewayAt(name string, at place, token string) {
	m := p.member(name, "gateway is up", func() *exec.Cmd {
		args := append(at.enter[:len(at.enter):len(at.enter)], fairlead, "gateway", "--name", name, "--data", p.data, "--control", at.control,
			"--listen", at.listen, "--poll", at.poll, "--ops", "127.0.0.1:0", "--token", token)
		return exec.Command(args[0], args[1:]...)
	})
	m.again()
	p.gateways = append(p.gateways, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entrances = append(p.entrances, entrance{name, at.listen})
}

// ways in, be the gateways away or not.
func (h *history) ways() []entrance {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.entrances[:len(h.entrances):len(h.entrances)]
}

func (p *plant) addHost(name, zone, token string) {
	m := p.member(name, "host is up", func() *exec.Cmd {
		return exec.Command(fairlead, append([]string{
			"host", "--name", name, "--zone", zone, "--data", p.data, "--control", p.api,
			"--ops", "127.0.0.1:0", "--token", token,
		}, p.hostArgs...)...)
	})
	m.again()
	p.hosts = append(p.hosts, m)
}

func (p *plant) member(name, up string, command func() *exec.Cmd) *member {
	return &member{plant: p, name: name, up: up, command: command}
}

// again starts the member, and waits until it is up.
func (m *member) again() {
	m.plant.t.Helper()
	m.process = m.plant.startCommand(m.command())
	m.process.name = m.name
	m.waitFor(m.up, 30*time.Second)
	m.plant.back(m.name, 0)
}

// kill sends SIGKILL, and returns when the process is gone.
func (m *member) kill() {
	m.plant.away(m.name)
	m.process.kill()
	m.plant.died(m.name)
}

// stop sends SIGSTOP; callers leave a stopped gateway alone.
func (m *member) stop() {
	m.plant.t.Helper()
	m.plant.away(m.name)
	m.signal(syscall.SIGSTOP)
}

// resume sends SIGCONT.
func (m *member) resume() {
	m.plant.t.Helper()
	m.signal(syscall.SIGCONT)
	m.plant.back(m.name, 0)
}

// away notes that what is named cannot answer from now on.
func (h *history) away(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts = append(h.facts, &fact{what: what, from: time.Now()})
}

// died notes that the process of what is away is gone.
func (h *history) died(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.facts {
		if f.what == what && f.dead.IsZero() {
			f.dead = time.Now()
		}
	}
}

// back notes that it can answer again, or that in so long a time nobody takes
// it for one that can.
func (h *history) back(what string, in time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.facts {
		if f.what == what && f.to.IsZero() {
			f.to = time.Now().Add(in)
		}
	}
}

// wasAway says that what is named was away at some time between from and to,
// and since when its process was gone, which is to where that was later.
func (h *history) wasAway(what string, from, to time.Time) (dead time.Time, away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.facts {
		if f.what == what && !f.from.After(to) && (f.to.IsZero() || f.to.After(from)) {
			if f.dead.IsZero() || f.dead.After(to) {
				return to, true
			}
			return f.dead, true
		}
	}
	return time.Time{}, false
}

// noticed is how long a gateway that is busy may take a dead instance's
// connection for a living one's.
const noticed = 250 * time.Millisecond

// killInstances sends SIGKILL to the service's processes on the named host
// ("" is all), and notes it for its callers.
func (p *plant) killInstances(service, host string) {
	p.t.Helper()
	what := instancesOf(service)
	for _, i := range p.status(service).Instances {
		if i.Pid == 0 || host != "" && i.Host != host || !alive(i.Pid) {
			continue
		}
		p.away(what)
		if err := syscall.Kill(i.Pid, syscall.SIGKILL); err != nil {
			p.t.Fatalf("cannot kill instance %s: %v", i.ID, err)
		}
		eventually(p.t, 5*time.Second, "the instance is dead", func() bool { return !alive(i.Pid) })
		p.died(what)
		p.back(what, noticed)
	}
}

func instancesOf(service string) string { return "instances of " + service }

// deploy makes a ledger for the service and deploys testapp, which keeps it.
func (p *plant) deploy(service string, flags ...string) {
	p.t.Helper()
	p.must(p.deployArgs(service, flags...)...)
}

func (p *plant) deployArgs(service string, flags ...string) []string {
	p.t.Helper()
	if err := os.MkdirAll(p.ledger(service), 0o700); err != nil {
		p.t.Fatal(err)
	}
	return append(append([]string{"deploy", service, "--env", "LEDGER=" + p.ledger(service)}, flags...), "--", testapp)
}

// ledger is the folder in which instances note what they executed.
func (p *plant) ledger(service string) string { return filepath.Join(p.data, "ledger", service) }

// agree waits until catalog, routes and both gateways name the revision, every
// gateway has acknowledged, and the revision is who answers at each. Within
// nothing it has to be so now.
func (p *plant) agree(service, revision string, within time.Duration) {
	p.t.Helper()
	var why string
	deadline := time.Now().Add(within)
	for {
		if why = p.disagreement(service, revision); why == "" {
			p.couldBe(service)
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s is not served by %s alone within %s: %s\n%s", service, revision, within, why, p.run("explain", service).all())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// disagreement says where something else than the revision is named; empty is nowhere.
func (p *plant) disagreement(service, revision string) string {
	r := p.run("status", service, "-o", "json")
	if r.code != 0 {
		return r.all()
	}
	var s status
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
		return err.Error()
	}
	switch {
	case s.serving() != revision:
		return fmt.Sprintf("the catalog says %+v, the routes %+v", s.Traffic, s.Routes.Traffic)
	case s.Routes.Gateways != len(p.gateways) || s.Routes.Acknowledged != len(p.gateways):
		return fmt.Sprintf("%d gateways are known and %d have acknowledged; behind: %v", s.Routes.Gateways, s.Routes.Acknowledged, s.Routes.Behind)
	}
	for _, d := range p.ways() {
		var k connection
		a := k.send(d.address, service, request{path: "/"})
		k.close()
		if a.err != nil || a.code != 200 || a.revision() != revision || a.named != revision {
			return fmt.Sprintf("%s answered %d %q for %q: %v", d.gateway, a.code, strings.TrimSpace(a.body), a.named, a.err)
		}
	}
	return ""
}

// stays looks for a while whether the revision, and nothing else, is named
// everywhere.
func (p *plant) stays(service, revision string, d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if why := p.disagreement(service, revision); why != "" {
			p.t.Fatalf("%s was to stay with %s: %s\n%s", service, revision, why, p.run("explain", service).all())
		}
	}
}

// fails runs a command that is to end with exit 1 and these words.
func (p *plant) fails(words string, args ...string) {
	p.t.Helper()
	if r := p.run(args...); r.code != 1 || !strings.Contains(r.all(), words) {
		p.t.Fatalf("fairlead %s: exit %d, expected 1 and %q:\n%s", strings.Join(args, " "), r.code, words, r.all())
	}
}

// finished says that the service's last deploy is done, in its how manieth
// attempt, and that there are so many revisions.
func (p *plant) finished(service string, attempt, revisions int) {
	p.t.Helper()
	s := p.status(service)
	if s.Deployment.State != "done" || s.Deployment.Attempt != attempt || len(s.Revisions) != revisions {
		p.t.Errorf("%s should be done in attempt %d with %d revisions: %+v %+v", service, attempt, revisions, s.Deployment, s.Revisions)
	}
}

// neverRepaired says that no pass had to bring routes and catalog together
// again: whoever moved one apart from the other has put it back.
func (p *plant) neverRepaired(service string) {
	p.t.Helper()
	out := p.must("events", service, "--limit", "1000", "-o", "json").stdout
	events, err := historytest.Parse([]byte(out))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "repair" {
			p.t.Errorf("%s was repaired by a later pass: %s", service, e.Text)
		}
	}
}
