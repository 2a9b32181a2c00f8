package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead-platform/fairlead/internal/gateway"
	"github.com/fairlead-platform/fairlead/view"
)

// lone is an instance that must never see two requests at once.
type lone struct {
	now, most, served atomic.Int32
}

func (l *lone) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	n := l.now.Add(1)
	defer l.now.Add(-1)
	for m := l.most.Load(); n > m && !l.most.CompareAndSwap(m, n); m = l.most.Load() {
	}
	io.Copy(io.Discard, q.Body)
	l.served.Add(1)
	fmt.Fprint(w, "ok")
}

// A host moves its one credit about, by recall, withdrawal and new instances,
// under load: no instance sees two requests at once, and none is lost.
func TestAConcurrencyOfOneIsNeverExceeded(t *testing.T) {
	r := newRig(t)
	h := r.host("h1")
	r.tables.publish(1, route("hello", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var served atomic.Int32
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if got := <-r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil)); got != "200 ok" {
					t.Errorf("answered %q", got)
					return
				}
				served.Add(1)
			}
		})
	}
	var all []*lone
	for i := range 10 {
		l := &lone{}
		all = append(all, l)
		id := fmt.Sprintf("i%d", i)
		in := instance{ID: id, Service: "hello", Revision: "hello-00001", Address: r.backend(l)}
		h.offer(in, 1)
		for range 5 {
			until(t, "it serves", func() bool { return l.served.Load() > 3 })
			l.served.Store(0)
			h.recall(id, 1)
			h.await("the recalled credit", func() bool { return h.returned[id] == h.granted[id] })
			h.offer(in, 1)
		}
		h.terminating(id)
		h.await("its withdrawal", func() bool { return h.withdrawn[id] && h.returned[id] == h.granted[id] })
		h.gone(id)
		h.await("its end", func() bool { return h.ended[id] })
	}
	l := &lone{}
	h.offer(instance{ID: "last", Service: "hello", Revision: "hello-00001", Address: r.backend(l)}, 1)
	cancel()
	wg.Wait()
	for i, l := range append(all, l) {
		if l.most.Load() > 1 {
			t.Errorf("instance %d saw %d requests at once", i, l.most.Load())
		}
	}
	r.leases(0)
}

func TestABrokenStreamIsSilenceNotDeath(t *testing.T) {
	r := newRig(t)
	g := newGate()
	h := r.serve("hello", 3, g)
	flying := r.later(t.Context(), r.request("POST", "hello.localhost", "/", nil))
	<-g.in
	h.hangUp()
	second := r.later(t.Context(), r.request("POST", "hello.localhost", "/", nil))
	<-g.in
	close(g.open)
	if a, b := <-flying, <-second; a != "200 ok" || b != "200 ok" {
		t.Errorf("answered %q and %q", a, b)
	}
	again := r.host("h1")
	if again.session != "s1" || again.holdings["hello-a"] != 3 {
		t.Errorf("the welcome of %s names the holdings %v, want 3 of hello-a", again.session, again.holdings)
	}
}

func TestWhatAHostDoesNotOfferAgainIsGone(t *testing.T) {
	r := newRig(t)
	g := newGate()
	h := r.serve("hello", 2, g)
	post := r.later(t.Context(), r.request("POST", "hello.localhost", "/", nil))
	<-g.in
	h.hangUp()
	again := r.host("h1")
	again.offer(instance{ID: "hello-b", Service: "hello", Revision: "hello-00001", Address: r.backend(answerWith("b"))}, 1)
	again.synced()
	again.await("the end", func() bool { return again.ended["hello-a"] })
	if got := <-post; got[:3] != "502" {
		t.Errorf("the request in flight was answered %q", got)
	}
	if _, body := r.get("hello.localhost", "/"); body != "b" {
		t.Errorf("answered %q", body)
	}
}

func TestANewerStreamOfAHostReplacesTheOlder(t *testing.T) {
	r := newRig(t)
	h := r.serve("hello", 1, answerWith("ok"))
	r.host("h1")
	<-h.done
	if code := status.Code(h.err); code != codes.Aborted {
		t.Errorf("the older stream ended with %v", h.err)
	}
	if resp, _ := r.get("hello.localhost", "/"); resp.StatusCode != 200 {
		t.Errorf("answered %d", resp.StatusCode)
	}
}

