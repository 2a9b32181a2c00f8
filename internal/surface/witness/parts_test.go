package witness

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
)

func TestWhatCallersOfEachZoneSawComesAcrossTheWire(t *testing.T) {
	row := &pb.MergedRow{Ok: 7, Failed: 3, Compared: 9, Expected: 4000, Reporters: 7, Hurt: 3, Refusing: 1}
	whole := eligibility.Outcomes{OK: 7, Failed: 3, Compared: 9, Expected: 4000, Reporters: 7, Hurt: 3, Refusing: 1}
	some := eligibility.Outcomes{OK: 5, Failed: 3, Compared: 8, Expected: 3000, Reporters: 3, Hurt: 3, Refusing: 1}
	for name, parts := range map[string][]evidence.Part{
		"untold":       nil,
		"one zone":     {{Caller: 1, Outcomes: whole, Failing: 1}},
		"two and none": {{Caller: 1, Outcomes: some, Failing: 1}, {Caller: 2, Outcomes: eligibility.Outcomes{OK: 1, Reporters: 4}}, {Outcomes: eligibility.Outcomes{OK: 1, Compared: 1, Expected: 1000, Reporters: 4}}},
	} {
		if d := cmp.Diff(parts, Parts(row, ToParts(parts))); d != "" {
			t.Errorf("%s (-sent +read): %s", name, d)
		}
	}
	if alone := ToParts([]evidence.Part{{Caller: 1, Outcomes: whole}}); alone[0].GetOk() != 0 || alone[0].GetReporters() != 0 {
		t.Errorf("one part alone repeats the row: %v", alone)
	}
}
