package evaluate

import (
	"testing"

	"pgregory.net/rapid"
)

func TestAnInstanceIsFoundByItsHandleAndPagesWithoutOneAreDropped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b byHandle
		want := map[uint32]*instance{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h := rapid.SampledFrom([]uint32{0, 1, 1023, 1024, 5000, 100_000}).Draw(t, "handle")
			if rapid.Bool().Draw(t, "leaves") {
				delete(want, h)
				b.set(h, nil)
			} else {
				want[h] = &instance{}
				b.set(h, want[h])
			}
			for _, h := range []uint32{0, 1, 1023, 1024, 5000, 100_000, 1 << 30} {
				if b.get(h) != want[h] {
					t.Fatalf("handle %d", h)
				}
			}
			if b.n != len(want) {
				t.Fatalf("%d of %d", b.n, len(want))
			}
		}
		for h := range want {
			b.set(h, nil)
		}
		for i, p := range b.pages {
			if p != nil {
				t.Fatalf("page %d is kept for nobody", i)
			}
		}
	})
}
