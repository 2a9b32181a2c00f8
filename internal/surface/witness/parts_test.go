package witness

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
)

func TestWhatCallersOfEachZoneSawComesAcrossTheWire(t *testing.T) {
	some := eligibility.Outcomes{OK: 5, Failed: 3, Compared: 8, Expected: 3000, Reporters: 3, Hurt: 3, Refusing: 1}
	for name, apart := range map[string]evidence.Apart{
		"nothing is told apart": {},
		"two zones and others": {
			Zones:     []evidence.Part{{Caller: 1, Outcomes: some}, {Outcomes: eligibility.Outcomes{Failed: 1, Reporters: 4}}},
			Revisions: []evidence.Part{{Caller: 2, Outcomes: some}}, Well: eligibility.Outcomes{OK: 1, Compared: 1, Expected: 1000, Reporters: 4},
		},
	} {
		row := &pb.MergedRow{}
		if ToApart(row, apart); name == "nothing is told apart" && row.GetWell() != nil {
			t.Errorf("it costs %v", row)
		}
		if d := cmp.Diff(apart, Apart(row)); d != "" {
			t.Errorf("%s (-sent +read): %s", name, d)
		}
	}
	groups := []evidence.Group{{Service: "s", Revision: true, Caller: 3, Results: 9, Failed: 2, Reporters: 7, Failing: 1}, {Service: "s"}}
	if d := cmp.Diff(groups, Groups(ToGroups(groups))); d != "" {
		t.Errorf("groups (-sent +read): %s", d)
	}
}
