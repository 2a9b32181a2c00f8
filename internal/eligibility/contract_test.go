package eligibility

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestADangerousContractIsRefusedWithTheReason(t *testing.T) {
	if err := Default().Check(); err != nil {
		t.Fatalf("the default contract: %v", err)
	}
	no := false
	for _, x := range []struct {
		name string
		edit func(c *Contract)
		says string
	}{
		{"a shared dependency may not make unready", func(c *Contract) { c.Dependencies = []Dependency{{Name: "db", Authority: Unready}} }, "it is shared"},
		{"an unknown authority", func(c *Contract) { c.Dependencies = []Dependency{{Name: "db", Authority: "all"}} }, "informational, weight or unready"},
		{"one dependency twice", func(c *Contract) { c.Dependencies = []Dependency{{Name: "db"}, {Name: "db"}} }, "named twice"},
		{"dependencies without a self-report", func(c *Contract) { c.Profile.Self = false; c.Dependencies = []Dependency{{Name: "db"}} }, "add self"},
		{"no signal", func(c *Contract) { c.Profile = Profile{} }, "no signal"},
		{"a half-life that damps too long", func(c *Contract) { c.HalfLife = 20 }, "damped"},
		{"a probe interval beyond the budget", func(c *Contract) { c.ProbeInterval = 30 }, "probeInterval"},
		{"in at the height of out", func(c *Contract) { c.In = 500 }, "come and go"},
		{"a ramp that is too short", func(c *Contract) { c.Ramp = 5 }, "ramp"},
		{"silence sooner than a clean run is told", func(c *Contract) { c.SilentAfter = 15 }, "silentAfter"},
		{"a return at once", func(c *Contract) { c.ReturnAfter = 1 }, "returnAfter"},
		{"a handful of results", func(c *Contract) { c.Sufficient = 1 }, "chance"},
		{"a look of no kind", func(c *Contract) { c.Look = &ProbeCheck{Kind: "ping"} }, "tcp, http or grpc"},
		{"a path of a mere connection", func(c *Contract) { c.Look = &ProbeCheck{Kind: "tcp", Path: "/"} }, "has no path"},
		{"a path that no request can name", func(c *Contract) { c.Look = &ProbeCheck{Kind: "http", Path: "/no slash\n"} }, "every look would fail"},
		{"a path with a broken escape", func(c *Contract) { c.Look = &ProbeCheck{Kind: "http", Path: "/%zz"} }, "every look would fail"},
		{"a look without probes", func(c *Contract) { c.Profile.Probe = false; c.Look = &ProbeCheck{Kind: "http"} }, "the profile has no probes"},
		{"no comparison with siblings", func(c *Contract) { c.Worse = 0 }, "worse"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := Default()
			x.edit(&c)
			if err := c.Check(); err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("got %v, want it to say %q", err, x.says)
			}
		})
	}
	for _, path := range []string{"", "/", "healthz", "/a%20b?deep=1"} {
		look := Default()
		look.Look = &ProbeCheck{Kind: "http", Path: path}
		if err := look.Check(); err != nil {
			t.Errorf("a look at %q: %v", path, err)
		}
	}
	own := Default()
	own.Dependencies = []Dependency{{Name: "cache", Authority: Unready, Shared: &no}}
	if err := own.Check(); err != nil {
		t.Errorf("a dependency of its own may make an instance unready: %v", err)
	}
}

func TestSharesAreWrittenAsNumbersBetweenNoughtAndOne(t *testing.T) {
	text, err := json.Marshal(Default())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"outByOutcomes":0.24`) {
		t.Errorf("got %s", text)
	}
	var back Contract
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.OutByOutcomes != 240 || back.Check() != nil {
		t.Errorf("read back: %+v", back)
	}
	for _, bad := range []string{"1.5", "-0.1", "NaN", `"a"`} {
		var p Permille
		if p.UnmarshalJSON([]byte(bad)) == nil {
			t.Errorf("%s was taken for a share", bad)
		}
	}
}

func TestAProberIsSuspectWhereMostOfItsTargetsFailAtOnce(t *testing.T) {
	w := NewWatch(5)
	for i := range uint32(10) {
		w.See(i, Good, 1)
	}
	for i := range uint32(5) {
		w.See(i, Refused, 3)
	}
	if w.Suspect(3) {
		t.Error("half is not over half")
	}
	w.See(5, TimedOut, 4)
	if !w.Suspect(4) {
		t.Error("six of ten fail within one interval")
	}
	for i := range uint32(10) {
		w.See(i, Good, 8)
	}
	if w.Suspect(8) {
		t.Error("all look well again")
	}
	few := NewWatch(5)
	for i := range uint32(4) {
		few.See(i, Refused, 1)
	}
	if few.Suspect(1) {
		t.Error("four targets are too few to doubt a prober by")
	}
	for i := range uint32(5) {
		few.See(i, Refused, 20)
	}
	if !few.Suspect(20) {
		t.Error("five of five")
	}
	if few.Suspect(26) {
		t.Error("what it saw longer ago than an interval does not count")
	}
}

// TestTheReferenceSaysWhatTheCodeDoes compares docs/reference/health-contract.md
// with the default contract, its damping table and the rules.
func TestTheReferenceSaysWhatTheCodeDoes(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/health-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), Default().DampingTable()) {
		t.Errorf("the damping table is not\n%s", Default().DampingTable())
	}
	c := Default()
	for field, value := range map[string]any{
		"probeInterval": c.ProbeInterval, "halfLife": c.HalfLife, "outByProbes": c.OutByProbes, "outByOutcomes": c.OutByOutcomes, "degradeAt": c.DegradeAt, "in": c.In,
		"worse": c.Worse, "returnAfter": c.ReturnAfter, "sufficient": c.Sufficient, "silentAfter": c.SilentAfter, "silenceFails": c.SilenceFails, "ramp": c.Ramp,
	} {
		shown, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if row := fmt.Sprintf("| `%s` | %s |", field, shown); !strings.Contains(string(text), row) {
			t.Errorf("there is no row that begins with %q", row)
		}
	}
	for r := range Rule(len(rules)) {
		if row := fmt.Sprintf("| `%s` |", r); !strings.Contains(string(text), row) || !strings.Contains(string(text), r.Says()) {
			t.Errorf("the rule %s is missing, or said otherwise: %s", r, r.Says())
		}
	}
}
