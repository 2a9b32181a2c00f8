package host_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestARealProgramIsRunByItsNameInThePath(t *testing.T) {
	r := start(t)
	r.assign(t, service.Template{Command: []string{"python3", "-m", "http.server", "$(PORT)"}})
	in := r.awaitLive(t)
	if got := get(t, in.GetAddress(), "/"); !strings.Contains(got, "Directory listing") || strings.Contains(got, "<li>") {
		t.Errorf("its folder is not empty: %s", got)
	}
}

func TestAReadyProgramIsSeenAtOnce(t *testing.T) {
	r := start(t)
	begun := time.Now()
	r.assign(t, hosttest.TemplateOf(hosttest.Prints))
	in := r.awaitLive(t)
	seen := time.Now()
	st, err := os.Stat(fmt.Sprintf("/proc/%d", in.GetPid()))
	if err != nil {
		t.Fatal(err)
	}
	// From the process's own beginning it has to load, listen and be looked
	// at; the bound is for a loaded machine, ten times what a quiet one takes.
	if took := seen.Sub(st.ModTime()); took > time.Second || seen.Sub(begun) > 2*time.Second {
		t.Errorf("seen %v after its start, %v after the assignment", took, seen.Sub(begun))
	}
}

func TestTheEnvironmentIsCleanAndHoldsWhatWasDeclared(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "x")
	r := start(t)
	tmpl := hosttest.TemplateOf(hosttest.Env)
	tmpl.Env = map[string]string{"GREETING": "hi", "FAIRLEAD_SERVICE": "forged", "PORT": "1"}
	r.assign(t, tmpl)
	in := r.awaitLive(t)
	got := get(t, in.GetAddress(), "/")
	port := in.GetAddress()[strings.LastIndexByte(in.GetAddress(), ':')+1:]
	for _, want := range []string{
		"GREETING=hi\n", "PORT=" + port + "\n", "FAIRLEAD_SERVICE=hello\n", "FAIRLEAD_REVISION=hello-00001\n",
		"FAIRLEAD_INSTANCE=" + in.GetId() + "\n", "PATH=", "HOME=" + r.dir, "TMPDIR=" + r.dir, "LANG=", "cwd=" + r.dir,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "SECRET_OF_THE_HOST") {
		t.Error("the host's own environment is in the instance's")
	}
}

func TestADeclaredFolderIsUsedInPlaceAndLeftThere(t *testing.T) {
	r := start(t)
	tmpl := hosttest.TemplateOf(hosttest.Env)
	tmpl.Dir = t.TempDir()
	r.assign(t, tmpl)
	in := r.awaitLive(t)
	if got := get(t, in.GetAddress(), "/"); !strings.Contains(got, "cwd="+tmpl.Dir+"\n") {
		t.Errorf("it runs in %s", got)
	}
	if err := r.Stop(service.Stop{Slot: in.GetSlot()}); err != nil {
		t.Fatal(err)
	}
	until(t, "no instance", func() bool { return len(r.Reports()) == 0 })
	if _, err := os.Stat(tmpl.Dir); err != nil {
		t.Error(err)
	}
	until(t, "the instance's own folder is removed", func() bool {
		left, err := os.ReadDir(filepath.Join(r.dir, "work"))
		return err == nil && len(left) == 0
	})
}

func TestAProgramThatListensElsewhereIsToldSo(t *testing.T) {
	for program, want := range map[hosttest.Program]string{
		hosttest.Loopback6: "only; bind to 0.0.0.0 or 127.0.0.1",
		hosttest.OwnAddr:   "listens on 127.0.0.2:",
		hosttest.WrongPort: "not on its PORT",
	} {
		t.Run(string(program), func(t *testing.T) {
			r := start(t)
			r.assign(t, hosttest.TemplateOf(program))
			if in := r.awaitDetail(t, want); in.GetState() != "starting" {
				t.Errorf("it is %s", in.GetState())
			}
		})
	}
}

func TestAReadyPathIsPartOfLive(t *testing.T) {
	r := start(t)
	tmpl := hosttest.TemplateOf(hosttest.Serves)
	tmpl.ReadyPath = "/unready"
	r.assign(t, tmpl)
	if in := r.awaitDetail(t, "ready path /unready answers 503"); in.GetState() != "starting" {
		t.Errorf("it is %s", in.GetState())
	}
}

func TestASocketOfAnyProcessOfTheSessionCounts(t *testing.T) {
	r := start(t)
	inner := hosttest.TemplateOf(hosttest.Serves).Command
	r.assign(t, service.Template{Command: []string{"sh", "-c", strings.Join(inner[:3], " ") + ` "$PORT"; true`}})
	in := r.awaitLive(t)
	if got := get(t, in.GetAddress(), "/"); strings.Contains(got, fmt.Sprintf("from %d\n", in.GetPid())) {
		t.Fatalf("the leader itself answers: %s", got)
	}
	if err := r.Stop(service.Stop{Slot: in.GetSlot()}); err != nil {
		t.Fatal(err)
	}
	until(t, "no instance", func() bool { return len(r.Reports()) == 0 })
	if left := host.Carriers(in.GetId()); len(left) != 0 {
		t.Errorf("processes %v of the session are left", left)
	}
}

