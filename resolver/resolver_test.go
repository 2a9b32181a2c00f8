package resolver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

func openResolver(t *testing.T, cfg resolver.Config) *resolver.Resolver {
	t.Helper()
	r, err := resolver.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func await(t *testing.T, r *resolver.Resolver, services ...string) {
	t.Helper()
	ctx, cancel := contextFor(patience)
	defer cancel()
	if err := r.Await(ctx, services...); err != nil {
		t.Fatal(err)
	}
}

// untilResolver waits until the status is as it must be.
func untilResolver(t *testing.T, r *resolver.Resolver, what string, ok func(resolver.Status) bool) resolver.Status {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		changed := r.Changed()
		if s := r.Status(); ok(s) {
			return s
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("waited in vain until %s: %+v", what, r.Status())
		}
	}
}

// picked is the ID of a pick that went well.
func picked(t *testing.T, r *resolver.Resolver, service string, options ...resolver.Option) string {
	t.Helper()
	p, err := r.Pick(service, options...)
	if err != nil {
		t.Fatal(err)
	}
	id := p.ID()
	p.Done(resolver.Good)
	return id
}

func TestACallerPicksWithNothingButAStateDirAndServicesNamed(t *testing.T) {
	plane := resolvertest.New(t)
	plane.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:1"))
	t.Setenv(resolver.EnvPlane, "127.0.0.1:1, "+plane.Address())
	t.Setenv(resolver.EnvIdentity, plane.Identity())
	r := openResolver(t, resolver.Config{StateDir: t.TempDir(), Services: []string{"payments"}})
	await(t, r, "payments")
	p, err := r.Pick("payments")
	if err != nil || p.ID() != "i1" || p.Address() != "127.0.0.1:1" {
		t.Fatalf("picked %+v: %v", p.Endpoint(), err)
	}
	p.Done(resolver.Good)
	ctx, cancel := contextFor(patience)
	defer cancel()
	if err := plane.AwaitOutcomes(ctx, func(o map[string]resolvertest.Outcomes) bool { return o["i1"].OK == 1 }); err != nil {
		t.Error(err)
	}
	s := untilResolver(t, r, "it is kept", func(s resolver.Status) bool { return s.Services[0].Keeps == s.Services[0].Version })
	if !s.Connected || s.Identity != "spiffe://fairlead/caller/test" || s.Until.IsZero() || s.Services[0].Endpoints != 1 {
		t.Errorf("status: %+v", s)
	}
}

func TestWhatIsReportedSaysOfWhichZoneAndRevisionTheCallerIs(t *testing.T) {
	plane := resolvertest.New(t)
	plane.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:1"))
	t.Setenv(resolver.EnvZone, "north")
	t.Setenv(resolver.EnvRevision, "shop-00007")
	r := openResolver(t, plane.Config(t.TempDir(), "payments"))
	await(t, r, "payments")
	picked(t, r, "payments")
	ctx, cancel := contextFor(patience)
	defer cancel()
	want := resolvertest.Outcomes{OK: 1, Zone: "north", Revision: "shop-00007"}
	if err := plane.AwaitOutcomes(ctx, func(o map[string]resolvertest.Outcomes) bool { return o["i1"] == want }); err != nil {
		t.Error(err)
	}
}

func TestWithoutAViewAPickFailsAtOnceByItsType(t *testing.T) {
	plane := resolvertest.New(t)
	plane.Publish(view.Service{Name: "scaled-to-zero", Empty: true})
	plane.Publish(view.Service{Name: "deleted", Deleted: true})
	cfg := plane.Config(t.TempDir(), "nobody-knows-it", "scaled-to-zero", "deleted")
	cfg.FirstView = -1
	r := openResolver(t, cfg)
	await(t, r, "scaled-to-zero", "deleted")
	for service, want := range map[string]error{
		"not-named": resolver.ErrNotSubscribed, "nobody-knows-it": resolver.ErrNoView,
		"scaled-to-zero": resolver.ErrNoEndpoint, "deleted": resolver.ErrNoEndpoint,
	} {
		_, err := r.Pick(service)
		var typed *resolver.PickError
		if !errors.Is(err, want) || !errors.As(err, &typed) || typed.Service != service {
			t.Errorf("of %s: %v", service, err)
		}
	}
}

func TestWithoutAViewTheConfiguredFallbackIsPickedAndAViewEndsIt(t *testing.T) {
	plane := resolvertest.New(t)
	cfg := plane.Config(t.TempDir(), "payments")
	cfg.Fallback = map[string][]string{"payments": {"10.0.0.1:80", "10.0.0.2:80"}}
	r := openResolver(t, cfg)
	seen := map[string]int{}
	for range 100 {
		p, err := r.Pick("payments")
		if err != nil || p.ID() != "" {
			t.Fatalf("picked %+v: %v", p.Endpoint(), err)
		}
		seen[p.Address()]++
		p.Done(resolver.Good)
	}
	if len(seen) != 2 {
		t.Errorf("picked %v", seen)
	}
	if got, err := r.Resolve("payments"); err != nil || len(got.Fallback) != 2 || got.View != nil {
		t.Errorf("resolved to %+v: %v", got, err)
	}
	plane.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:1"))
	await(t, r, "payments")
	if id := picked(t, r, "payments"); id != "i1" {
		t.Errorf("picked %q", id)
	}
}

