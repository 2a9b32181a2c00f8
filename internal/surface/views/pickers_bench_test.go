package views

import (
	"fmt"
	"testing"

	"github.com/fairlead-platform/fairlead/view"
)

// BenchmarkMayPick is one look at who may still pick an instance, of so many
// subscribers of its service, all behind or none: the server's lock is held.
func BenchmarkMayPick(b *testing.B) {
	for _, behind := range []bool{false, true} {
		b.Run(fmt.Sprintf("behind=%v", behind), func(b *testing.B) {
			e := view.Epoch{Incarnation: "i", Number: 1}
			at := func(counter uint64) view.Version { return view.Version{Incarnation: "i", Epoch: 1, Counter: counter} }
			s := New(Config{})
			s.Begin(e)
			one := &view.Service{Name: "a", Epoch: e, Version: at(1), Endpoints: []view.Endpoint{{ID: "i", Weight: 1000, Verdict: view.Eligible}}}
			s.Publish(one, view.Adds)
			s.Publish(&view.Service{Name: "a", Epoch: e, Version: at(2)}, view.Removes)
			t := s.topics["a"]
			for i := range 60_000 {
				h := &holding{sub: &subscriber{s: s, role: "service", name: fmt.Sprint(i)}, topic: t, applied: at(2)}
				if behind {
					h.applied = at(1)
				}
				t.holders.add(h)
			}
			b.ReportAllocs()
			for b.Loop() {
				if p := s.MayPick("a", []string{"i"}); p.Nobody() == behind {
					b.Fatalf("%+v", p)
				}
			}
		})
	}
}
