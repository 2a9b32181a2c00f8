package host_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// killedHost is the folder of a host that was killed while an instance ran.
func killedHost(t *testing.T) (dir string, was *pb.InstanceReport) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "host")
	r := startIn(t, dir, nil)
	r.assign(t, hosttest.TemplateOf(hosttest.Serves))
	r.awaitLive(t)
	r.end(t) // the assignment stays
	c := child(t, dir)
	until(t, "a process that answers", func() bool {
		on := host.OnDisk(dir)
		return len(on) == 1 && on[0].Offered && answers("127.0.0.1:"+strconv.Itoa(on[0].Port))
	})
	kill(t, c)
	on := host.OnDisk(dir)[0]
	t.Cleanup(func() { // when the test failed before a host took it over
		for _, pid := range host.Carriers(on.ID) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return dir, &pb.InstanceReport{Id: on.ID, Slot: on.Assignment.Slot, Pid: int32(on.Pid)}
}

// halve truncates a file as a crash without a sync does.
func halve(t *testing.T, file string) {
	t.Helper()
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, st.Size()/2); err != nil {
		t.Fatal(err)
	}
}

func empty(t *testing.T, file string) {
	t.Helper()
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
}

func nullify(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("null"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, file, from, to string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(b, []byte(from)) {
		t.Fatalf("no %q in %s, %v", from, b, err)
	}
	if err := os.WriteFile(file, bytes.Replace(b, []byte(from), []byte(to), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedRecordNeverEndsAHealthyProcess(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, instance, slot string){
		"half the instance's":  func(t *testing.T, i, _ string) { halve(t, i) },
		"an empty instance's":  func(t *testing.T, i, _ string) { empty(t, i) },
		"no instance's at all": func(t *testing.T, i, _ string) { nullify(t, i) },
		"another process's":    func(t *testing.T, i, _ string) { flip(t, i, `"pid":`, `"pid":1`) },
		"half the slot's":      func(t *testing.T, _, s string) { halve(t, s) },
		"an empty slot's":      func(t *testing.T, _, s string) { empty(t, s) },
		"both":                 func(t *testing.T, i, s string) { empty(t, i); halve(t, s) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, was := killedHost(t)
			damage(t, filepath.Join(dir, "instances", was.GetId()+".json"), filepath.Join(dir, "slots", was.GetSlot()+".json"))
			r := startIn(t, dir, nil)
			in := r.awaitLive(t)
			if in.GetId() != was.GetId() || in.GetPid() != was.GetPid() || !in.GetAdopted() || len(r.Reports()) != 1 {
				t.Fatalf("adopted %v of %v", r.Reports(), was)
			}
			if on := host.OnDisk(dir); len(on) != 1 || on[0].Pid != int(was.GetPid()) || on[0].Port != portOf(t, in) {
				t.Errorf("the records now say %+v", on)
			}
			if err := syscall.Kill(int(was.GetPid()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			r.await(t, "a new process of the slot", func(in *pb.InstanceReport) bool {
				return in.GetId() != was.GetId() && in.GetState() == "live" && in.GetSlot() == was.GetSlot()
			})
		})
	}
}

func TestAStrayIsWithdrawnAndDrainedBeforeItEnds(t *testing.T) {
	dir, was := killedHost(t)
	for _, file := range []string{"instances/" + was.GetId(), "slots/" + was.GetSlot()} { // gone, not damaged: it belongs to nothing
		if err := os.Remove(filepath.Join(dir, file+".json")); err != nil {
			t.Fatal(err)
		}
	}
	g := startGateway(t, "one")
	keep := startIn(t, filepath.Join(t.TempDir(), "other"), nil)
	keep.know(t, g)
	copyFile(t, filepath.Join(keep.dir, "gateways.json"), filepath.Join(dir, "gateways.json"))
	keep.end(t)
	g.mu.Lock()
	g.said, g.holds[was.GetId()], g.busy[was.GetId()] = nil, 1, 1
	g.mu.Unlock()
	r := startIn(t, dir, nil)
	until(t, "its withdrawal", func() bool { return g.heard("terminating") })
	if got := r.Reports(); len(got) != 1 || got[0].GetId() != was.GetId() || got[0].GetState() != "draining" {
		t.Fatalf("it is shown as %v", got)
	}
	if !answers(r.Reports()[0].GetAddress()) {
		t.Error("it does not serve its lease to the end")
	}
	g.mu.Lock()
	g.busy[was.GetId()] = 0
	err := g.returnLocked(was.GetId(), 1)
	g.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return len(r.Reports()) == 0 && len(host.Carriers(was.GetId())) == 0 })
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAHelperOfAnAdoptedInstanceLivesOn(t *testing.T) {
	dir, was := killedHost(t)
	marker := markerOf(t, dir)
	helper := exec.Command("sleep", "600") // went into a session of its own
	helper.Env = []string{"FAIRLEAD_HOST=" + marker, "FAIRLEAD_INSTANCE=" + was.GetId()}
	helper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	r := startIn(t, dir, nil)
	r.awaitLive(t)
	if len(host.Carriers(was.GetId())) != 2 {
		t.Error("the helper of a healthy instance was ended")
	}
	r.end(t)
	_ = helper.Wait() // killed with its instance
}

func TestAnIdentityThatIsDamagedTwiceIsRecoveredFromTheProcesses(t *testing.T) {
	for name, files := range map[string][]string{"once": {"marker.json"}, "twice": {"marker.json", "marker.json.1"}} {
		t.Run(name, func(t *testing.T) {
			dir, was := killedHost(t)
			marker := markerOf(t, dir)
			for _, f := range files {
				halve(t, filepath.Join(dir, f))
			}
			r := startIn(t, dir, nil)
			if in := r.awaitLive(t); in.GetPid() != was.GetPid() || r.Marker() != marker {
				t.Errorf("adopted %v of %v; the marker is %s, was %s", in, was, r.Marker(), marker)
			}
			if _, err := os.Stat(filepath.Join(dir, "marker.json.bad")); err != nil {
				t.Error(err)
			}
		})
	}
}

func markerOf(t *testing.T, dir string) string {
	t.Helper()
	on := host.OnDisk(dir)
	if len(on) != 1 {
		t.Fatalf("records %v", on)
	}
	return host.CarriedMarker(on[0].Pid)
}

func TestAHostStartsThoughItsListOfGatewaysIsDamaged(t *testing.T) {
	for name, files := range map[string][]string{"once": {"gateways.json"}, "twice": {"gateways.json", "gateways.json.1"}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "host")
			g := startGateway(t, "one")
			r := startIn(t, dir, nil)
			r.know(t, g)
			r.end(t)
			for _, f := range files {
				halve(t, filepath.Join(dir, f))
			}
			again := startIn(t, dir, nil)
			if len(files) == 2 { // control tells
				again.know(t, g)
			}
			again.assign(t, tenAtOnce())
			id := again.awaitLive(t).GetId()
			until(t, "credits", func() bool { return g.owns(id) == 10 })
			if _, err := os.Stat(filepath.Join(dir, "gateways.json.bad")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFenceThatIsDamagedOnceRefusesAsBefore(t *testing.T) {
	for _, file := range []string{"fence.json", "fence.json.1"} {
		t.Run(file, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "host")
			r := startIn(t, dir, nil)
			if err := r.TakeGateways(&pb.GatewayList{Epoch: &pb.Epoch{Incarnation: "world", Number: 7, Nonce: "n"}}); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			flip(t, filepath.Join(dir, file), `"number":7`, `"number":1`) // valid, and wrong
			again := startIn(t, dir, nil)
			err := again.TakeGateways(&pb.GatewayList{Epoch: &pb.Epoch{Incarnation: "world", Number: 6, Nonce: "n"}})
			if !errors.Is(err, fault.Superseded) {
				t.Errorf("a deposed leader: %v", err)
			}
			if err := again.TakeGateways(&pb.GatewayList{Epoch: &pb.Epoch{Incarnation: "world", Number: 7, Nonce: "n"}}); err != nil {
				t.Errorf("the present leader: %v", err)
			}
		})
	}
}

func TestAFenceThatIsDamagedTwiceIsToldByItsPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	r := startIn(t, dir, nil)
	if err := r.TakeGateways(&pb.GatewayList{Epoch: &pb.Epoch{Incarnation: "world", Number: 7, Nonce: "n"}}); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	for _, f := range []string{"fence.json", "fence.json.1"} {
		halve(t, filepath.Join(dir, f))
	}
	for range 2 { // nothing is forgotten by trying again
		_, err := host.New(config(dir))
		if !errors.Is(err, fault.NeedsOperator) || !bytes.Contains([]byte(err.Error()), []byte(filepath.Join(dir, "fence.json.1"))) {
			t.Errorf("New: %v", err)
		}
	}
}

func TestADamagedSlotIsForgottenOnceItWasStopped(t *testing.T) {
	dir, was := killedHost(t)
	file := filepath.Join(dir, "slots", was.GetSlot()+".json")
	halve(t, file)
	r := startIn(t, dir, nil)
	r.awaitLive(t)
	if err := r.Stop(service.Stop{Slot: was.GetSlot()}); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing of it on disk", func() bool {
		left, err := os.ReadDir(filepath.Dir(file))
		return err == nil && len(left) == 0
	})
}
