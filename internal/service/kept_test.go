package service

import (
	"testing"

	"github.com/fairlead-platform/fairlead/internal/saga"
)

func TestWhatIsAskedForTodayIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		wanted bool
		deploy saga.State // of the revision; empty: its record is gone
		kept   bool
	}{
		"asked for today":              {true, "", true},
		"asked for today, superseded":  {true, saga.Superseded, false},
		"asked for before":             {false, "", false},
		"asked for before, superseded": {false, saga.Superseded, false},
	} {
		s := steady()
		if c.wanted {
			wantTwo(s)
		}
		second(s, RevisionFailed, c.deploy)
		if why := s.KeptBy(s.Revisions[1].Value); (why != "") != c.kept {
			t.Errorf("%s: it is kept: %q", name, why)
		}
	}
}
