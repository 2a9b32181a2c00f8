package relay_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/admission"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

// fast is a clock that runs so many times faster than ours.
func fast(times int) func() time.Time {
	began := time.Now()
	return func() time.Time { return began.Add(time.Duration(times) * time.Since(began)) }
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// connections are so many, on which streams are shared out.
func connections(t testing.TB, n int, at, role string) []*grpc.ClientConn {
	t.Helper()
	var out []*grpc.ClientConn
	for range n {
		conn, err := grpc.NewClient(at, dial(role, "x")[:1]...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		out = append(out, conn)
	}
	return out
}

func TestTwoThousandSubscribersReconnectForReal(t *testing.T) {
	const n, times = 2000, 100
	clock := fast(times)
	s := views.New(views.Config{Peer: who, Clock: clock})
	s.Begin(first)
	held := published(first, "a", 1, 20)
	s.Publish(held, view.Adds)
	s.Remember(n)
	at, _ := listening(t, "", func(g *grpc.Server) { s.Register(g) })
	conns := connections(t, n/100, at, "caller")
	limit := s.Doors().Share
	if limit != n/20 {
		t.Fatalf("%d are admitted in ten seconds", limit)
	}
	began, cpuBegan := clock(), cpu()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var back, refused, noTime atomic.Int32
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			name := fmt.Sprint("c", i)
			ctx := outgoing(ctx, "caller", name)
			for ctx.Err() == nil {
				r := streamingOn(ctx, t, conns[i%len(conns)], name, nil)
				m, err := r.next()
				if err == nil && m.GetWelcome() != nil {
					back.Add(1)
					r.holding(held)
					return
				}
				refused.Add(1)
				if status.Code(err) != codes.ResourceExhausted || retryOf(err) <= 0 {
					noTime.Add(1)
				}
				time.Sleep(retryOf(err) / times)
			}
		})
	}
	all.Wait()
	took := clock().Sub(began)
	t.Logf("%d are back after %s of a fast clock, refused %d times, by %s of CPU", back.Load(), took.Round(time.Second), refused.Load(), (cpu() - cpuBegan).Round(time.Millisecond))
	if back.Load() != n || noTime.Load() > 0 {
		t.Fatalf("%d are back, %d were refused without a time", back.Load(), noTime.Load())
	}
	if least := admission.Window * (n/time.Duration(limit) - 1); took < least {
		t.Errorf("all are back after %s: the cap explains no less than %s", took, least)
	}
	if in, _ := s.Admissions(); in[0]+in[1] != n {
		t.Errorf("%d were let in", in[0]+in[1])
	}
	if refused.Load() > 6*n {
		t.Errorf("they were refused %d times", refused.Load())
	}
}

func retryOf(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// counted counts what comes on a connection, framing included.
type counted struct{ in atomic.Int64 }

func (w *counted) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (w *counted) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (w *counted) HandleConn(context.Context, stats.ConnStats)                       {}
func (w *counted) HandleRPC(_ context.Context, s stats.RPCStats) {
	if p, ok := s.(*stats.InPayload); ok {
		w.in.Add(int64(p.WireLength))
	}
}

func TestANewLeaderWithNothingChangedCostsUnder100BytesASubscriber(t *testing.T) {
	old := view.Epoch{Incarnation: "01JDXH3W8PZ6QK2M4N5R7S9TVW", Number: 41, Nonce: "4f2c9a7be1d03586"}
	led := old
	led.Number, led.Nonce = 42, "90ab12cd34ef5678"
	c := controlling(t, "", old)
	c.Publish(published(old, "payments", 8123, 300), view.Adds)
	r := relaying(t, t.TempDir(), c.address)
	w := &counted{}
	conn, err := grpc.NewClient(r.address, append(dial("caller", "x"), grpc.WithStatsHandler(w))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var x *stream
	for x == nil { // the relay may not have heard control yet
		if x = streamingOn(ctx, t, conn, "x", nil); true {
			if m, err := x.next(); err != nil || m.GetWelcome() == nil {
				x = nil
			}
		}
	}
	x.add("payments")
	got := x.change()
	held, err := (*view.Service)(nil).Apply(got)
	if err != nil {
		t.Fatal(err)
	}
	before := w.in.Load()
	c.Begin(led)
	c.Publish(published(led, "payments", 7, 300), view.Adds)
	next := x.change()
	bytes := w.in.Load() - before
	if next.To.Epoch != led.Number || next.Full() || len(next.Put)+len(next.Gone) > 0 {
		t.Errorf("it is sent %+v", next)
	}
	if after, err := held.Apply(next); err != nil || after.Digest() != held.Digest() {
		t.Errorf("it does not lead there: %v", err)
	}
	t.Logf("%d bytes", bytes)
	if bytes > 100 {
		t.Errorf("%d bytes", bytes)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func TestMemoryIsTheSameBeforeAndAfterTenThousandReconnections(t *testing.T) {
	c := controlling(t, "", first)
	held := published(first, "a", 1, 50)
	c.Publish(held, view.Adds)
	r := relaying(t, t.TempDir(), c.address)
	warm := calling(t, "warm", t.TempDir(), 0, r.address)
	warm.Want([]string{"a"})
	until(t, "a view", func() bool { return warm.holds("a", first, 1) })
	c.Remember(40_000_000) // whose share is no hindrance here
	until(t, "it is told its share", func() bool { return r.Server().Doors().Share > 100_000 })
	conns := connections(t, 4, r.address, "caller")
	reconnect := func(n int) {
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for i := range n / 8 {
					name := fmt.Sprint("c", w, "-", i%25) // each comes again and again
					ctx, cancel := context.WithTimeout(outgoing(context.Background(), "caller", name), patience)
					x := streamingOn(ctx, t, conns[w%len(conns)], name, &pb.SubscribeHello{Name: name, Session: fmt.Sprint(n, i), RelaysFailed: true})
					if m, err := x.next(); err != nil || m.GetWelcome() == nil {
						t.Errorf("not welcome: %v, %v", m, err)
					}
					x.add("a")
					x.change()
					cancel()
				}
			})
		}
		all.Wait()
		until(t, "all have left", func() bool { return r.Server().Connected() == 1 })
	}
	reconnect(2000)
	before := heapInUse()
	reconnect(10_000)
	after := heapInUse()
	t.Logf("%d KiB before, %d KiB after", before>>10, after>>10)
	if after > before+before/4+4<<20 {
		t.Errorf("%d KiB before, %d KiB after", before>>10, after>>10)
	}
}

func outgoing(ctx context.Context, role, name string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "role", role, "name", name)
}
