package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/resolver"
)

// TestACallerThatAPolicyDoesNotAllowIsRefusedByNameAndCounted, on a question and
// on a subscription, and served again when the policy lets it in.
func TestACallerThatAPolicyDoesNotAllowIsRefusedByNameAndCounted(t *testing.T) {
	data := folder(t)
	control, api := startControl(t, data, anyPort)
	ops := control.waitFor(`ops (http://[0-9.:]+)/`)[1]
	must := func(args ...string) {
		t.Helper()
		if code, _, errs := fairlead(t, data, args...); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errs)
		}
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	allow := func(callers string) {
		t.Helper()
		if err := os.WriteFile(policy, []byte("allowedCallers: ["+callers+"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		must("policy", "set", "pay", "-f", policy)
	}
	must("external", "set", "pay", "--endpoint", "127.0.0.1:9,z")
	says(t, data, "127.0.0.1:9", "resolve", "pay")
	allow("service/web, caller/other")

	dir := callerAt(t, data, "batch")
	f, err := credential.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(api, grpc.WithTransportCredentials(credentials.NewTLS(f.TLS())))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ask := func() error {
		_, err := fairleadv1.NewResolveServiceClient(conn).Resolve(ctx, &fairleadv1.ResolveRequest{Service: "pay"})
		return fault.FromGRPC(err)
	}
	if err := until(ctx, func() bool { return errors.Is(ask(), fault.Forbidden) }); err != nil {
		t.Fatalf("asked, it is answered %v", ask())
	}
	if err := ask(); !strings.Contains(err.Error(), "service pay does not allow caller/batch") {
		t.Errorf("asked, it is refused by %v", err)
	}

	var refusals atomic.Int32
	r, err := resolver.Open(ctx, resolver.Config{
		StateDir: t.TempDir(), Services: []string{"pay"}, Plane: []string{api}, Identity: dir, FirstView: -1,
		Observer: func(e resolver.Event) {
			if e.Kind == resolver.SubscriptionRefused {
				refusals.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	refused := func() string {
		for _, s := range r.Status().Services {
			if s.Service == "pay" {
				return s.Refused
			}
		}
		return ""
	}
	if err := until(ctx, func() bool { return refused() != "" }); err != nil || !strings.Contains(refused(), "does not allow caller/batch") {
		t.Errorf("subscribed, it is refused by %q, %v", refused(), err)
	}
	_, text := get(t, ops+"/metrics")
	for _, what := range []string{"query", "subscription"} {
		if !regexp.MustCompile(`fairlead_may_refused_total{what="` + what + `"} [1-9]`).MatchString(text) {
			t.Errorf("no refused %s is counted", what)
		}
	}
	allow("caller/*")
	if err := r.Await(ctx, "pay"); err != nil {
		t.Errorf("when the policy lets it in: %v", err)
	}
	if err := until(ctx, func() bool { return refused() == "" }); err != nil {
		t.Errorf("it is served, and said to be refused: %q", refused())
	}

	// It is shut out while it holds a view: it goes on by that, and both sides say so.
	says(t, data, "caller/batch", "subscribers", "pay")
	allow("service/web")
	if err := until(ctx, func() bool { return refused() != "" }); err != nil {
		t.Error("a caller that holds a view is not told that it is refused")
	}
	if e, err := r.Pick("pay"); err != nil || e.Endpoint().Address != "127.0.0.1:9" {
		t.Errorf("it picks %v, %v by the view that it held", e, err)
	}
	says(t, data, "refused by policy for", "subscribers", "pay")
	says(t, data, "1 more are refused by its policy, and may still pick by what they hold", "subscribers", "pay")
	if err := until(ctx, func() bool { return refusals.Load() == 2 }); err != nil {
		t.Errorf("its observer was told of %d refusals", refusals.Load())
	}
}
