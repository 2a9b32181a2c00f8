package host_test

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
)

// machine names a process of this one as a gateway does.
func machine(t *testing.T, pid int) *pb.GatewayProcess {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	return &pb.GatewayProcess{Boot: strings.TrimSpace(string(boot)), Namespace: namespace, Pid: int32(pid)}
}

// standIn is a process that a gateway says it is.
func standIn(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("cat")
	if _, err := c.StdinPipe(); err != nil { // open until the test ends
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // mostly it has ended
		_ = c.Wait()
	})
	return c
}

// keepOpen asks an instance for what it keeps open, and returns once it does.
func keepOpen(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte("GET /keep HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("answered %v, %v", resp, err)
	}
	return c
}

func awayOf(in *pb.InstanceReport) map[string]int {
	out := map[string]int{}
	for _, a := range in.GetAway() {
		out[a.GetGateway()] = int(a.GetCredits())
	}
	return out
}

func TestTheCreditsOfAGatewayWhoseProcessHasEndedReturnOnceItsConnectionsAreClosed(t *testing.T) {
	one, two := startGateway(t, "one"), startGateway(t, "two")
	process := standIn(t)
	one.process = machine(t, process.Process.Pid)
	r := start(t)
	r.know(t, one, two)
	tmpl := hosttest.TemplateOf(hosttest.Keeps)
	tmpl.Concurrency = 10
	r.assign(t, tmpl)
	in := r.awaitLive(t)
	id := in.GetId()
	until(t, "both have half", func() bool { return one.owns(id) == 5 && two.owns(id) == 5 })
	lease := keepOpen(t, in.GetAddress())

	one.stop(t) // silence: the process may lease
	r.await(t, "report of what is missing", func(in *pb.InstanceReport) bool { return awayOf(in)["one"] == 5 })
	two.send(t, &pb.PollResponse{Message: &pb.PollResponse_Demand{Demand: &pb.Demand{Group: "hello-00001", Waiting: 9}}})
	if r.Ended("one") || r.Held(id) != 10 || two.owns(id) != 5 {
		t.Fatalf("%d are held, of which two has %d, though one lives", r.Held(id), two.owns(id))
	}

	if err := lease.Close(); err != nil { // as the kernel does before the end of a process is seen
		t.Fatal(err)
	}
	kill(t, process)
	until(t, "its end is seen", func() bool { return r.Ended("one") })
	until(t, "the instance is told of the end of the connection", func() bool { return r.Reclaim("one") })
	if n := two.owns(id); n != 5 {
		t.Fatalf("two has %d while the instance may work for one", n)
	}
	get(t, in.GetAddress(), "/release")
	until(t, "two has all", func() bool { return two.owns(id) == 10 })
	r.await(t, "report of nothing missing", func(in *pb.InstanceReport) bool { return len(in.GetAway()) == 0 })
}

func TestAProcessOfAnotherMachineOrNamespaceIsNotTakenForAGateways(t *testing.T) {
	process := standIn(t)
	r := start(t)
	for name, change := range map[string]func(*pb.GatewayProcess){
		"another boot":      func(p *pb.GatewayProcess) { p.Boot = "another" },
		"another namespace": func(p *pb.GatewayProcess) { p.Namespace = "pid:[1]" },
		"no namespace":      func(p *pb.GatewayProcess) { p.Namespace = "" },
		"no number":         func(p *pb.GatewayProcess) { p.Pid = 0 },
	} {
		p := machine(t, process.Process.Pid)
		if change(p); r.Holds(p) {
			t.Errorf("%s: it is held", name)
		}
	}
	if !r.Holds(machine(t, process.Process.Pid)) {
		t.Error("one that is here is not held")
	}
}

func TestANewProcessOfAGatewayIsNotChargedWithTheEndOfTheOneBefore(t *testing.T) {
	g := startGateway(t, "one")
	before, after := standIn(t), standIn(t)
	g.process = machine(t, before.Process.Pid)
	r := start(t)
	r.know(t, g)
	r.assign(t, tenAtOnce())
	id := r.awaitLive(t).GetId()
	until(t, "credits", func() bool { return g.owns(id) == 10 })
	g.stop(t)
	g.mu.Lock()
	g.session, g.holds, g.process = "s2", map[string]int{}, machine(t, after.Process.Pid)
	g.mu.Unlock()
	g.listen(t, g.addr)
	until(t, "all credits are granted anew", func() bool { return g.owns(id) == 10 })
	kill(t, before)
	if r.Reclaim("one"); r.Ended("one") || r.Held(id) != 10 {
		t.Errorf("%d are held, and its end is said to be %v", r.Held(id), r.Ended("one"))
	}
}
