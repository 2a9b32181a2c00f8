package discovery

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/prober"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// fleet is a region of several zones in virtual time: real probers that look over
// pipes, a host in each zone, and planes that lead one after the other.
type fleet struct {
	*rig
	net    *network
	zones  *zones
	eyes   map[string]*eye // :: prober → it
	leader *leading
	log    *logged
}

// eye is a prober that runs.
type eye struct {
	*prober.Role
	end  context.CancelFunc
	done chan struct{}
}

// inFleet runs f in a region in which each zone has so many instances of s and so
// many probers.
func inFleet(t *testing.T, zoneNames []string, instances, probers int, f func(*fleet)) {
	t.Helper()
	inRegion(t, func(r *rig) {
		fl := &fleet{rig: r, net: newNetwork(), zones: &zones{changed: make(chan struct{})}, eyes: map[string]*eye{}, log: &logged{}}
		for _, z := range zoneNames {
			fl.zones.run(fl.net, z, instances)
		}
		r.hostsAre, r.logger = fl.zones, slog.New(slog.NewTextHandler(fl.log, nil))
		fl.leader = r.begin()
		for _, z := range zoneNames {
			for i := range probers {
				fl.look(fmt.Sprintf("p-%s%d", z, i+1), z)
			}
		}
		defer func() {
			for name := range fl.eyes {
				fl.kill(name)
			}
			fl.leader.stop()
		}()
		f(fl)
	})
}

// look starts a prober.
func (f *fleet) look(name, zone string) {
	ctx, end := context.WithCancel(f.t.Context())
	e := &eye{end: end, done: make(chan struct{})}
	e.Role = prober.NewRole(prober.RoleConfig{
		Name: name, Zone: zone, Control: []string{"control"}, Dial: f.net.dialer(name),
		Connect: func(ctx context.Context, _ string) (prober.Stream, error) {
			f.net.mu.Lock()
			plane, cut := f.leader, f.net.muted[name]
			f.net.mu.Unlock()
			if cut {
				return nil, errors.New("no way to control")
			}
			s, err := plane.Prober(name, zone)
			if err != nil {
				return nil, err
			}
			return &pipe{ctx: ctx, s: s, f: f, name: name}, nil
		},
	})
	f.eyes[name] = e
	go func() {
		defer close(e.done)
		if err := e.Run(ctx); err != nil {
			f.t.Error(err)
		}
	}()
}

// kill ends a prober.
func (f *fleet) kill(name string) {
	f.eyes[name].end()
	<-f.eyes[name].done
	delete(f.eyes, name)
}

// lead has another plane take the lead.
func (f *fleet) lead() {
	before := f.leader
	next := f.begin()
	f.net.mu.Lock()
	f.leader = next
	f.net.mu.Unlock()
	before.stop()
}

// pipe is the stream of a prober without a socket between.
type pipe struct {
	grpc.ClientStream
	ctx  context.Context
	s    *ProberStream
	f    *fleet
	name string
	rest []*pb.ProbeResponse
}

func (p *pipe) silent() bool {
	p.f.net.mu.Lock()
	defer p.f.net.mu.Unlock()
	return p.f.net.muted[p.name]
}

func (p *pipe) Send(m *pb.ProbeRequest) error {
	if p.silent() { // it is lost on its way
		return nil
	}
	switch {
	case m.GetBeat() != nil:
		p.s.Beat()
	case m.GetLooks() != nil:
		var looks []ProbeLook
		for _, l := range m.GetLooks().GetLooks() {
			looks = append(looks, ProbeLook{
				Instance: l.GetInstance(), Result: eligibility.Result(l.GetResult() - 1), Age: time.Duration(l.GetAgeMs()) * time.Millisecond,
				Bytes: int(l.GetBytes()), Detail: l.GetDetail(),
			})
		}
		if !p.s.Take(m.GetLooks().GetNumber(), looks) {
			return io.EOF
		}
	}
	return nil
}

func (p *pipe) Recv() (*pb.ProbeResponse, error) {
	beat := time.NewTimer(time.Second)
	defer beat.Stop()
	for {
		if len(p.rest) > 0 && !p.silent() {
			m := p.rest[0]
			p.rest = p.rest[1:]
			return m, nil
		}
		select {
		case <-p.ctx.Done():
			p.s.Close()
			return nil, p.ctx.Err()
		case <-p.s.Done():
			return nil, errors.New("the stream is ended")
		case <-beat.C:
			p.rest = append(p.rest, &pb.ProbeResponse{Message: &pb.ProbeResponse_Beat{Beat: &pb.ProberBeat{}}})
		case <-p.s.Wake():
			p.take()
		}
	}
}

