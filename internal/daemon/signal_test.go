package daemon

import (
	"bytes"
	"net/http"
	"os"
	osexec "os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/shelter"
)

// childEnv makes the test binary the program itself: signals end processes.
const childEnv = "FAIRLEAD_DAEMON_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		shelter.Tests()
		os.Exit(m.Run())
	}
	ctx, cancel := Signals()
	code := cli.Run(ctx, cli.Env{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Roles: Roles{}})
	cancel()
	os.Exit(code)
}

// child is the program in a process of its own.
type child struct {
	*role
	cmd *osexec.Cmd
}

// spawn starts the program; it is killed at the end of the test.
func spawn(t *testing.T, args ...string) *child {
	t.Helper()
	return spawnWith(t, nil, args...)
}

// spawnWith starts it as changed by wrap, which may be nil.
func spawnWith(t *testing.T, wrap func(*osexec.Cmd), args ...string) *child {
	t.Helper()
	c := &child{role: &role{t: t, out: newOutput(), done: make(chan struct{})}, cmd: osexec.Command(os.Args[0], args...)}
	c.cmd.Env = append(os.Environ(), childEnv+"=1")
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	if wrap != nil {
		wrap(c.cmd)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		<-c.done
		if t.Failed() {
			t.Logf("output:\n%s", c.out)
		}
	})
	return c
}

