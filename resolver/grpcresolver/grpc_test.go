package grpcresolver_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/grpcresolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// instance answers health checks by what the test says.
type instance struct {
	grpc_health_v1.UnimplementedHealthServer
	id     string
	calls  atomic.Int32
	answer func(context.Context) error // nil is well
	server *grpc.Server
	done   chan struct{}
	at     view.Endpoint
}

func (i *instance) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	i.calls.Add(1)
	if i.answer != nil {
		if err := i.answer(ctx); err != nil {
			return nil, err
		}
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (i *instance) stop() {
	i.server.Stop()
	<-i.done
}

func start(t *testing.T, id string, answer func(context.Context) error) *instance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{id: id, answer: answer, server: grpc.NewServer(), done: make(chan struct{}), at: resolvertest.Endpoint(id, l.Addr().String())}
	grpc_health_v1.RegisterHealthServer(i.server, i)
	go func() {
		defer close(i.done)
		_ = i.server.Serve(l) // it ends by stop
	}()
	t.Cleanup(i.stop)
	return i
}

// world is a plane, a caller of "payments", and its connection.
type world struct {
	t      *testing.T
	plane  *resolvertest.Plane
	r      *resolver.Resolver
	client grpc_health_v1.HealthClient
}

func newWorld(t *testing.T, options ...resolver.Option) *world {
	t.Helper()
	w := &world{t: t, plane: resolvertest.New(t)}
	cfg := w.plane.Config(t.TempDir(), "payments")
	cfg.FirstView = -1
	cfg.Ejection.Off = true
	var err error
	if w.r, err = resolver.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("fairlead:///payments", grpcresolver.Option(w.r, options...), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	w.client = grpc_health_v1.NewHealthClient(conn)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := w.r.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) publish(instances ...*instance) {
	w.t.Helper()
	var all []view.Endpoint
	for _, i := range instances {
		all = append(all, i.at)
	}
	w.plane.Set("payments", all...)
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.r.Await(ctx, "payments"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) call(options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	_, err := w.client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, options...)
	return err
}

func (w *world) reported(want map[string]string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	err := w.plane.AwaitOutcomes(ctx, func(got map[string]resolvertest.Outcomes) bool {
		for id, text := range want {
			if o := got[id]; text != fmt.Sprintf("%d/%d/%d", o.OK, o.Failed, o.Refused) {
				return false
			}
		}
		return len(got) == len(want)
	})
	if err != nil {
		w.t.Error(err)
	}
}

func TestCallsGoToTheInstancesOfTheServiceThatTheTargetNamesAndAreReported(t *testing.T) {
	w := newWorld(t)
	one, two := start(t, "i1", nil), start(t, "i2", nil)
	w.publish(one, two)
	for n := 0; one.calls.Load() < 20 || two.calls.Load() < 20; n++ {
		if n > 10_000 {
			t.Fatalf("%d and %d calls", one.calls.Load(), two.calls.Load())
		}
		if err := w.call(); err != nil {
			t.Fatal(err)
		}
	}
	w.reported(map[string]string{"i1": fmt.Sprintf("%d/0/0", one.calls.Load()), "i2": fmt.Sprintf("%d/0/0", two.calls.Load())})
}

func TestWithoutAViewACallFailsAtOnceAndOneThatWaitsForReadyWaits(t *testing.T) {
	w := newWorld(t)
	if err := w.call(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), resolver.ErrNoView.Error()) {
		t.Errorf("got %v", err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- w.call(grpc.WaitForReady(true)) }()
	w.publish(start(t, "i1", nil))
	if err := <-waiting; err != nil {
		t.Errorf("who waited got %v", err)
	}
}

func TestAnInstanceThatLeavesGetsNoCallAndWhatItHasEnds(t *testing.T) {
	w := newWorld(t)
	entered, release := make(chan struct{}), make(chan struct{})
	one := start(t, "i1", func(context.Context) error {
		close(entered)
		<-release
		return nil
	})
	w.publish(one)
	running := make(chan error, 1)
	go func() { running <- w.call() }()
	<-entered
	two := start(t, "i2", nil)
	w.publish(two)
	deadline := time.Now().Add(patience)
	for p, err := w.r.Pick("payments"); err != nil || p.ID() != "i2"; p, err = w.r.Pick("payments") {
		p.Done(resolver.Unknown)
		if time.Now().After(deadline) {
			t.Fatal("the second view never came")
		}
		time.Sleep(time.Millisecond)
	}
	for range 50 {
		if err := w.call(); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if err := <-running; err != nil {
		t.Errorf("the call under way got %v", err)
	}
	if one.calls.Load() != 1 {
		t.Errorf("the instance that left got %d calls", one.calls.Load())
	}
}

func TestADeadInstanceIsPassedOverAndReportedAsRefused(t *testing.T) {
	w := newWorld(t)
	one, dead := start(t, "i1", nil), start(t, "dead", nil)
	dead.stop()
	w.publish(one, dead)
	for range 200 {
		if err := w.call(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.plane.AwaitOutcomes(ctx, func(o map[string]resolvertest.Outcomes) bool {
		return o["i1"].OK == 200 && o["dead"].Refused > 0 && o["dead"].OK == 0
	}); err != nil {
		t.Error(err)
	}
}

func TestWithEveryInstanceDeadACallFailsAndSaysWhy(t *testing.T) {
	w := newWorld(t)
	dead := start(t, "dead", nil)
	dead.stop()
	w.publish(dead)
	if err := w.call(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

func TestOutcomesAreByTheStatusOfACall(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.Unavailable: "0/1/0", codes.Internal: "0/1/0", codes.Unknown: "0/1/0", codes.DataLoss: "0/1/0",
		codes.NotFound: "1/0/0", codes.ResourceExhausted: "1/0/0", codes.Unimplemented: "1/0/0",
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.publish(start(t, "i1", func(context.Context) error { return status.Error(code, "as the test wants") }))
			if err := w.call(); status.Code(err) != code {
				t.Errorf("got %v", err)
			}
			w.reported(map[string]string{"i1": want})
		})
	}
}

func TestWhatTheCallerCancelsSaysNothingAndADeadlineThatPassesIsAFailure(t *testing.T) {
	w := newWorld(t)
	entered := make(chan struct{}, 1)
	w.publish(start(t, "i1", func(ctx context.Context) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	if _, err := w.client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := w.client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	w.reported(map[string]string{"i1": "0/1/0"})
}

func TestAnInstanceThatNamesAnotherInItsTrailerIsStaleAndNobodyIsCharged(t *testing.T) {
	w := newWorld(t)
	stale := start(t, "old", func(ctx context.Context) error {
		return grpc.SetTrailer(ctx, metadata.Pairs(grpcresolver.InstanceTrailer, "somebody-else"))
	})
	one := start(t, "i1", func(ctx context.Context) error {
		return grpc.SetTrailer(ctx, metadata.Pairs(grpcresolver.InstanceTrailer, "i1"))
	})
	w.publish(stale, one)
	for one.calls.Load() < 10 || stale.calls.Load() < 10 {
		if err := w.call(); err != nil {
			t.Fatal(err)
		}
	}
	w.reported(map[string]string{"i1": fmt.Sprintf("%d/0/0", one.calls.Load())})
}

func TestATargetWithAHostIsRefusedAndSaysHowItIsWritten(t *testing.T) {
	w := newWorld(t)
	conn, err := grpc.NewClient("fairlead://payments", grpcresolver.Option(w.r), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err == nil || !strings.Contains(err.Error(), "three slashes") {
		t.Errorf("got %v", err)
	}
}
