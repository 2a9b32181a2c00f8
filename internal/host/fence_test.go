package host

import (
	"errors"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/view"
)

func TestALeaderThatSleptIsNotObeyed(t *testing.T) {
	at := func(inc string, n uint64, nonce string) view.Epoch {
		return view.Epoch{Incarnation: inc, Number: n, Nonce: nonce}
	}
	var f Fence
	for i, c := range []struct {
		e       view.Epoch
		refused error
		foreign bool
	}{
		{view.Epoch{}, fault.Invalid, false},
		{at("a", 3, "x"), nil, false},
		{at("a", 3, "x"), nil, false},
		{at("a", 2, "w"), fault.Superseded, false},
		{at("a", 3, "y"), fault.Conflict, false},
		{at("a", 5, "z"), nil, false},
		{at("b", 1, "q"), nil, true},
		{at("a", 4, "s"), fault.Superseded, false}, // a sleeper of the earlier incarnation
		{at("a", 5, "t"), fault.Conflict, false},
		{at("b", 2, "r"), nil, false},
		{at("a", 6, "u"), nil, true}, // the earlier store was put back and leads
		{at("b", 1, "q"), fault.Superseded, false},
	} {
		v, err := f.Judge(c.e)
		if !errors.Is(err, c.refused) || (err == nil) != (c.refused == nil) {
			t.Fatalf("step %d, %v: %v, want %v", i, c.e, err, c.refused)
		}
		if err != nil {
			continue
		}
		if v.Foreign != c.foreign || v.Changed != (c.e != f.Kept) || v.Fence.Kept != c.e {
			t.Fatalf("step %d, %v: %+v", i, c.e, v)
		}
		f = v.Fence
	}
}