func TestAHostSpeaksForItselfOnly(t *testing.T) {
	r := newRig(t, func(c *gateway.Config) {
		c.PeerName = func(context.Context) (string, error) { return "h2", nil }
	})
	if err := r.tryHost("h1"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("h2 as h1: %v", err)
	}
	if err := r.tryHost("h2"); err != nil {
		t.Errorf("h2 as itself: %v", err)
	}
	r2 := newRig(t, func(c *gateway.Config) {
		c.PeerName = func(context.Context) (string, error) { return "", errors.New("no certificate") }
	})
	if err := r2.tryHost("h1"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("nobody as h1: %v", err)
	}
}

// Every answer comes from a revision that the table of its lease allowed, on
// own groups and on a shared one, and nobody is turned away.
func TestEveryAnswerIsByARevisionThatItsLeasesTableAllowed(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			r := newRig(t)
			h := r.host("h1")
			group := func(rev string) string {
				if shared {
					return "shared"
				}
				return rev
			}
			var mu sync.Mutex
			allowed := map[string][]string{} // :: table → revisions
			publish := func(n uint64, revs ...string) {
				ro := view.Route{Service: "hello"}
				for i, rev := range revs {
					p := 100 / len(revs)
					if i > 0 {
						p = 100 - p
					}
					ro.Splits = append(ro.Splits, view.Split{Revision: rev, Percent: p, Group: group(rev), Allowed: []string{rev}})
				}
				mu.Lock()
				allowed[fmt.Sprintf("7f/1/%d", n)] = revs
				mu.Unlock()
				r.tables.publish(n, ro)
			}
			revs := []string{"hello-00001", "hello-00002", "hello-00003"}
			for _, rev := range revs {
				h.offer(instance{ID: rev + "-a", Service: "hello", Revision: rev, Group: group(rev), Address: r.backend(answerWith(rev))}, 3)
			}
			publish(1, revs[0])
			h.barrier()
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var count atomic.Int32
			for range 12 {
				wg.Go(func() {
					for ctx.Err() == nil {
						resp, body := r.get("hello.localhost", "/")
						rev, table := resp.Header.Get("Fairlead-Revision"), resp.Header.Get("Fairlead-Table")
						mu.Lock()
						ok := slices.Contains(allowed[table], rev)
						mu.Unlock()
						if resp.StatusCode != 200 || body != rev || !ok {
							t.Errorf("answered %d %q by %s under %s", resp.StatusCode, body, rev, table)
							return
						}
						count.Add(1)
					}
				})
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for n := uint64(2); n < 150; n++ {
				if want := count.Load() + 5; true {
					until(t, "requests go on", func() bool { return count.Load() >= want })
				}
				if i := rng.IntN(3); shared || i == 2 {
					publish(n, revs[i])
				} else {
					publish(n, revs[i], revs[i+1])
				}
			}
			cancel()
			wg.Wait()
		})
	}
}

// After publish returns, no lease is granted under an earlier table.
func TestOnceATableIsInForceNoLeaseIsUnderAnEarlierOne(t *testing.T) {
	r := newRig(t)
	h := r.host("h1")
	for i := range 2 {
		rev := revision("hello", i+1)
		h.offer(instance{ID: rev + "-a", Service: "hello", Revision: rev, Address: r.backend(answerWith(rev))}, 100)
	}
	r.tables.publish(1, route("hello", 1))
	h.barrier()
	for n := uint64(2); n < 200; n++ {
		r.tables.publish(n, route("hello", 1+int(n%2)))
		resp, body := r.get("hello.localhost", "/")
		if got, want := resp.Header.Get("Fairlead-Table"), fmt.Sprintf("7f/1/%d", n); got != want || body != revision("hello", 1+int(n%2)) {
			t.Fatalf("answered %q under %s, want %s", body, got, want)
		}
	}
}
