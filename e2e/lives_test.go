package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The names of revisions and slots begin anew when a service is made again, and
// a control that was started meanwhile knows nothing of what a killed host left running.
func TestAServiceMadeAgainIsNeverAnsweredByItsEarlierLifesProcesses(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startHost("--name", "h2", "--data", filepath.Join(f.data, "h2"), "--token", f.token("host"))
	eventually(t, 20*time.Second, "both hosts are heard", func() bool { return strings.Count(f.run("hosts").stdout, " yes ") == 2 })
	f.must("deploy", "hello", "--instances", "2", "--", testapp)
	away := 0 // the pid of the process on the host that is to be away
	for _, i := range f.status("hello").Instances {
		if i.Host == "h1" {
			away = i.Pid
		}
	}
	if away == 0 {
		t.Fatal("h1 runs no instance")
	}

	f.host.kill()
	f.must("delete", "hello", "--no-wait") // it waits for the end of the host's lease
	eventually(t, 2*time.Minute, "the service is forgotten", func() bool {
		r := f.run("status", "hello")
		return r.code != 0 && strings.Contains(r.all(), "no service")
	})
	f.control.kill()
	f.control = f.startControl()
	eventually(t, 20*time.Second, "the other host is back", func() bool { return strings.Contains(f.run("hosts").stdout, "h2") })
	f.must("deploy", "hello", "--instances", "2", "--", testapp2)
	s := f.status("hello")
	if s.serving() != "hello-00001" || !alive(away) {
		t.Fatalf("%s serves, the earlier life runs: %v; the test needs the same name twice", s.serving(), alive(away))
	}
	asked := 0
	ask := func() {
		t.Helper()
		if code, body, _ := f.get("hello", "/"); code != 200 || !strings.HasSuffix(body, " 2\n") {
			t.Fatalf("request %d was answered %d %q", asked, code, body)
		}
		asked++
	}
	for range 200 { // the host is silent; the gateway has its credits and its process listens
		ask()
	}
	f.startHost() // it adopts the process, and shows it under its name
	eventually(t, 3*time.Minute, fmt.Sprintf("process %d of the earlier life has ended", away), func() bool {
		ask()
		return !alive(away)
	})
	for range 100 {
		ask()
	}
}
