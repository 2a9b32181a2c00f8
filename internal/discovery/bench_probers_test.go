package discovery

import (
	"context"
	"fmt"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
)

// BenchmarkProbers measures what the estate's probers cost the leader: 60,000
// instances in three zones, 90 probers.
func BenchmarkProbers(b *testing.B) {
	st := memory.Open(memory.Options{})
	defer st.Close()
	p := New(Config{Store: st, Bucket: &blobs{held: map[string][]byte{}}, Hosts: &hosts{changed: make(chan struct{})}})
	t := p.begin(context.Background(), &lead{store: st, number: 1})
	for i := range 90 {
		t.probing.members[fmt.Sprint("p", i)] = &proberMember{ProberRecord: ProberRecord{Name: fmt.Sprint("p", i), Zone: string(rune('a' + i%3))}}
	}
	t.probing.count()
	t.probing.change()
	for i := range 60_000 {
		x := registry.Instance{ID: fmt.Sprintf("01M8N67BYMY78NVWWS0%06d", i), Service: fmt.Sprint("s", i%450), Zone: string(rune('a' + i%3)), Address: "127.0.0.1:1", Listening: true}
		x, _ = t.reg.Put(x)
		t.enter(x)
	}
	b.Run("computing an assignment", func(b *testing.B) {
		for b.Loop() {
			t.probing.stale = true
			t.plan().compute()
		}
	})
	b.Run("putting it in force where nothing moved", func(b *testing.B) {
		t.probing.stale = true
		plan := t.plan()
		plan.compute()
		t.install(plan)
		t.probing.stale = true
		plan = t.plan()
		plan.compute()
		for b.Loop() {
			t.install(plan)
		}
	})
	b.Run("each second", func(b *testing.B) {
		now := t.eval.Now()
		for _, x := range t.probing.targets { // it is long since they began
			x.since -= quickFor
		}
		for b.Loop() {
			now++
			t.attendance()
			t.suspicion()
			t.expire(now)
			t.paces(now)
		}
	})
}
