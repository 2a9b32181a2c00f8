package host_test

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// gateway is the other end of poll streams, on a real socket. It answers as a
// gateway without requests does, but for what the test takes on itself.
type gateway struct {
	pb.UnimplementedPollServiceServer
	name   string
	addr   string
	serve  *grpc.Server
	served chan error

	mu      sync.Mutex
	session string
	process *pb.GatewayProcess
	holds   map[string]int // :: instance → credits
	busy    map[string]int // :: instance → credits in use by leases
	said    []string       // what the host said, in order
	stream  grpc.BidiStreamingServer[pb.PollRequest, pb.PollResponse]
	mute    bool          // acknowledges nothing
	stall   chan struct{} // when set, nothing is read until it is closed
}

func startGateway(t *testing.T, name string) *gateway {
	t.Helper()
	g := &gateway{name: name, session: "s1", holds: map[string]int{}, busy: map[string]int{}}
	g.listen(t, "127.0.0.1:0")
	t.Cleanup(func() { g.stop(t) })
	return g
}

func (g *gateway) listen(t *testing.T, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	g.addr, g.serve, g.served = l.Addr().String(), grpc.NewServer(), make(chan error, 1)
	pb.RegisterPollServiceServer(g.serve, g)
	go func() { g.served <- g.serve.Serve(l) }()
}

func (g *gateway) stop(t *testing.T) {
	t.Helper()
	g.serve.Stop()
	if err, first := <-g.served; first {
		close(g.served)
		if err != nil {
			t.Error(err)
		}
	}
}

func (g *gateway) Poll(st grpc.BidiStreamingServer[pb.PollRequest, pb.PollResponse]) error {
	if _, err := st.Recv(); err != nil {
		return err
	}
	g.mu.Lock()
	w := &pb.PollWelcome{Gateway: g.name, Session: g.session, Process: g.process}
	for id, n := range g.holds {
		w.Holdings = append(w.Holdings, &pb.Holding{Instance: id, Credits: int32(n)})
	}
	g.stream = st
	stall := g.stall
	g.mu.Unlock()
	if err := st.Send(&pb.PollResponse{Message: &pb.PollResponse_Welcome{Welcome: w}}); err != nil {
		return err
	}
	if stall != nil {
		<-stall
	}
	for {
		m, err := st.Recv()
		if err != nil {
			return nil
		}
		if err := g.take(m); err != nil {
			return err
		}
	}
}

func (g *gateway) take(m *pb.PollRequest) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case m.GetOffer() != nil:
		g.said = append(g.said, "offer")
		g.holds[m.GetOffer().GetInstance()] += int(m.GetOffer().GetGrant())
	case m.GetTerminating() != nil:
		g.said = append(g.said, "terminating")
		if g.mute {
			return nil
		}
		return g.withdrawLocked(m.GetTerminating().GetInstance())
	case m.GetGone() != nil:
		g.said = append(g.said, "gone")
		delete(g.holds, m.GetGone().GetInstance())
		if !g.mute {
			return g.sendLocked(&pb.PollResponse{Message: &pb.PollResponse_Ended{Ended: &pb.Ended{Instance: m.GetGone().GetInstance()}}})
		}
	case m.GetRecall() != nil:
		id := m.GetRecall().GetInstance()
		return g.returnLocked(id, min(int(m.GetRecall().GetCredits()), g.holds[id]-g.busy[id]))
	case m.GetSynced() != nil:
		g.said = append(g.said, "synced")
	}
	return nil
}

func (g *gateway) withdrawLocked(id string) error {
	if err := g.sendLocked(&pb.PollResponse{Message: &pb.PollResponse_Withdrawn{Withdrawn: &pb.Withdrawn{Instance: id}}}); err != nil {
		return err
	}
	return g.returnLocked(id, g.holds[id]-g.busy[id])
}

func (g *gateway) returnLocked(id string, n int) error {
	if n <= 0 {
		return nil
	}
	g.holds[id] -= n
	return g.sendLocked(&pb.PollResponse{Message: &pb.PollResponse_Returned{Returned: &pb.Return{Instance: id, Credits: int32(n)}}})
}

func (g *gateway) sendLocked(m *pb.PollResponse) error { return g.stream.Send(m) }

func (g *gateway) send(t *testing.T, m *pb.PollResponse) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.sendLocked(m); err != nil {
		t.Fatal(err)
	}
}

func (g *gateway) owns(id string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds[id]
}

