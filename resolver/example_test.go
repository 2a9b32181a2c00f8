package resolver_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
)

func Example() {
	plane, dir := examplePlane()
	defer plane.Close()
	defer os.RemoveAll(dir)

	r, err := resolver.Open(context.Background(), plane.Config(dir, "payments"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()

	pick, err := r.Pick("payments")
	switch {
	case errors.Is(err, resolver.ErrNoView):
		fmt.Println("nothing was ever heard of it")
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	fmt.Println("a request goes to", pick.Address())
	pick.Done(resolver.Good)
	// Output: a request goes to 10.0.0.1:8080
}

// A caller that was once connected picks by what it kept, before any connection
// and without one.
func ExampleOpen() {
	plane, dir := examplePlane()
	defer plane.Close()
	defer os.RemoveAll(dir)
	cfg := plane.Config(dir, "payments")
	first, err := resolver.Open(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	first.Close()

	plane.Stop()
	r, err := resolver.Open(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	got, err := r.Resolve("payments")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("connected:", got.Connected, "source:", got.Source, "endpoints:", len(got.View.Endpoints))
	// Output: connected: false source: disk endpoints: 1
}

// A retry goes to another endpoint, and is taken from the service's budget.
func ExampleRetry() {
	plane, dir := examplePlane()
	defer plane.Close()
	defer os.RemoveAll(dir)
	r, err := resolver.Open(context.Background(), plane.Config(dir, "payments"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()

	pick, err := r.Pick("payments")
	if err != nil {
		fmt.Println(err)
		return
	}
	another := pick.Exclude()
	pick.Done(resolver.Failed)
	_, err = r.Pick("payments", another, resolver.Retry())
	fmt.Println(errors.Is(err, resolver.ErrNoMatch))
	// Output: true
}

// examplePlane is a plane with one instance of payments, and a folder for a caller.
func examplePlane() (plane *resolvertest.Plane, dir string) {
	plane, err := resolvertest.Start()
	if err != nil {
		panic(err)
	}
	if dir, err = os.MkdirTemp("", "caller"); err != nil {
		panic(err)
	}
	plane.Set("payments", resolvertest.Endpoint("i1", "10.0.0.1:8080"))
	return plane, dir
}
