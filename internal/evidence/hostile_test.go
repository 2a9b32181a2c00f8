package evidence

import (
	"encoding/binary"
	"testing"
)

// FuzzReports feeds what a reporter may claim, whatever it is, and checks that
// what is sealed of it stays within what one reporter may say.
func FuzzReports(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, text []byte) {
		in, r := fleet(3), NewReporter("r")
		b := Batch{Number: 1}
		for ; len(text) >= 13; text = text[13:] {
			b.Rows = append(b.Rows, Row{
				Instance: uint32(text[0]) % 5, OK: binary.LittleEndian.Uint32(text[1:]),
				Failed: binary.LittleEndian.Uint32(text[5:]), Refused: binary.LittleEndian.Uint32(text[9:]),
			})
		}
		in.Outcomes(r, b)
		for _, row := range in.Seal().Rows {
			for _, o := range row.Outcomes {
				if o.OK+o.Failed > Cap*uint32(len(b.Rows)) || o.Compared > o.OK+o.Failed || o.Expected > 1000*uint64(o.Compared) || o.Reporters.Count() != 1 {
					t.Fatalf("sealed of instance %d: %+v", row.Instance, o)
				}
			}
		}
	})
}
