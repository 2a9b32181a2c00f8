package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
)

// faulty builds, once, the binary whose controller has faults as a file asks for.
var faulty = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(fairlead), "fairlead-faulty")
	if out, err := exec.Command("go", "build", "-tags", "crashpoints", "-o", path, "../cmd/fairlead").CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the binary with crash points: %w\n%s", err, out)
	}
	return path, nil
})

// faults of a plant's controller.
type faults struct {
	path string
	mu   sync.Mutex
	next int
	all  []crashpoints.Rule
}

// newFaultyPlant is a plant whose controller can be given faults.
func newFaultyPlant(t *testing.T, controlArgs ...string) (*plant, *faults) {
	t.Helper()
	binary, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{path: filepath.Join(t.TempDir(), "faults")}
	return newPlant(t, plantOptions{controlBinary: binary, controlArgs: controlArgs, controlEnv: []string{"FAIRLEAD_CRASHPOINTS=" + f.path}}), f
}

// rule is one that was set.
type rule struct {
	t      *testing.T
	faults *faults
	crashpoints.Rule
}

// at has the fault happen at the first call whose name contains all parts.
func (f *faults) at(t *testing.T, fault crashpoints.Fault, call ...string) rule {
	t.Helper()
	return f.set(t, crashpoints.Rule{Fault: fault, Call: call})
}

// always has it happen at each such call, until it is lifted.
func (f *faults) always(t *testing.T, fault crashpoints.Fault, call ...string) rule {
	t.Helper()
	return f.set(t, crashpoints.Rule{Fault: fault, Call: call, Always: true})
}

// late has the first such call be late.
func (f *faults) late(t *testing.T, by time.Duration, call ...string) rule {
	t.Helper()
	return f.set(t, crashpoints.Rule{Fault: crashpoints.Late, Delay: by, Call: call})
}

func (f *faults) set(t *testing.T, r crashpoints.Rule) rule {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	r.ID = fmt.Sprintf("rule-%d", f.next)
	f.all = append(f.all, r)
	f.write(t)
	return rule{t, f, r}
}

func (f *faults) write(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(f.all)
	if err == nil {
		err = os.WriteFile(f.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lift ends the rule.
func (r rule) lift() {
	r.t.Helper()
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	r.faults.all = slices.DeleteFunc(r.faults.all, func(x crashpoints.Rule) bool { return x.ID == r.ID })
	r.faults.write(r.t)
}

// hits is how often it has happened.
func (r rule) hits() int {
	text, err := os.ReadFile(r.faults.path + ".hit")
	if err != nil {
		return 0
	}
	return strings.Count("\n"+string(text), "\n"+r.ID+" ")
}

// hit waits until it has happened so often.
func (r rule) hit(times int, within time.Duration) {
	r.t.Helper()
	eventually(r.t, within, fmt.Sprintf("%s at %v", r.Fault, r.Call), func() bool { return r.hits() >= times })
}

func TestANormalBinaryHoldsNoCrashPoints(t *testing.T) {
	t.Parallel()
	with, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	for binary, expected := range map[string]bool{fairlead: false, with: true} {
		symbols, err := exec.Command("go", "tool", "nm", binary).Output()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(symbols, []byte("control/crashpoints.")); got != expected {
			t.Errorf("%s holds the package: %v", filepath.Base(binary), got)
		}
		if got := bytes.Contains(text, []byte("FAIRLEAD_"+"CRASHPOINTS")); got != expected {
			t.Errorf("%s holds the name of the variable: %v", filepath.Base(binary), got)
		}
	}
	for _, tags := range []string{"", "crashpoints"} {
		deps, err := exec.Command("go", "list", "-tags", tags, "-deps", "../cmd/fairlead").Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(deps, []byte("internal/control/crashpoints\n")); got != (tags != "") {
			t.Errorf("the build with tags %q depends on the package: %v", tags, got)
		}
	}
}
