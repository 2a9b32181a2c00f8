package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	t    *testing.T
	path string
	mu   sync.Mutex
	next int
	all  []crashpoints.Rule
}

// newFaultyPlant is a plant whose controller can be given faults.
func newFaultyPlant(t *testing.T) (*plant, *faults) {
	t.Helper()
	binary, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{t: t, path: filepath.Join(t.TempDir(), "faults")}
	return newPlant(t, plantOptions{controlBinary: binary, controlEnv: []string{"FAIRLEAD_CRASHPOINTS=" + f.path}}), f
}

// rule is one that was set.
type rule struct {
	faults *faults
	id     string
}

// at has the fault happen at the first call whose name contains all parts.
func (f *faults) at(fault crashpoints.Fault, call ...string) rule {
	return f.set(crashpoints.Rule{Fault: fault, Call: call})
}

// always has it happen at each such call, until it is lifted.
func (f *faults) always(fault crashpoints.Fault, call ...string) rule {
	return f.set(crashpoints.Rule{Fault: fault, Call: call, Always: true})
}

// late has the first such call be late.
func (f *faults) late(by time.Duration, call ...string) rule {
	return f.set(crashpoints.Rule{Fault: crashpoints.Late, Delay: by, Call: call})
}

func (f *faults) set(r crashpoints.Rule) rule {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	r.ID = fmt.Sprintf("rule-%d", f.next)
	f.all = append(f.all, r)
	f.write()
	return rule{f, r.ID}
}

func (f *faults) write() {
	f.t.Helper()
	text, err := json.Marshal(f.all)
	if err == nil {
		err = os.WriteFile(f.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// lift ends the rule.
func (r rule) lift() {
	r.faults.t.Helper()
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	for i := range r.faults.all {
		if r.faults.all[i].ID == r.id {
			r.faults.all = append(r.faults.all[:i:i], r.faults.all[i+1:]...)
			break
		}
	}
	r.faults.write()
}

// hits is how often it has happened.
func (r rule) hits() int {
	text, err := os.ReadFile(r.faults.path + ".hit")
	if err != nil {
		return 0
	}
	return strings.Count("\n"+string(text), "\n"+r.id+" ")
}

// hit waits until it has happened.
func (r rule) hit(within time.Duration) {
	r.faults.t.Helper()
	eventually(r.faults.t, within, r.id+" happened", func() bool { return r.hits() > 0 })
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
