package e2e

import (
	"encoding/json"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// standing is one line of `fairlead instances`.
type standing struct{ ID, Verdict, Rule, Slot string }

func (w *world) instances(service string) map[string]standing {
	w.t.Helper()
	var all struct{ Instances []standing }
	out := w.must("instances", service, "-o", "json").stdout
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		w.t.Fatalf("cannot read instances: %v\n%s", err, out)
	}
	by := map[string]standing{} // :: instance → standing
	for _, s := range all.Instances {
		by[s.ID] = s
	}
	return by
}

func TestAnInstanceThatFailsAThirdOfItsRequestsIsToldFromItsSiblingsAndWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--instances", "3", "--", testapp)
	over := make(chan struct{})
	var callers sync.WaitGroup
	defer callers.Wait()
	defer close(over)
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(10 * time.Millisecond):
					if _, _, _, err := w.tryGet("hello", "/"); err != nil && t.Context().Err() == nil {
						t.Errorf("a request was not answered: %v", err)
					}
				}
			}
		})
	}
	ill := w.status("hello").Instances[0]
	eventually(t, time.Minute, "outcomes of all three are known", func() bool {
		return strings.Contains(w.must("explain", "hello/"+ill.ID).stdout, "0% of about")
	})
	if err := syscall.Kill(ill.Pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "the ill instance is out by its callers", func() bool {
		s := w.instances("hello")[ill.ID]
		return s.Verdict == "ineligible" && s.Rule == "failing-callers"
	})
	for id, s := range w.instances("hello") {
		if id != ill.ID && s.Verdict != "eligible" {
			t.Errorf("a healthy sibling is %+v", s)
		}
	}
	why := w.must("explain", "hello/"+ill.ID).stdout
	for _, want := range []string{"ineligible", "failing-callers", "are expected by its siblings", "of 1 reporters fare worse here", "changes   by"} {
		if !strings.Contains(why, want) {
			t.Errorf("the explanation does not say %q:\n%s", want, why)
		}
	}
	history := w.must("history", "hello", "--instance", ill.ID).stdout
	degraded, out := strings.Index(history, "failing-some"), strings.Index(history, "failing-callers")
	if degraded < 0 || out < degraded {
		t.Errorf("it was not degraded before it was out:\n%s", history)
	}
	if s := w.status("hello").Instances[0]; s.Eligibility != "ineligible" || s.State != "live" {
		t.Errorf("status shows %+v", s)
	}
}
