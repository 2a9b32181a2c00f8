package evidence

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// FuzzLooks feeds what a prober may claim, whatever it is, and checks that what
// is sealed of it stays within what one prober may say of its own targets.
func FuzzLooks(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"), uint32(1))
	f.Add([]byte("0123456789abcdef0123456789abcdef"), uint32(3))
	f.Fuzz(func(t *testing.T, text []byte, prober uint32) {
		in := fleet(3) // looked at by probers 1 and 2
		var looks []Look
		for ; len(text) >= 10; text = text[10:] {
			looks = append(looks, Look{
				Instance: uint32(text[0]) % 5, Result: eligibility.Result(text[1]), Age: time.Duration(binary.LittleEndian.Uint64(text[2:])),
			})
		}
		in.Probes(prober, looks)
		told := 0
		for range 2 * cleanRun {
			for _, row := range in.Seal().Rows {
				counted := 0
				for _, p := range row.Probes {
					counted += int(p.Count)
					if p.Prober != prober || p.Result > eligibility.Refused {
						t.Fatalf("sealed is %+v", p)
					}
				}
				if counted > looksCap || prober != 1 && prober != 2 {
					t.Fatalf("of prober %d are sealed %d looks at %d in one second", prober, counted, row.Instance)
				}
				told += counted
			}
		}
		discarded := 0
		for _, n := range in.Discarded() {
			discarded += int(n)
		}
		if told+discarded != len(looks) {
			t.Fatalf("of %d looks %d are sealed and %d discarded", len(looks), told, discarded)
		}
	})
}

func TestABatchOfLooksThatIsTooLargeIsRefusedWhole(t *testing.T) {
	in := fleet(1)
	looks := make([]Look, MaxRows+1)
	for i := range looks {
		looks[i].Instance = 1
	}
	in.Probes(1, looks)
	if n := in.Discarded()[TooLarge]; n != MaxRows+1 {
		t.Errorf("%d are discarded", n)
	}
	for range cleanRun {
		if e, any := in.Seal().row(1); any {
			t.Errorf("sealed is %+v", e)
		}
	}
}
