package grpcresolver_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/grpcresolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
)

// retrying is a world whose calls of some methods are sent again.
func retrying(t *testing.T, budget resolver.RetryBudget, methods ...string) *world {
	t.Helper()
	w := &world{t: t, plane: resolvertest.New(t)}
	cfg := w.plane.Config(t.TempDir(), "payments")
	cfg.FirstView, cfg.Ejection.Off, cfg.Retry = -1, true, budget
	var err error
	if w.r, err = resolver.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	options := grpcresolver.WithRetries(w.r, grpcresolver.Retries{Idempotent: methods})
	conn, err := grpc.NewClient("fairlead:///payments", append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
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

func unavailable(context.Context) error { return status.Error(codes.Unavailable, "of no use") }

// connected has both instances connected to, so that a retry need not wait.
func (w *world) connected(instances ...*instance) {
	w.t.Helper()
	w.publish(instances...)
	for _, i := range instances {
		for i.calls.Load() == 0 {
			_ = w.call(grpc.WaitForReady(true))
		}
	}
}

func TestACallOfAnIdempotentMethodThatFailsIsSentAgainElsewhereAndNoOtherIs(t *testing.T) {
	for method, again := range map[string]bool{"grpc.health.v1.Health/Check": true, "/grpc.health.v1.Health/": true, "grpc.health.v1.Health/Watch": false} {
		bad, well := start(t, "bad", unavailable), start(t, "good", nil)
		w := retrying(t, resolver.RetryBudget{Floor: 1000}, method)
		w.connected(bad, well)
		before := bad.calls.Load()
		failed := 0
		for range 60 {
			if err := w.call(grpc.WaitForReady(true)); err != nil {
				failed++
			}
		}
		if bad.calls.Load() == before {
			t.Errorf("%s: the bad one was never picked", method)
		}
		if again && failed > 0 || !again && failed == 0 {
			t.Errorf("%s: %d calls failed", method, failed)
		}
	}
}

func TestCallsAreSentAgainWithinTheRetryBudgetAlone(t *testing.T) {
	bad, well := start(t, "bad", unavailable), start(t, "good", unavailable)
	w := retrying(t, resolver.RetryBudget{Floor: 1}, "grpc.health.v1.Health/Check")
	w.connected(bad, well)
	before := bad.calls.Load() + well.calls.Load()
	said := false
	const n = 200
	for range n {
		err := w.call(grpc.WaitForReady(true))
		if status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		said = said || strings.Contains(err.Error(), "not sent again") && strings.Contains(err.Error(), resolver.ErrRetryBudget.Error())
	}
	if sent := bad.calls.Load() + well.calls.Load() - before; sent > n+n/2 {
		t.Errorf("%d calls were sent %d times", n, sent)
	}
	if !said {
		t.Error("nobody is told that the budget is spent")
	}
}