func spawnUp(t *testing.T, data string, extra ...string) *child {
	t.Helper()
	return spawn(t, append([]string{"up", "--data", data, "--api", anyPort, "--ops", anyPort, "--gateway", anyPort, "--poll", anyPort, "--log-level", "info"}, extra...)...)
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// code waits for the process to end by itself.
func (c *child) code() int {
	c.t.Helper()
	_ = c.end()
	return c.cmd.ProcessState.ExitCode()
}

// slow answers /slow after a long time, and everything else with its pid.
const slow = `import http.server,os,sys,time
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/slow":
            print("slow begins", flush=True)
            time.sleep(60)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode())
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), H).serve_forever()`

func ask(t *testing.T, gateway, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+gateway+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Host = "hello.localhost"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	return resp.StatusCode, body.String(), err
}

func mustRun(t *testing.T, data string, args ...string) string {
	t.Helper()
	code, out, errs := fairlead(t, data, args...)
	if code != 0 {
		t.Fatalf("%v: exit %d\n%s%s", args, code, out, errs)
	}
	return out
}

func lives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestTheFirstCtrlCWaitsForRequestsAndTheSecondEndsAtOnceAndLeavesInstancesToBeAdopted(t *testing.T) {
	t.Parallel()
	data := folder(t)
	up := spawnUp(t, data)
	gateway := up.waitFor(upLine)[1]
	mustRun(t, data, "deploy", "hello", "--", "python3", "-c", slow, "$(PORT)")
	_, body, err := ask(t, gateway, "/")
	pid, perr := strconv.Atoi(body)
	if err != nil || perr != nil {
		t.Fatalf("answered %q: %v", body, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := ask(t, gateway, "/slow")
		ended <- err
	}()
	says(t, data, "slow begins", "logs", "hello")
	up.signal(syscall.SIGINT)
	up.waitFor("a second Ctrl-C ends at once")
	if err := until(t.Context(), func() bool { // it takes no more requests, and waits for the one
		_, _, err := ask(t, gateway, "/")
		return err != nil
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the request in flight ended: %v", err)
	case <-up.done:
		t.Fatal("it did not wait")
	default:
	}
	up.signal(syscall.SIGINT)
	began := time.Now()
	if code := up.code(); code != cli.ExitFailed || time.Since(began) > 2*time.Second {
		t.Errorf("exit %d after %s", code, time.Since(began))
	}
	if <-ended == nil {
		t.Error("the request was answered by nobody")
	}
	if !lives(pid) {
		t.Fatal("the instance was to be left running")
	}
	again := spawnUp(t, data)
	gateway = again.waitFor(upLine)[1]
	if err := until(t.Context(), func() bool {
		code, body, err := ask(t, gateway, "/")
		return err == nil && code == http.StatusOK && body == strconv.Itoa(pid)
	}); err != nil {
		t.Errorf("the same process does not serve: %v", err)
	}
	mustRun(t, data, "delete", "hello")
	again.signal(syscall.SIGTERM)
	if code := again.code(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if lives(pid) {
		t.Error("the adopted process outlived its service")
	}
}

// deployed starts everything, in the way of wrap, with one instance.
func deployed(t *testing.T, wrap func(*osexec.Cmd)) (up *child, data string) {
	t.Helper()
	data = folder(t)
	up = spawnWith(t, wrap, "up", "--data", data, "--api", anyPort, "--ops", anyPort, "--gateway", anyPort, "--poll", anyPort, "--log-level", "info")
	up.waitFor(upLine)
	mustRun(t, data, "deploy", "hello", "--", "python3", "-c", slow, "$(PORT)")
	return up, data
}

func endedCleanly(t *testing.T, up *child, data string) {
	t.Helper()
	if code := up.code(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if left := leftOf(t, data); len(left) != 0 {
		t.Errorf("instances were left running: %v", left)
	}
}

func TestATerminalThatIsClosedEndsUpCleanlyHoweverOftenItSaysSo(t *testing.T) {
	t.Parallel()
	// The tests may run where SIGHUP is ignored, which a child would inherit;
	// what is caught here a child has by default.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	up, data := deployed(t, nil)
	up.signal(syscall.SIGHUP)
	up.waitFor("a second Ctrl-C ends at once")
	_ = up.cmd.Process.Signal(syscall.SIGHUP) // it may have ended
	_ = up.cmd.Process.Signal(syscall.SIGHUP)
	endedCleanly(t, up, data)
}

func TestWhereSIGHUPIsIgnoredFromTheStartItStaysSo(t *testing.T) {
	t.Parallel()
	up, data := deployed(t, func(c *osexec.Cmd) { // as nohup does
		c.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`}, c.Args...)
		c.Path = "/bin/sh"
	})
	status, err := os.ReadFile("/proc/" + strconv.Itoa(up.cmd.Process.Pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	ignored := regexp.MustCompile(`SigIgn:\s*([0-9a-f]+)`).FindSubmatch(status)
	if mask, err := strconv.ParseUint(string(ignored[1]), 16, 64); err != nil || mask&(1<<(syscall.SIGHUP-1)) == 0 {
		t.Errorf("SIGHUP is not ignored any more: mask %s, %v", ignored[1], err)
	}
	up.signal(syscall.SIGTERM)
	endedCleanly(t, up, data)
}

func TestAReaderOfTheOutputThatEndsDoesNotEndUp(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	up, data := deployed(t, func(c *osexec.Cmd) { c.Stderr = w }) // the log
	w.Close()
	r.Close()
	mustRun(t, data, "deploy", "hello", "--env", "A=b") // logs much
	up.signal(syscall.SIGTERM)
	endedCleanly(t, up, data)
}

func TestSIGTERMInMidDeployEndsCleanlyAndTheNextUpFinishesTheSameRevision(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"install", "instances", "ready"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			data := folder(t)
			up := spawnUp(t, data)
			up.waitFor(upLine)
			mustRun(t, data, "deploy", "hello", "--", "python3", "-c", slow, "$(PORT)")
			deploy := spawn(t, "deploy", "hello", "--data", data, "--env", "A=b")
			deploy.waitFor(`(?m)^` + step)
			up.signal(syscall.SIGTERM)
			if code := up.code(); code != 0 {
				t.Errorf("exit %d in mid-deploy", code)
			}
			if left := leftOf(t, data); len(left) != 0 {
				t.Errorf("instances were left running: %v", left)
			}
			spawnUp(t, data).waitFor(upLine)
			if code := deploy.code(); code != 0 {
				t.Errorf("the deploy was to be seen done: exit %d", code)
			}
			out := mustRun(t, data, "revisions", "hello")
			if !strings.Contains(out, "hello-00002") || strings.Contains(out, "hello-00003") {
				t.Errorf("it was to be finished by the same revision:\n%s", out)
			}
			mustRun(t, data, "delete", "hello")
		})
	}
}

// leftOf lists the processes whose folder lies below the data folder.
func leftOf(t *testing.T, data string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, data) {
			left = append(left, filepath.Dir(l))
		}
	}
	return left
}