func TestAProgramThatLeavesItsSessionIsRefusedByName(t *testing.T) {
	r := start(t)
	inner := strings.Join(hosttest.TemplateOf(hosttest.Serves).Command[:3], " ")
	r.assign(t, service.Template{Command: []string{"sh", "-c", `setsid sh -c '` + inner + ` "$PORT" & wait' & sleep 0.5`}})
	in := r.awaitDetail(t, "left its session (pid ")
	if in.GetState() == "live" {
		t.Error("it is live")
	}
	if err := r.Stop(service.Stop{Slot: in.GetSlot()}); err != nil {
		t.Fatal(err)
	}
	until(t, "no instance", func() bool { return len(r.Reports()) == 0 })
	until(t, "no stray", func() bool { return len(host.Carriers(in.GetId())) == 0 })
}

func TestAProgramThatIgnoresSIGTERMIsKilled(t *testing.T) {
	r := start(t)
	r.assign(t, hosttest.TemplateOf(hosttest.Stubborn))
	in := r.awaitLive(t)
	begun := time.Now()
	if err := r.Stop(service.Stop{Slot: in.GetSlot()}); err != nil {
		t.Fatal(err)
	}
	until(t, "no instance", func() bool { return len(r.Reports()) == 0 })
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("killed after %v, before its time", took)
	}
	if left := append(host.Carriers(in.GetId()), host.Zombies(os.Getpid())...); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestAProgramThatExitsIsStartedAgainLaterEachTime(t *testing.T) {
	r := start(t)
	r.assign(t, hosttest.TemplateOf(hosttest.Exits))
	in := r.await(t, "third process", func(in *pb.InstanceReport) bool {
		return in.GetRestarts() >= 2 && in.GetState() == "exited"
	})
	if in.GetExitStatus() != "exit status 3" || !strings.Contains(strings.Join(in.GetLastLines(), "\n"), "these are my last words") {
		t.Errorf("it ended with %q and %q", in.GetExitStatus(), in.GetLastLines())
	}
	if left := host.Zombies(os.Getpid()); len(left) != 0 {
		t.Errorf("zombies %v are left", left)
	}
}

func TestACommandThatCannotBeStartedIsShownAndTriedAgain(t *testing.T) {
	r := start(t)
	r.assign(t, hosttest.TemplateOf(hosttest.Missing))
	r.await(t, "second try", func(in *pb.InstanceReport) bool {
		return in.GetState() == "exited" && in.GetRestarts() >= 1 && strings.Contains(in.GetDetail(), "cannot find")
	})
}

func TestManySlotsStartAtOnce(t *testing.T) {
	r := start(t)
	const n = 12
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			a := assignment(hosttest.TemplateOf(hosttest.Serves))
			a.Slot = fmt.Sprintf("hello-00001.%d", i)
			if err := r.Assign(a); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	until(t, "all live at addresses of their own", func() bool {
		for _, in := range r.Reports() {
			if in.GetState() == "live" {
				seen[in.GetAddress()] = true
			}
		}
		return len(seen) == n
	})
}

func TestOutputOfAFloodStaysBounded(t *testing.T) {
	r := startIn(t, filepath.Join(t.TempDir(), "host"), func(c *host.Config) { c.LogMax = 64 << 10 })
	r.assign(t, hosttest.TemplateOf(hosttest.Floods))
	in := r.awaitLive(t)
	older := filepath.Join(r.dir, "logs", in.GetId()+".log.1")
	until(t, "a rotation", func() bool { _, err := os.Stat(older); return err == nil })
	for range 3 {
		was, err := os.Stat(older)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "another rotation", func() bool { st, err := os.Stat(older); return err == nil && !os.SameFile(was, st) })
		// What is printed while the file is copied goes into the copy: a few times the bound.
		if st, err := os.Stat(older); err != nil || st.Size() > 64<<20 {
			t.Errorf("the older file holds %d bytes, %v", st.Size(), err)
		}
	}
	if got := get(t, in.GetAddress(), "/"); !strings.Contains(got, "hello") {
		t.Errorf("it answers %q", got)
	}
}

func TestAGracefulShutdownStopsAllAndTheNextStartRunsItAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	r := startIn(t, dir, nil)
	r.assign(t, hosttest.TemplateOf(hosttest.Serves))
	first := r.awaitLive(t)
	r.end(t)
	if left := host.Carriers(first.GetId()); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
	again := startIn(t, dir, nil)
	if in := again.awaitLive(t); in.GetId() == first.GetId() || in.GetAdopted() {
		t.Errorf("the next start shows %v", in)
	}
}

