package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
)

// pickerOf is a caller in this process.
func (f *fleet) pickerOf(service, identity, state string) *resolver.Resolver {
	f.t.Helper()
	r, err := resolver.Open(f.t.Context(), resolver.Config{
		StateDir: filepath.Join(f.data, state), Services: []string{service}, Plane: []string{f.api}, Identity: identity, FirstView: -1,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return r
}

// TestACallerThatSubscribesAtAnyMomentOfAFirstDeployIsNotToldThatTheServiceIsEmpty:
// before it, while it runs, and as soon as it says that it is done.
func TestACallerThatSubscribesAtAnyMomentOfAFirstDeployIsNotToldThatTheServiceIsEmpty(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	identity := filepath.Join(f.data, "caller")
	f.must("identity", "caller", "batch", "--out", identity)
	for i := range 3 {
		service := fmt.Sprint("hello-", i)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if r := f.run("deploy", service, "--instances", "2", "--", testapp); r.code != 0 {
				t.Errorf("exit %d: %s", r.code, r.all())
			}
		}()
		wrong := make(chan error, 1)
		early := f.pickerOf(service, identity, "early-"+service)
		go func() {
			defer close(wrong)
			for {
				switch p, err := early.Pick(service); {
				case err == nil:
					p.Done(resolver.Unknown)
					return
				case !errors.Is(err, resolver.ErrNoView):
					wrong <- err
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		<-done
		late := f.pickerOf(service, identity, "late-"+service)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := late.Await(ctx, service)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		p, err := late.Pick(service)
		if err != nil {
			t.Errorf("as soon as it is done: %v", err)
		}
		p.Done(resolver.Unknown)
		if got, err := late.Resolve(service); err != nil || len(got.View.Endpoints) != 2 {
			t.Errorf("its first view has %d endpoints: %v", len(got.View.Endpoints), err)
		}
		if err := <-wrong; err != nil {
			t.Errorf("while it is deployed: %v", err)
		}
	}
}
