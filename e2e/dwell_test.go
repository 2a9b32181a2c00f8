package e2e

import (
	"strings"
	"testing"
)

func TestAnInstanceIsReadyAfterTheDwellThatIsSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up("--ready-dwell", "250ms")
	if out := w.must("deploy", "hello", "--", testapp).stdout; !strings.Contains(out, "live for 250ms") {
		t.Errorf("the step should say for how long the instance was live:\n%s", out)
	}
	if r := w.run("control", "--ready-dwell", "0s"); r.code != 2 || !strings.Contains(r.all(), "longer than nothing") {
		t.Errorf("no dwell at all: exit %d, expected 2\n%s", r.code, r.all())
	}
}
