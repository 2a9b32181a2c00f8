package dir

import (
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/bucket"
)

func FuzzAPlaceIsWithinTheFolderAndOneNamesAlone(f *testing.F) {
	f.Add("a/b", "a")
	f.Add("+a/=b", "=a")
	f.Add("../a", "a/../b")
	f.Fuzz(func(t *testing.T, one, two string) {
		if bucket.CheckName(one) != nil || bucket.CheckName(two) != nil {
			return
		}
		p, q := place(one), place(two)
		if (p == q) != (one == two) {
			t.Fatalf("%q and %q lie at %q and %q", one, two, p, q)
		}
		if strings.HasPrefix(q, p+"/") {
			t.Fatalf("the file %q of %q would be a folder of %q", p, one, two)
		}
		if got, ok := name(p); !ok || got != one {
			t.Fatalf("%q lies at %q, which names %q, %t", one, p, got, ok)
		}
		for part := range strings.SplitSeq(p, "/") {
			if part == "" || part == "." || part == ".." {
				t.Fatalf("%q lies at %q", one, p)
			}
		}
	})
}
