package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestTheSixStepsAreShownThenTheURLAndACurlLineThatWorksEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	out := w.must("deploy", "hello", "--", "python3", "-m", "http.server", "$(PORT)").stdout
	at := 0
	for _, step := range []string{"queue", "install", "instances", "ready", "routes", "finalize"} {
		i := strings.Index(out[at:], step)
		if i < 0 {
			t.Fatalf("step %s is not shown after the ones before it:\n%s", step, out)
		}
		at += i
	}
	for _, want := range []string{"http://hello.localhost:", "curl -H 'Host: hello.localhost' http://" + w.gateway + "/"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if code, body, _ := w.get("hello", "/"); code != 200 || !strings.Contains(body, "Directory listing") {
		t.Errorf("answered %d: %s", code, body)
	}
}

func TestANewRevisionLosesNotOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--instances", "2", "--", testapp)
	l := w.startLoad("hello", "/", 8)
	l.more(100)
	w.must("deploy", "hello", "--env", "GREETING=hi")
	l.more(100)
	seen := l.end()
	if seen["hello-00001"] == 0 || seen["hello-00002"] == 0 {
		t.Errorf("both revisions should have answered: %v", seen)
	}
	s := w.status("hello")
	if s.serving() != "hello-00002" || s.Generation != 2 || s.ObservedGeneration != 2 {
		t.Errorf("catalog and routes should both name hello-00002 at generation 2: %+v", s)
	}
}

func TestThirtyDeploysInARowUnderLoadFailNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp)
	l := w.startLoad("hello", "/", 8)
	for i := range 30 {
		w.must("deploy", "hello", "--env", fmt.Sprintf("ROUND=%d", i))
		l.more(20)
	}
	seen := l.end()
	if len(seen) != 31 {
		t.Errorf("31 revisions should have answered, %d have: %v", len(seen), seen)
	}
}

func TestAReleaseThatExitsSoonAfterItsStartIsNeverPromoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp)
	l := w.startLoad("hello", "/", 2)
	r := w.run("deploy", "hello", "--ready-timeout", "8s", "--", testapp, "-exit-after", "1500ms")
	if r.code != 1 {
		t.Fatalf("exit %d, expected 1:\n%s", r.code, r.all())
	}
	for _, want := range []string{"ready", "exit status 7", "testapp gives up, as it was told", "hello-00001"} {
		if !strings.Contains(r.all(), want) {
			t.Errorf("the deploy should say %q:\n%s", want, r.all())
		}
	}
	seen := l.end()
	if len(seen) != 1 {
		t.Errorf("only hello-00001 should ever have answered: %v", seen)
	}
	s := w.status("hello")
	if s.serving() != "hello-00001" || s.Deployment.Error == "" || s.Deployment.RetryAt == "" {
		t.Errorf("traffic should stay, with the error and the time of the next try: %+v", s)
	}
}

func TestAProgramThatListensElsewhereIsToldSo(t *testing.T) {
	for name, c := range map[string]struct{ listen, say string }{
		"another port": {"127.0.0.1:9", "127.0.0.1:"},
		"::1 only":     {"[::1]:$(PORT)", "::1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.up()
			if c.listen == "127.0.0.1:9" {
				c.listen = freeAddress(t)
				c.say = c.listen
			}
			r := w.run("deploy", "hello", "--ready-timeout", "2s", "--", testapp, "-listen", c.listen)
			if r.code != 1 || !strings.Contains(r.all(), c.say) {
				t.Errorf("exit %d, expected 1 and the words %q:\n%s", r.code, c.say, r.all())
			}
		})
	}
}

func TestARequestOfFortySecondsLivesAcrossAHandover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--drain", "45s", "--", testapp)
	type answer struct {
		code int
		body string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		code, body, _, err := w.tryGet("hello", "/sleep?for=40s")
		answers <- answer{code, body, err}
	}()
	out := w.must("logs", "hello") // the instance exists
	_ = out
	eventually(t, 10*time.Second, "the request is at the instance", func() bool {
		return strings.Contains(w.must("logs", "hello").stdout, "GET /sleep")
	})
	w.must("deploy", "hello", "--env", "A=b")
	if _, body, _ := w.get("hello", "/"); !strings.HasPrefix(body, "hello-00002") {
		t.Errorf("the new revision should answer: %s", body)
	}
	a := <-answers
	if a.err != nil || a.code != 200 || !strings.HasPrefix(a.body, "hello-00001 slept") {
		t.Errorf("the old revision should have answered: %+v", a)
	}
}

func TestRebuildingTheFileMakesANewRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp)
	if r := w.must("deploy", "hello", "--", testapp); !strings.Contains(r.all(), "hello-00001") {
		t.Errorf("the same file again should meet the intent and say what serves:\n%s", r.all())
	}
	w.must("deploy", "hello", "--", testapp2)
	if _, body, _ := w.get("hello", "/"); !strings.HasPrefix(body, "hello-00002") || !strings.HasSuffix(body, " 2\n") {
		t.Errorf("the rebuilt program should answer as hello-00002: %s", body)
	}
}

func TestNoTrafficLeavesTrafficAndTheTagReachesTheRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp)
	w.must("deploy", "hello", "--no-traffic", "--tag", "next", "--env", "A=b")
	if _, body, _ := w.get("hello", "/"); !strings.HasPrefix(body, "hello-00001") {
		t.Errorf("traffic should stay: %s", body)
	}
	if _, body, _ := w.get("next---hello", "/"); !strings.HasPrefix(body, "hello-00002") {
		t.Errorf("the tag should reach the new revision: %s", body)
	}
}

func TestScaleAndRestartLoseNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up("--zones", "a,b,c")
	w.must("deploy", "hello", "--", testapp)
	l := w.startLoad("hello", "/", 4)
	w.must("scale", "hello", "3")
	s := w.status("hello")
	zones := map[string]bool{}
	before := map[string]bool{}
	for _, i := range s.Instances {
		if i.State == "live" {
			zones[i.Zone], before[i.ID] = true, true
		}
	}
	if len(zones) != 3 {
		t.Errorf("three instances should spread over three zones: %+v", s.Instances)
	}
	w.must("restart", "hello")
	live := 0
	for _, i := range w.status("hello").Instances {
		if i.State != "live" {
			continue
		}
		live++
		if before[i.ID] {
			t.Errorf("%s was not restarted", i.ID)
		}
		if i.Revision != "hello-00001" {
			t.Errorf("a restart keeps the revision: %+v", i)
		}
	}
	if live != 3 {
		t.Errorf("%d live instances after the restart, expected 3", live)
	}
	w.must("scale", "hello", "1")
	l.more(50)
	l.end()
}

func TestDeleteWithdrawsStopsAndForgetsAndTheNameCanBeUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp)
	pid := w.status("hello").Instances[0].Pid
	w.must("delete", "hello")
	if code, _, _ := w.get("hello", "/"); code != http.StatusNotFound {
		t.Errorf("answered %d after the deletion, expected 404", code)
	}
	if r := w.run("status", "hello"); r.code != 2 && r.code != 1 || !strings.Contains(r.all(), "hello") {
		t.Errorf("exit %d:\n%s", r.code, r.all())
	}
	if alive(pid) {
		t.Errorf("process %d still runs", pid)
	}
	out := w.must("deploy", "hello", "--", testapp).stdout
	for _, step := range []string{"queue", "install", "instances", "ready", "routes", "finalize"} {
		if !strings.Contains(out, step) {
			t.Errorf("step %s was not run:\n%s", step, out)
		}
	}
	if _, body, _ := w.get("hello", "/"); !strings.HasPrefix(body, "hello-00001") {
		t.Errorf("a new life begins at 00001: %s", body)
	}
}

func TestLogsFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp)
	logs := w.start("logs", "hello", "-f")
	logs.waitFor("testapp 1 starts", 5*time.Second)
	w.get("hello", "/headers")
	logs.waitFor("GET /headers", 5*time.Second)
}

func TestWhatAProgramSaidBeforeItCrashedIsStillInItsLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp, "-exit-after", "5s") // ready by then
	eventually(t, 20*time.Second, "it was started again", func() bool {
		s := w.status("hello")
		return len(s.Instances) > 0 && s.Instances[0].Restarts > 0 && s.Instances[0].State == "live"
	})
	out := w.must("logs", "hello").stdout
	for _, want := range []string{"testapp gives up, as it was told", "the process before ended with: exit status 7"} {
		if !strings.Contains(out, want) {
			t.Errorf("the logs should say %q:\n%s", want, out)
		}
	}
}

func TestTheHeadersSayWhereARequestCameFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--host-name", "shop.example.com", "--", testapp)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.gateway+"/headers", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "shop.example.com"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: shop.example.com", "X-Forwarded-Proto: http", "X-Request-Id: "} {
		if !strings.Contains(strings.ToLower(string(body)), strings.ToLower(want)) {
			t.Errorf("the instance should have seen %q:\n%s", want, body)
		}
	}
	if code, body, _ := w.get("nobody", "/"); code != 404 || !strings.Contains(body, "hello.localhost") {
		t.Errorf("a 404 names the hosts that are known: %d %s", code, body)
	}
}
