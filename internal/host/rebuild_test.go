package host

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestADamagedSlotIsRebuiltFromTheLifeOfItsNameThatBeganLast(t *testing.T) {
	process := func(id, minted string, round int32, start uint64) record {
		return record{ID: id, Start: start, Assignment: service.Assignment{
			Slot: "hello-00001.0", Service: "hello", Revision: "hello-00001", Minted: minted, Round: round,
		}}
	}
	// Each is tried often: records are looked at in any order.
	for name, c := range map[string]struct {
		records []record
		minted  string
		round   int32
	}{
		"the later life, though its round is lower": {[]record{process("a", "old", 7, 100), process("b", "new", 0, 200)}, "new", 0},
		"the later life, whatever it is called":     {[]record{process("a", "z", 0, 100), process("b", "a", 0, 200)}, "a", 0},
		"within one life the higher round":          {[]record{process("a", "new", 1, 200), process("b", "new", 2, 100)}, "new", 2},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := openFolder(filepath.Join(t.TempDir(), "host"), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer f.close()
			for range 32 {
				h := &Host{log: slog.New(slog.DiscardHandler), folder: f, slots: map[string]*slot{}, damagedSlots: map[string]bool{"hello-00001.0": true}}
				records := map[string]record{}
				for _, r := range c.records {
					records[r.ID] = r
				}
				h.rebuildSlotsLocked(records, nil)
				if s := h.slots["hello-00001.0"]; s == nil || s.rec.Assignment.Minted != c.minted || s.rec.Assignment.Round != c.round {
					t.Fatalf("rebuilt as %+v", s)
				}
			}
		})
	}
}