func TestAResolverPicksFromDiskBeforeAnyConnection(t *testing.T) {
	plane := resolvertest.New(t)
	plane.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:1"))
	cfg := plane.Config(t.TempDir(), "payments")
	first, err := resolver.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	await(t, first, "payments")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	plane.Stop()
	r := openResolver(t, cfg)
	if id := picked(t, r, "payments"); id != "i1" {
		t.Errorf("picked %q", id)
	}
	got, err := r.Resolve("payments")
	if err != nil || got.Source != resolver.SourceDisk || got.Connected || got.Age <= 0 || len(got.View.Endpoints) != 1 {
		t.Errorf("resolved to %+v: %v", got, err)
	}
}

func TestWhatAnEarlierRunSubscribedToIsKeptUntilItIsSaidOtherwise(t *testing.T) {
	plane := resolvertest.New(t)
	plane.Set("a", resolvertest.Endpoint("a1", "127.0.0.1:1"))
	plane.Set("b", resolvertest.Endpoint("b1", "127.0.0.1:1"))
	cfg := plane.Config(t.TempDir(), "a")
	first, err := resolver.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Subscribe("b"); err != nil {
		t.Fatal(err)
	}
	await(t, first, "a", "b")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	plane.Stop()
	r := openResolver(t, cfg)
	if _, err := r.Pick("b"); !errors.Is(err, resolver.ErrNotSubscribed) {
		t.Errorf("picked of b: %v", err)
	}
	if got := fmt.Sprint(r.OnDisk()); got != "[a b]" {
		t.Errorf("on disk are %s", got)
	}
	if err := r.Subscribe("b"); err != nil {
		t.Fatal(err)
	}
	if id := picked(t, r, "b"); id != "b1" {
		t.Errorf("picked %q", id)
	}
	r.Unsubscribe("b")
	if got := fmt.Sprint(r.OnDisk()); got != "[a]" {
		t.Errorf("on disk are %s", got)
	}
}

func TestABadConfigurationIsSaidAndChangesNothing(t *testing.T) {
	t.Setenv(resolver.EnvPlane, "")
	t.Setenv(resolver.EnvIdentity, "")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "damaged")
	if err := os.CopyFS(damaged, os.DirFS(resolvertest.New(t).Identity())); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"key.pem": "", "cert.pem": "not a certificate"} {
		if content == "" {
			if err := os.Chmod(filepath.Join(damaged, name), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(filepath.Join(damaged, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := resolver.Config{StateDir: filepath.Join(dir, "state"), Plane: []string{"127.0.0.1:1"}, Identity: "x", Services: []string{"a"}}
	for want, change := range map[string]func(*resolver.Config){
		"StateDir is empty":          func(c *resolver.Config) { c.StateDir = "" },
		"cannot be a folder":         func(c *resolver.Config) { c.StateDir = file },
		"no address of the plane":    func(c *resolver.Config) { c.Plane = nil },
		"no identity":                func(c *resolver.Config) { c.Identity = "" },
		"the folder of the identity": func(c *resolver.Config) { c.Identity = filepath.Join(dir, "nothing") },
		"cert.pem is damaged":        func(c *resolver.Config) { c.Identity = damaged },
		"a service has no name":      func(c *resolver.Config) { c.Services = []string{""} },
		"2001 services are named":    func(c *resolver.Config) { c.Services = make([]string, 2001) },
		"Fallback has":               func(c *resolver.Config) { c.Fallback = map[string][]string{"a": {""}} },
		"Ejection has":               func(c *resolver.Config) { c.Ejection.Share = 2 },
		"RetryBudget has":            func(c *resolver.Config) { c.Retry.Share = -1 },
	} {
		c := good
		change(&c)
		r, err := resolver.Open(t.Context(), c)
		if !errors.Is(err, resolver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if err == nil {
			_ = r.Close()
		}
	}
	if _, err := os.Stat(good.StateDir); !os.IsNotExist(err) {
		t.Errorf("the folder was made: %v", err)
	}
}

func TestAnIdentityThatComesLaterIsTakenUpAndPicksAreFromDiskMeanwhile(t *testing.T) {
	plane := resolvertest.New(t)
	plane.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:1"))
	cfg := plane.Config(t.TempDir(), "payments")
	first, err := resolver.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Identity = t.TempDir()
	r := openResolver(t, cfg)
	if id := picked(t, r, "payments"); id != "i1" {
		t.Errorf("picked %q", id)
	}
	if s := r.Status(); s.Connected || s.Identity != "" {
		t.Errorf("status: %+v", s)
	}
	for _, name := range []string{"key.pem", "bundle.pem", "cert.pem"} {
		b, err := os.ReadFile(filepath.Join(plane.Identity(), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cfg.Identity, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	untilResolver(t, r, "the plane is connected", func(s resolver.Status) bool { return s.Connected && s.Identity != "" })
}