func TestInstancesThatAreKeptAreAdoptedByTheNextHost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	r := startIn(t, dir, func(c *host.Config) { c.KeepInstances = true })
	r.assign(t, hosttest.TemplateOf(hosttest.Prints))
	first := r.awaitLive(t)
	r.end(t)
	get(t, first.GetAddress(), "/while/nobody/hosts")
	again := startIn(t, dir, nil)
	in := again.awaitLive(t)
	if in.GetId() != first.GetId() || in.GetPid() != first.GetPid() || !in.GetAdopted() {
		t.Errorf("adopted %v, which was %v", in, first)
	}
	again.end(t)
	// The process is a child of this test's process, whose first host waits for it no more.
	if _, err := syscall.Wait4(int(first.GetPid()), nil, 0, nil); err != nil {
		t.Error(err)
	}
}

func TestAKilledHostLosesNoInstanceAndPrintingGoesOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	r := startIn(t, dir, nil)
	r.assign(t, hosttest.TemplateOf(hosttest.Prints))
	r.awaitLive(t)
	r.end(t) // the assignment stays

	first := child(t, dir)
	until(t, "a process", func() bool { return len(host.OnDisk(dir)) == 1 })
	was := host.OnDisk(dir)[0]
	address := fmt.Sprintf("127.0.0.1:%d", was.Port)
	until(t, "an answer", func() bool { return answers(address) })
	kill(t, first)
	for i := range 200 { // on a pipe to a dead host the first line would be its last
		if got := get(t, address, fmt.Sprintf("/%d", i)); got != fmt.Sprintf("hello from %d\n", was.Pid) {
			t.Fatalf("request %d is answered %q", i, got)
		}
	}
	kill(t, child(t, dir)) // once more, at once

	again := startIn(t, dir, nil)
	in := again.awaitLive(t)
	if in.GetId() != was.ID || int(in.GetPid()) != was.Pid || !in.GetAdopted() {
		t.Errorf("adopted %v, which was %+v", in, was)
	}
	if err := syscall.Kill(was.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again.await(t, "its end", func(in *pb.InstanceReport) bool {
		return in.GetId() == was.ID && in.GetExitStatus() == "unknown (adopted)"
	})
	again.await(t, "a new process", func(in *pb.InstanceReport) bool { return in.GetId() != was.ID && in.GetState() == "live" })
}

func answers(address string) bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	resp, err := client.Get("http://" + address)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}

func TestAnInstanceThatNoLongerListensIsSaidToAndReplaced(t *testing.T) {
	r := startIn(t, filepath.Join(t.TempDir(), "host"), func(c *host.Config) { c.Timing.DeafFor = 3 * time.Second })
	tmpl := hosttest.TemplateOf(hosttest.Deafens)
	tmpl.Drain = 100 * time.Millisecond
	r.assign(t, tmpl)
	first := r.awaitLive(t)
	get(t, first.GetAddress(), "/close")
	in := r.awaitDetail(t, fmt.Sprintf("no longer listens on its PORT %d (it did until ", portOf(t, first)))
	if in.GetId() != first.GetId() || in.GetState() != "starting" || in.GetPid() != first.GetPid() {
		t.Errorf("it is shown as %v", in)
	}
	next := r.await(t, "its successor", func(in *pb.InstanceReport) bool {
		return in.GetId() != first.GetId() && in.GetRestarts() == 1 && strings.Contains(in.GetDetail(), "no longer listens on its PORT")
	})
	r.await(t, "its life", func(in *pb.InstanceReport) bool { return in.GetId() == next.GetId() && in.GetState() == "live" })
	until(t, "the deaf one's end", func() bool { return len(host.Carriers(first.GetId())) == 0 && len(r.Reports()) == 1 })
}

func TestAStoppedProcessIsNotLiveThoughItsPortTakesConnectionsAndGoesOnAsItWas(t *testing.T) {
	r := start(t)
	r.assign(t, hosttest.TemplateOf(hosttest.Serves))
	first := r.awaitLive(t)
	pid := int(first.GetPid())
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	in := r.awaitDetail(t, fmt.Sprintf("its process %d is stopped", pid))
	if in.GetState() != "starting" || in.GetId() != first.GetId() {
		t.Errorf("it is shown as %v", in)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if in := r.awaitLive(t); in.GetId() != first.GetId() || in.GetRestarts() != 0 {
		t.Errorf("%v was replaced by %v", first, in)
	}
}

func TestAReadyPathThatFailsForLongReplacesNothing(t *testing.T) {
	r := startIn(t, filepath.Join(t.TempDir(), "host"), func(c *host.Config) { c.Timing.DeafFor = time.Millisecond })
	tmpl := hosttest.TemplateOf(hosttest.Wavers)
	tmpl.ReadyPath = "/ready"
	r.assign(t, tmpl)
	first := r.awaitLive(t)
	r.awaitDetail(t, "ready path /ready answers 503")
	if in := r.awaitLive(t); in.GetId() != first.GetId() || in.GetRestarts() != 0 {
		t.Errorf("%v was replaced by %v", first, in)
	}
}
