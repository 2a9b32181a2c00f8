package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

// gaps notes how long a caller was without a stream at most.
type gaps struct {
	c     *caller
	since time.Time
	worst time.Duration
}

func (g *gaps) look(now time.Time) {
	switch {
	case g.c.Connected():
		g.since = time.Time{}
	case g.since.IsZero():
		g.since = now
	default:
		g.worst = max(g.worst, now.Sub(g.since))
	}
}

func TestEveryRelayIsReplacedInTurnUnderChurnAndNobodyIsWithoutAStreamForLong(t *testing.T) {
	c := controlling(t, "", first)
	var counter atomic.Uint64
	publish := func(endpoints int, n view.Nature) view.Version {
		v := published(first, "a", counter.Add(1), endpoints)
		c.Publish(v, n)
		return v.Version
	}
	publish(30, view.Adds)
	var all []*running
	for range 3 {
		all = append(all, relaying(t, t.TempDir(), c.address))
	}
	until(t, "control knows the relays", func() bool { return len(c.Doors().Relays) == len(all) })
	var callers []*gaps
	for i := range 12 {
		x := calling(t, fmt.Sprint("c", i), t.TempDir(), resolver.RelaysFirst, c.address)
		x.Want([]string{"a"})
		callers = append(callers, &gaps{c: x})
	}
	until(t, "all callers are at relays", func() bool {
		n := 0
		for _, r := range all {
			n += r.Server().Connected()
		}
		return n == len(callers) && c.Connected() == 0
	})
	ctx, cancel := context.WithCancel(context.Background())
	var busy sync.WaitGroup
	busy.Go(func() { // churn
		for i := 0; ctx.Err() == nil; i++ {
			publish(20+i%10, view.Adds)
			time.Sleep(5 * time.Millisecond)
		}
	})
	busy.Go(func() {
		for ctx.Err() == nil {
			now := time.Now()
			for _, g := range callers {
				g.look(now)
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	for i, r := range all {
		draining, stop := context.WithTimeout(context.Background(), patience)
		r.Drain(draining)
		stop()
		r.stop()
		all[i] = relayingAt(t, r.address, r.folder, c.address)
		until(t, "the relay is back", func() bool { return len(c.Doors().Relays) == len(all) })
		withdrawn := publish(10, view.Withdraws)
		began := time.Now()
		until(t, "a withdrawal is with all callers", func() bool {
			for _, g := range callers {
				if v := g.c.View("a"); v == nil || v.Version.Against(withdrawn) == view.Older {
					return false
				}
			}
			return true
		})
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a withdrawal took %s", took)
		}
	}
	cancel()
	busy.Wait()
	for i, g := range callers {
		if g.worst > 5*time.Second { // each was let in at once: what is left is jitter of a second, on a busy machine
			t.Errorf("caller %d was without a stream for %s", i, g.worst)
		}
	}
}

func TestARelayServesThoseWhoBehaveWhateverOthersDo(t *testing.T) {
	c := controlling(t, "", first)
	c.Publish(published(first, "a", 1, 3), view.Adds)
	r := relaying(t, t.TempDir(), c.address)
	good := calling(t, "good", t.TempDir(), resolver.RelaysNever, r.address)
	good.Want([]string{"a"})
	until(t, "a view", func() bool { return good.holds("a", first, 1) })
	stalled := streaming(t, r.address, "caller", "stalled", nil) // reads nothing any more
	stalled.add("a")
	silent := streaming(t, r.address, "caller", "silent", nil) // acknowledges nothing
	silent.add("a")
	silent.change()
	greedy := streaming(t, r.address, "caller", "greedy", nil)
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("s%05d", i))
	}
	greedy.add(names...)
	refused := 0
	for refused < 8000 {
		m, err := greedy.next()
		if err != nil {
			t.Fatal(err)
		}
		refused += len(m.GetRefused().GetServices())
	}
	liar := streaming(t, r.address, "caller", "liar", &pb.SubscribeHello{Name: "liar", HoldsNothing: true})
	liar.holding(published(first, "a", 9, 7))
	for {
		if _, err := liar.next(); err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("who lies is told %v", err)
			}
			break
		}
	}
	ahead := streaming(t, r.address, "caller", "ahead", nil)
	ahead.holding(published(first, "a", 40, 7)) // what was never published
	for n := uint64(2); n <= 30; n++ {
		v := published(first, "a", n, 3)
		v.Endpoints[0].Zone = fmt.Sprint(n, strings.Repeat(" ", 100<<10))
		c.Publish(v, view.Withdraws)
		until(t, "who behaves has the change", func() bool { v := good.View("a"); return v.Version.Counter >= n })
	}
	if d := silent.change(); d.To.Counter < 2 {
		t.Errorf("who acknowledges nothing is sent %s", d.To)
	}
	c.Publish(published(first, "a", 41, 4), view.Adds)
	if d := ahead.change(); d.To.Counter != 41 || !d.Full() {
		t.Errorf("who says that it holds what never was is sent %s", d.To)
	}
}
