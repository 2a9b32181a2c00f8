package resolver

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fairlead-platform/fairlead/view"
)

// payments is a view of so many endpoints.
func payments(e view.Epoch, counter uint64, endpoints ...view.Endpoint) *view.Service {
	return &view.Service{
		Name: "payments", Epoch: e, Version: view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: counter}, Endpoints: endpoints,
	}
}

// opened follows p, in a bubble.
func opened(t *testing.T, p *noSocket, dir string, change ...func(*Config)) *Resolver {
	t.Helper()
	cfg := Config{StateDir: dir, Services: []string{"payments"}, Plane: []string{"a", "b"}, Name: "g", Identity: "none"}
	for _, f := range change {
		f(&cfg)
	}
	cfg.fill()
	r, err := open(t.Context(), cfg, p.config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closed(t *testing.T, r *Resolver) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

var errAway = status.Error(codes.Unavailable, "nobody is there")

func testOutage(t *testing.T, lasts, every time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newNoSocket(), t.TempDir()
		p.slowest = every // a week has many attempts
		p.publish(payments(p.epoch, 1, in("a", "", 1000), in("b", "", 1000), in("c", "", 1000)))
		r := opened(t, p, dir)
		defer func() { closed(t, r) }()
		p.goAway(errAway)
		for began := time.Now(); time.Since(began) < lasts; time.Sleep(every) {
			pick, err := r.Pick("payments")
			if err != nil {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
			pick.Done(Good)
		}
		got, err := r.Resolve("payments")
		if err != nil || got.Age < lasts || got.Age > lasts+time.Minute || got.Connected || len(got.View.Endpoints) != 3 {
			t.Fatalf("after %s: %+v: %v", lasts, got, err)
		}
		closed(t, r)
		r = opened(t, p, dir) // again during the outage
		if pick, err := r.Pick("payments"); err != nil || r.Status().Services[0].Source != SourceDisk {
			t.Errorf("picked %q after a restart: %v", pick.ID(), err)
		}
		p.publish(payments(p.epoch, 2, in("d", "", 1000)))
		p.come()
		time.Sleep(max(slowestReturn, every) + time.Second)
		if got, err := r.Resolve("payments"); err != nil || !got.Connected || got.Age > 2*time.Second || len(got.View.Endpoints) != 1 {
			t.Errorf("after its return: %+v: %v", got, err)
		}
		p.publish(payments(p.epoch, 3, in("d", "", 1000), in("e", "", 1000))) // the first change on the stream
		time.Sleep(time.Second)
		if got, err := r.Resolve("payments"); err != nil || len(got.View.Endpoints) != 2 {
			t.Errorf("a change after its return: %+v: %v", got, err)
		}
	})
}

func TestCallersPickThroughSixtyMinutesWithoutAPlane(t *testing.T) {
	testOutage(t, time.Hour, time.Second)
}

func TestAViewNeverAgesOutByDisuse(t *testing.T) { testOutage(t, 7*24*time.Hour, 10*time.Minute) }

func TestAPlaneIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := status.New(codes.ResourceExhausted, "too many come at once").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(40 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		p := newNoSocket()
		p.goAway(s.Err())
		r := opened(t, p, t.TempDir(), func(c *Config) { c.FirstView = -1 })
		defer closed(t, r)
		synctest.Wait()
		if n := p.dialled(); n != 1 {
			t.Fatalf("dialled %d times at first", n)
		}
		time.Sleep(40*time.Second - 1)
		synctest.Wait()
		if n := p.dialled(); n != 1 {
			t.Errorf("dialled %d times before the time was over", n)
		}
		time.Sleep(4*time.Second + 1)
		synctest.Wait()
		if n := p.dialled(); n != 2 {
			t.Errorf("dialled %d times after it, and a little longer", n)
		}
	})
}

func TestManyThatAreAskedToWaitDoNotComeBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		seconds := map[int]int{}
		for i := range 1000 {
			l := loop{jitter: func() float64 { return float64(i) / 1000 }}
			seconds[int(l.pause(0, 20*time.Second, false)/time.Second)]++
		}
		for s, n := range seconds {
			if s < 20 || s > 21 || n > 510 {
				t.Errorf("%d come back in the second %d: %v since %s", n, s, seconds, began)
			}
		}
	})
}

func TestMemoryIsTheSameAfterManyReconnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNoSocket()
		p.publish(payments(p.epoch, 1, many(100)...))
		r := opened(t, p, t.TempDir())
		defer closed(t, r)
		reconnect := func(n int) {
			for range n {
				p.goAway(errAway)
				synctest.Wait()
				p.come()
				time.Sleep(slowestReturn)
			}
		}
		reconnect(100)
		before := heap()
		const n = 1000
		reconnect(n)
		if grown := int64(heap()) - int64(before); grown > n*100 {
			t.Errorf("%d reconnections left %d bytes", n, grown)
		}
		if p.dialled() < n {
			t.Errorf("dialled %d times", p.dialled())
		}
	})
}

func TestNothingPanicsInItsHostsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNoSocket()
		p.publish(payments(p.epoch, 1, in("a", "", 1000)))
		told := 0
		r := opened(t, p, t.TempDir(), func(c *Config) {
			c.Observer = func(Event) {
				told++
				panic("the observer is broken")
			}
		})
		defer closed(t, r)
		broken := r.views.OnChange(func(*view.Service) { panic("who listens is broken") })
		p.publish(payments(p.epoch, 2, in("a", "", 1000), in("b", "", 1000)))
		time.Sleep(time.Second)
		broken()
		r.views.OnChange(r.see)
		s := r.Status()
		if s.Panics < 3 || told < 3 || !s.Connected || !strings.Contains(s.LastPanic, "is broken") || s.Services[0].Version.Counter != 2 {
			t.Errorf("told %d times: %+v", told, s)
		}
		r.views.cfg.connect = func(string) (link, error) { panic("the dialler is broken") }
		p.goAway(errAway)
		p.come()
		time.Sleep(time.Minute)
		if again := r.Status(); again.Panics < s.Panics+3 {
			t.Errorf("%d panics, and %d after a minute", s.Panics, again.Panics)
		}
		if pick, err := r.Pick("payments"); err != nil {
			t.Errorf("picked %q: %v", pick.ID(), err)
		}
	})
}

// brokenOnce is a log that panics at its first line.
type brokenOnce bool

func (b *brokenOnce) Write(line []byte) (int, error) {
	if !*b {
		*b = true
		panic("the log is broken")
	}
	return len(line), nil
}

func TestALogThatPanicsEndsNoFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNoSocket()
		p.publish(payments(p.epoch, 1, in("a", "", 1000)))
		r := opened(t, p, t.TempDir(), func(*Config) {})
		defer closed(t, r)
		time.Sleep(time.Second)
		synctest.Wait()
		broken := new(brokenOnce)
		r.views.cfg.Log = slog.New(slog.NewTextHandler(broken, nil))
		p.goAway(errAway)
		time.Sleep(time.Minute)
		p.come()
		p.publish(payments(p.epoch, 2, in("a", "", 1000), in("b", "", 1000)))
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := r.Status(); !bool(*broken) || s.Panics != 1 || !s.Connected || s.Services[0].Version.Counter != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAnObserverThatTakesNothingDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNoSocket()
		p.publish(payments(p.epoch, 1, in("a", "", 1000)))
		release := make(chan struct{})
		r := opened(t, p, t.TempDir(), func(c *Config) { c.Observer = func(Event) { <-release } })
		defer closed(t, r)
		defer close(release)
		for n := range uint64(2 * eventsHeld) {
			p.publish(payments(p.epoch, n+2, in("a", "", 1000)))
			if n%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if s := r.Status(); s.Services[0].Version.Counter != 2*eventsHeld+1 || s.DroppedEvents == 0 {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestAnObserverIsToldWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNoSocket()
		p.publish(payments(p.epoch, 2, four()...))
		var got []string
		r := opened(t, p, t.TempDir(), func(c *Config) {
			c.Observer = func(e Event) { got = append(got, fmt.Sprint(e.Kind, " ", e.Service, e.Instance, e.Plane)) }
		})
		pick, err := r.Pick("payments", Instance("a"))
		if err != nil {
			t.Fatal(err)
		}
		pick.Done(Stale)
		time.Sleep(7 * time.Second)
		p.publish(payments(p.epoch, 3))
		time.Sleep(time.Second)
		p.publish(payments(p.epoch, 1))
		time.Sleep(10 * time.Millisecond)
		closed(t, r)
		want := "connected a, view taken payments, endpoint ejected paymentsa, endpoint returned paymentsa, view taken payments, view guarded payments, view refused payments, disconnected a"
		if !strings.HasPrefix(strings.Join(got, ", "), want) {
			t.Errorf("told %q", got)
		}
	})
}

func TestReportsThatNobodyTakesAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNoSocket()
		p.publish(payments(p.epoch, 1, four()...))
		r := opened(t, p, t.TempDir())
		defer closed(t, r)
		const seconds = 30
		time.Sleep(time.Second / 2) // not at the very moment of a tick
		for range seconds {
			for range 100 {
				pick, err := r.Pick("payments")
				if err != nil {
					t.Fatal(err)
				}
				pick.Done(Good)
			}
			time.Sleep(time.Second)
		}
		if s := r.Status(); s.Dropped < 4*(seconds-5) || s.Dropped > 4*seconds || s.Reported != 0 || len(s.Notes) == 0 || !strings.Contains(s.Notes[len(s.Notes)-1], "no reports here") {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestRetryTimesAreReadFromAStatusHoweverItIsWrapped(t *testing.T) {
	s, err := status.New(codes.ResourceExhausted, "x").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want time.Duration
	}{
		{nil, 0},
		{errors.New("x"), 0},
		{errAway, 0},
		{s.Err(), longestRetry},
		{errors.Join(fmt.Errorf("left: %w", s.Err()), errors.New("x")), longestRetry},
	} {
		if got := retryAfter(c.err); got != c.want {
			t.Errorf("%v: %s", c.err, got)
		}
	}
}