func (p *pipe) take() {
	n := p.s.News()
	if n.Assignment {
		a := &pb.ProbeAssignment{Epoch: wire.EpochProto(n.Epoch), Version: n.Version, Full: n.Full, Dropped: n.Dropped}
		for _, t := range n.Targets {
			a.Targets = append(a.Targets, &pb.ProbeTarget{
				Instance: t.Handle, Id: t.ID, Address: t.Address, Interval: durationpb.New(t.Interval), Alone: t.Alone,
				Check: &pb.ProbeCheck{Kind: t.Check.Kind, Path: t.Check.Path},
			})
		}
		p.rest = append(p.rest, &pb.ProbeResponse{Message: &pb.ProbeResponse_Assignment{Assignment: a}})
	}
	if len(n.Now) > 0 {
		p.rest = append(p.rest, &pb.ProbeResponse{Message: &pb.ProbeResponse_Now{Now: &pb.ProbeNow{Instances: n.Now}}})
	}
}

// network is what lies between probers and instances.
type network struct {
	mu    sync.Mutex
	ports map[string]string // :: address → "open", "closed", "hangs", "fails"
	ways  map[string]string // :: prober → "refuses" or "hangs": what its way to every port does; "" is open
	muted map[string]bool   // :: prober → control hears nothing of it, nor it of control
	dials map[string]int    // :: prober → connections that it tried
}

func newNetwork() *network {
	return &network{ports: map[string]string{}, ways: map[string]string{}, muted: map[string]bool{}, dials: map[string]int{}}
}

func (n *network) set(address, how string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[address] = how
}

func (n *network) way(prober, how string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ways[prober] = how
}

func (n *network) mute(prober string, yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.muted[prober] = yes
}

func (n *network) dialer(name string) prober.Dial {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		n.mu.Lock()
		n.dials[name]++
		port, way := n.ports[address], n.ways[name]
		n.mu.Unlock()
		switch {
		case way == "hangs":
			<-ctx.Done()
			return nil, ctx.Err()
		case way == "refuses" || port == "closed" || port == "":
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		here, there := net.Pipe()
		go answer(there, port)
		return here, nil
	}
}

// answer is an instance's side of one connection.
func answer(c net.Conn, port string) {
	defer c.Close()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return // only the port was looked at
	}
	code := http.StatusOK
	switch port {
	case "hangs":
		_, _ = r.ReadByte() // until the other side gives up
		return
	case "fails", "fails " + req.URL.Path:
		code = http.StatusServiceUnavailable
	}
	_ = (&http.Response{StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Request: req, Close: true}).Write(c)
}

// zones are a host in each zone.
type zones struct {
	mu      sync.Mutex
	hosts   []service.HostState
	changed chan struct{}
}

func (z *zones) States() []service.HostState {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := slices.Clone(z.hosts)
	for i := range out {
		out[i].Instances = slices.Clone(out[i].Instances)
	}
	return out
}

func (z *zones) Changed() <-chan struct{} {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.changed
}

func (z *zones) edit(f func(hosts []service.HostState)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f(z.hosts)
	close(z.changed)
	z.changed = make(chan struct{})
}

// run adds a host to a zone, with so many instances, all of which listen.
func (z *zones) run(n *network, zone string, instances int) {
	h := service.HostState{Host: service.Host{Name: "h-" + zone, Zone: zone}, Connected: true, Reported: true}
	for i := range instances {
		h.Instances = append(h.Instances, instanceOf(zone, i))
		n.set(h.Instances[i].Address, "open")
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.hosts = append(z.hosts, h)
}

func instanceOf(zone string, i int) service.Instance {
	return service.Instance{
		ID: fmt.Sprintf("%s%d", zone, i+1), Service: "s", Revision: "s-00001", Slot: fmt.Sprintf("s-00001.%s%d", zone, i), Host: "h-" + zone, Zone: zone,
		Address: fmt.Sprintf("%s%d:80", zone, i+1), State: service.InstanceLive,
	}
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text.Bytes(), []byte(text))
}

// counts of the service's instances by verdict.
func (f *fleet) counts() map[view.Verdict]int {
	out := map[view.Verdict]int{}
	all, _ := f.leader.Standings("s")
	for _, s := range all {
		out[s.Verdict]++
	}
	return out
}

// withdrawn are those that ever were out, by what is recorded.
func (f *fleet) withdrawn() (out []string) {
	for _, x := range f.history() {
		if x.To == eligibility.Ineligible {
			out = append(out, fmt.Sprintf("%s by %s at %d: %s", x.Instance, x.Rule, x.Tick, x.Why))
		}
	}
	return out
}

func (f *fleet) nobodyLeft() {
	f.t.Helper()
	if out := f.withdrawn(); len(out) > 0 {
		f.t.Errorf("%d were withdrawn, the first: %s", len(out), out[0])
	}
}

// suspects by name.
func (f *fleet) suspects() (names []string) {
	all, _, _ := f.leader.Probers()
	for _, p := range all {
		if !p.Suspect.IsZero() {
			names = append(names, p.Name)
		}
	}
	return names
}

// standing of one instance.
func (f *fleet) standing(id string) Standing {
	f.t.Helper()
	all, _ := f.leader.Standings("s")
	for _, s := range all {
		if s.ID == id {
			return s
		}
	}
	f.t.Fatalf("nothing is known of %s", id)
	return Standing{}
}
