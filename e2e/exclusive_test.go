package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// executedBy are the revisions in the order in which they executed requests,
// each as often as another came between.
func (p *plant) executedBy(service string) (turns []string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.ledger(service), "executed"))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(turns) == 0 || turns[len(turns)-1] != f[1] {
			turns = append(turns, f[1])
		}
	}
	return turns
}

func TestUnderAnExclusiveHandoverOldAndNewNeverRunAtOnceAndRequestsWait(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	lock := filepath.Join(p.data, "alone")
	release := func(value string, args ...string) []string { // each takes the lock, or fails
		return append(append(p.deployArgs("solo", "--handover", "exclusive", "--ready-timeout", "6s", "--env", "RELEASE="+value), "-alone", lock), args...)
	}
	p.must(release("1")...)
	p.deploy("shared", "--request-group", "all")
	solo, shared := p.call("solo", 4, "solo-00001"), p.call("shared", 4, "shared-00001")
	solo.more(100)

	solo.expect("solo-00001", "solo-00002")
	d := p.start(release("2")...)
	waits := regexp.MustCompile(`requests are held since [0-9:]+, and [1-9][0-9]* waits? \(.*\n  they wait for `)
	eventually(t, 20*time.Second, "explain says how many requests wait, and for what", func() bool { return waits.MatchString(p.must("explain", "solo").stdout) })
	if err := d.wait(again); err != nil {
		t.Errorf("the deploy ended with %v:\n%s", err, d.out)
	}
	p.agree("solo", "solo-00002", 10*time.Second)
	solo.expect("solo-00002")
	solo.more(100)

	// One that does not become ready: what it had to give way to is started again.
	r := p.run(release("3", "-exit-after", "1500ms")...)
	if r.code != 1 || !strings.Contains(r.all(), "solo-00002") {
		t.Errorf("exit %d, expected 1 and to be told what serves:\n%s", r.code, r.all())
	}
	p.must("abort", "solo")
	p.agree("solo", "solo-00002", 20*time.Second)
	solo.more(100)

	shared.expect("shared-00001", "shared-00002")
	p.deploy("shared", "--env", "A=b")
	p.agree("shared", "shared-00002", 10*time.Second)
	shared.expect("shared-00002")
	shared.more(100)
	if r := p.run("traffic", "shared", "shared-00001=50", "shared-00002=50"); r.code == 0 || !strings.Contains(r.all(), "group") {
		t.Errorf("exit %d, expected the refusal of a split on one group:\n%s", r.code, r.all())
	}
	shared.end()
	solo.end()
	if met, err := os.ReadFile(lock + ".met"); err == nil {
		t.Errorf("%s", met)
	}
	if turns := strings.Join(p.executedBy("solo"), " "); turns != "solo-00001 solo-00002" {
		t.Errorf("requests were executed by %s: not one after the other", turns)
	}
}
