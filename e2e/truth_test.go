package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestInstancesAndExplainTellTheTruthWhileAHandKillsStallsClosesSlowsAndLies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--instances", "10", "--ready-path", "/", "--", testapp)
	truth := func(id string) standing { return w.instances("hello")[id] }
	eventually(t, time.Minute, "all ten are eligible", func() bool {
		n := 0
		for _, s := range w.instances("hello") {
			if s.Verdict == "eligible" {
				n++
			}
		}
		return n == 10
	})
	defer w.keepAsking("hello", slices.Repeat([]string{w.gateway}, 6)...)() // enough for callers to decide, also on a busy machine
	all := w.status("hello").Instances
	eventually(t, time.Minute, "what callers see of the one that is to lie is known", func() bool {
		return strings.Contains(w.must("explain", "hello/"+all[3].ID).stdout, "0% of about")
	})
	for i, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGUSR2, syscall.SIGUSR1, syscall.SIGWINCH} {
		if err := syscall.Kill(all[i].Pid, how); err != nil {
			t.Fatal(err)
		}
	}
	killed, stalled, closed, lies, slow := all[0], all[1], all[2], all[3], all[4]
	t.Cleanup(func() {
		for _, id := range []string{stalled.ID, closed.ID, lies.ID, slow.ID} {
			if t.Failed() {
				t.Log(w.run("explain", "hello/"+id).all())
			}
		}
	})

	eventually(t, time.Minute, "the killed one is gone, and another is in its place", func() bool {
		now := w.instances("hello")
		if s, listed := now[killed.ID]; listed && s.Verdict != "ineligible" {
			return false
		}
		for id, s := range now {
			if id != killed.ID && s.Slot == killed.Slot {
				return s.Verdict == "eligible"
			}
		}
		return false
	})
	if out := w.must("history", "hello", "--instance", killed.ID).stdout; !strings.Contains(out, "gone") {
		t.Errorf("the history does not say that it ended:\n%s", out)
	}
	for id, is := range map[string]struct {
		what  string
		rules []string
		says  []string
	}{
		stalled.ID: {"the stalled one", []string{"failing-probes", "says-unready", "failing-callers"}, []string{"timed out", "not ready", "failed"}},
		closed.ID:  {"the closed one", []string{"refused-to-probers", "refused-to-callers", "says-unready"}, []string{"refused", "not ready"}},
		lies.ID:    {"the lying one", []string{"failing-callers"}, []string{"reporters fare worse here"}},
		slow.ID:    {"the slow one", []string{"failing-probes", "says-unready"}, []string{"timed out", "does not answer within"}},
	} {
		eventually(t, 2*time.Minute, is.what+" is out, by what is wrong with it", func() bool {
			s := truth(id)
			return s.Verdict == "ineligible" && slices.Contains(is.rules, s.Rule)
		})
		out := w.must("explain", "hello/"+id).stdout
		if !strings.Contains(out, "ineligible") || !strings.Contains(out, "changes   by: ") || !hasPart(out, is.says) {
			t.Errorf("%s is explained as\n%s", is.what, out)
		}
	}
	for id, s := range w.instances("hello") {
		if hurt := slices.Contains([]string{killed.ID, stalled.ID, closed.ID, lies.ID, slow.ID}, id); hurt == (s.Verdict == "eligible") {
			t.Errorf("%s is %s by %s", id, s.Verdict, s.Rule)
		}
	}
	if out := w.must("instances", "hello").stdout; strings.Contains(out, "guard ") {
		t.Errorf("six of ten serve, and a guard is said to have tripped:\n%s", out)
	}
	if err := syscall.Kill(stalled.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "the one that goes on is back", func() bool { return truth(stalled.ID).Verdict != "ineligible" })
}

func hasPart(text string, parts []string) bool {
	for _, x := range parts {
		if strings.Contains(text, x) {
			return true
		}
	}
	return false
}
