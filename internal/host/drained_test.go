package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestAtMostFiveDrainedRevisionsLiveOnForWhatIsOpen(t *testing.T) {
	g := startGateway(t, "one")
	r := start(t)
	r.know(t, g)
	running := func() map[string]string { // :: revision → instance
		out := map[string]string{}
		for _, in := range r.Reports() {
			out[in.GetRevision()] = in.GetId()
		}
		return out
	}
	name := func(n int) string { return fmt.Sprintf("hello-%05d", n) }
	for n := 1; n <= 7; n++ { // each with an open upgrade, and withdrawn when the next has come
		a := assignment(tenAtOnce())
		a.Slot, a.Revision, a.Group = name(n)+".0", name(n), name(n)
		if err := r.Assign(a); err != nil {
			t.Fatal(err)
		}
		until(t, a.Revision+" has credits", func() bool { id := running()[a.Revision]; return id != "" && g.owns(id) == 10 })
		g.mu.Lock()
		g.busy[running()[a.Revision]] = 1
		g.mu.Unlock()
		if n == 7 {
			break
		}
		if err := r.Stop(service.Stop{Slot: a.Slot, Drain: time.Hour}); err != nil {
			t.Fatal(err)
		}
		until(t, a.Revision+" drains", func() bool { return r.Held(running()[a.Revision]) == 1 || n == 6 })
	}
	until(t, "the oldest has ended", func() bool { return running()[name(1)] == "" })
	for n := 2; n <= 7; n++ {
		if running()[name(n)] == "" {
			t.Errorf("%s ended as well", name(n))
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := 2; n <= 7; n++ { // nothing is open any more
		id := running()[name(n)]
		g.busy[id] = 0
		if n == 7 {
			break // it serves
		}
		if err := g.returnLocked(id, 1); err != nil {
			t.Error(err)
		}
	}
}
