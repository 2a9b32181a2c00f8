package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ask once, and give up after patience.
func (w *world) askFor(service string, patience time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.gateway+"/", nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	req.Host = service + ".localhost"
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

func TestAnInstanceThatHangsIsOutThoughProbesPassAndItsCallersAreTooImpatientForAnyDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--instances", "3", "--", testapp)
	over := make(chan struct{})
	var callers sync.WaitGroup
	defer callers.Wait()
	defer close(over)
	for range 12 {
		callers.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(10 * time.Millisecond):
					w.askFor("hello", time.Second)
				}
			}
		})
	}
	stuck := w.status("hello").Instances[0]
	eventually(t, time.Minute, "outcomes of it are known", func() bool {
		return strings.Contains(w.must("explain", "hello/"+stuck.ID).stdout, "0% of about")
	})
	if err := syscall.Kill(stuck.Pid, syscall.SIGVTALRM); err != nil {
		t.Fatal(err)
	}
	said := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(said)
		}
	})
	eventually(t, 2*time.Minute, "it is out by its callers", func() bool {
		said = w.must("explain", "hello/"+stuck.ID).stdout
		s := w.instances("hello")[stuck.ID]
		return s.Verdict == "ineligible" && s.Rule == "failing-callers"
	})
	if said = w.must("explain", "hello/"+stuck.ID).stdout; !strings.Contains(said, "it gave no answer to") {
		t.Error("what its callers saw is not said")
	}
	for id, s := range w.instances("hello") {
		if id != stuck.ID && s.Verdict != "eligible" {
			t.Errorf("a sibling is %+v", s)
		}
	}
}