func (g *gateway) heard(what string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Contains(strings.Join(g.said, " "), what)
}

func (r *room) know(t *testing.T, gs ...*gateway) {
	t.Helper()
	list := &pb.GatewayList{Epoch: &pb.Epoch{Incarnation: "world", Number: 1, Nonce: "n"}}
	for _, g := range gs {
		list.Gateways = append(list.Gateways, &pb.GatewayAddress{Name: g.name, PollAddress: g.addr})
	}
	if err := r.TakeGateways(list); err != nil {
		t.Fatal(err)
	}
}

func tenAtOnce() service.Template {
	tmpl := hosttest.TemplateOf(hosttest.Serves)
	tmpl.Concurrency = 10
	return tmpl
}

func portOf(t *testing.T, in *pb.InstanceReport) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", in.GetAddress())
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}

func TestOneGatewayGetsAllAndASecondItsShare(t *testing.T) {
	one, two := startGateway(t, "one"), startGateway(t, "two")
	r := start(t)
	r.know(t, one)
	r.assign(t, tenAtOnce())
	id := r.awaitLive(t).GetId()
	until(t, "one has all", func() bool { return one.owns(id) == 10 && one.heard("synced") })
	r.know(t, one, two)
	until(t, "both have half", func() bool { return one.owns(id) == 5 && two.owns(id) == 5 })
	two.send(t, &pb.PollResponse{Message: &pb.PollResponse_Demand{Demand: &pb.Demand{Group: "hello-00001", Waiting: 3}}})
	until(t, "idle credits follow the queue", func() bool { return two.owns(id) >= 8 })
	r.know(t, two)
	until(t, "a retired gateway's credits are given on", func() bool { return two.owns(id) == 10 })
}

func TestAStopWaitsForTheLeaseAndIsWithdrawnFirst(t *testing.T) {
	g := startGateway(t, "one")
	r := start(t)
	r.know(t, g)
	r.assign(t, tenAtOnce())
	in := r.awaitLive(t)
	until(t, "credits", func() bool { return g.owns(in.GetId()) == 10 })
	g.mu.Lock()
	g.busy[in.GetId()] = 1
	g.mu.Unlock()
	if err := r.Stop(service.Stop{Slot: in.GetSlot(), Drain: time.Minute}); err != nil {
		t.Fatal(err)
	}
	until(t, "idle credits are back", func() bool { return r.Held(in.GetId()) == 1 })
	if !g.heard("terminating") || g.heard("gone") {
		t.Fatalf("the gateway was told %v", g.said)
	}
	if got := get(t, in.GetAddress(), "/"); !strings.Contains(got, "hello") {
		t.Fatalf("the leased instance answers %q", got)
	}
	g.mu.Lock()
	g.busy[in.GetId()] = 0
	err := g.returnLocked(in.GetId(), 1)
	g.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return len(r.Reports()) == 0 && g.heard("terminating gone") })
}

func TestADrainTimeThatPassesEndsALease(t *testing.T) {
	g := startGateway(t, "one")
	r := start(t)
	r.know(t, g)
	r.assign(t, tenAtOnce())
	in := r.awaitLive(t)
	until(t, "credits", func() bool { return g.owns(in.GetId()) == 10 })
	g.mu.Lock()
	g.busy[in.GetId()] = 1
	g.mu.Unlock()
	begun := time.Now()
	if err := r.Stop(service.Stop{Slot: in.GetSlot(), Drain: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return len(r.Reports()) == 0 })
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("ended after %v with a lease held", took)
	}
}

func TestAWithdrawalThatIsNotAcknowledgedWaitsItsTime(t *testing.T) {
	g := startGateway(t, "one")
	r := startIn(t, filepath.Join(t.TempDir(), "host"), func(c *host.Config) { c.Timing.Withdraw = 400 * time.Millisecond })
	g.mute = true
	r.know(t, g)
	r.assign(t, tenAtOnce())
	in := r.awaitLive(t)
	until(t, "credits", func() bool { return g.owns(in.GetId()) == 10 })
	begun := time.Now()
	if err := r.Stop(service.Stop{Slot: in.GetSlot(), Drain: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return len(r.Reports()) == 0 })
	if took := time.Since(begun); took < 400*time.Millisecond {
		t.Errorf("stopped after %v, though the gateway may still route to it", took)
	}
}

func TestAPortIsHeldUntilEveryKnownGatewayAcknowledgedTheEnd(t *testing.T) {
	quiet, quick := startGateway(t, "quiet"), startGateway(t, "quick")
	r := startIn(t, filepath.Join(t.TempDir(), "host"), func(c *host.Config) { c.Timing.Withdraw = 300 * time.Millisecond })
	r.know(t, quiet, quick)
	r.assign(t, tenAtOnce())
	in := r.awaitLive(t)
	until(t, "credits", func() bool { return quiet.owns(in.GetId()) == 5 && quick.owns(in.GetId()) == 5 })
	port := portOf(t, in)
	quiet.stop(t) // a broken stream is silence
	if err := r.Stop(service.Stop{Slot: in.GetSlot(), Drain: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return len(r.Reports()) == 0 && quick.heard("gone") })
	if !r.PortHeld(port) {
		t.Fatal("the port rests though one gateway may hold a connection")
	}
	quiet.listen(t, quiet.addr) // the same process is heard again
	until(t, "both acknowledged", func() bool { return quiet.heard("gone") && !r.PortHeld(port) })
}

func TestANewProcessOfAGatewayHoldsNoCreditsOfOld(t *testing.T) {
	g := startGateway(t, "one")
	r := start(t)
	r.know(t, g)
	r.assign(t, tenAtOnce())
	in := r.awaitLive(t)
	until(t, "credits", func() bool { return g.owns(in.GetId()) == 10 })
	g.stop(t)
	if r.Held(in.GetId()) != 10 {
		t.Fatalf("%d credits are held by a silent gateway, want all", r.Held(in.GetId()))
	}
	g.mu.Lock()
	g.session, g.holds = "s2", map[string]int{}
	g.mu.Unlock()
	g.listen(t, g.addr)
	until(t, "all credits are granted anew", func() bool { return g.owns(in.GetId()) == 10 })
}

func TestAStalledGatewayDelaysNoOther(t *testing.T) {
	slow, quick := startGateway(t, "slow"), startGateway(t, "quick")
	r := start(t)
	slow.stall = make(chan struct{})
	t.Cleanup(func() { close(slow.stall) })
	r.know(t, slow, quick)
	for range 3 {
		r.assign(t, tenAtOnce())
		in := r.awaitLive(t)
		until(t, "credits", func() bool { return quick.owns(in.GetId()) > 0 })
		if err := r.Stop(service.Stop{Slot: in.GetSlot(), Drain: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		until(t, "the other gateway knows of the withdrawal", func() bool { return quick.heard("terminating") })
		r.know(t, quick)
		until(t, "its end", func() bool { return len(r.Reports()) == 0 })
		r.know(t, slow, quick)
	}
}

func TestARefusedGatewayIsGrantedAgainOnlyAfterALook(t *testing.T) {
	g := startGateway(t, "one")
	r := start(t)
	r.know(t, g)
	r.assign(t, tenAtOnce())
	in := r.awaitLive(t)
	until(t, "credits", func() bool { return g.owns(in.GetId()) == 10 })
	g.mu.Lock()
	g.holds[in.GetId()] = 0
	g.mu.Unlock()
	refused := time.Now()
	g.send(t, &pb.PollResponse{Message: &pb.PollResponse_Refused{Refused: &pb.Refused{Instance: in.GetId(), Credits: 10, Reason: "connection refused"}}})
	until(t, "credits again", func() bool { return g.owns(in.GetId()) == 10 })
	if took := time.Since(refused); took < 100*time.Millisecond {
		t.Errorf("granted again after %v, before the next look", took)
	}
}

func TestAnAdoptedInstancesCreditsWaitForEveryGatewaysHoldings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	one, two := startGateway(t, "one"), startGateway(t, "two")
	r := startIn(t, dir, nil)
	r.know(t, one)
	r.assign(t, tenAtOnce())
	r.awaitLive(t)
	r.end(t)

	first := child(t, dir)
	until(t, "a process", func() bool { return len(host.OnDisk(dir)) == 1 })
	id := host.OnDisk(dir)[0].ID
	until(t, "credits", func() bool { return one.owns(id) == 10 })
	kill(t, first)
	one.stop(t) // it lives, holds its credits, and is not heard
	again := startIn(t, dir, nil)
	again.know(t, one, two)
	again.awaitLive(t)
	until(t, "two is told of the instance", func() bool { return two.heard("offer synced") })
	if n := two.owns(id); n != 0 {
		t.Fatalf("two was granted %d credits that one may hold", n)
	}
	again.know(t, two)
	until(t, "two has all once one is retired", func() bool { return two.owns(id) == 10 })
}
