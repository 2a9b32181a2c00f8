package httpresolver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/httpresolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
)

func ExampleNew() {
	instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Host, r.URL.Path)
	}))
	defer instance.Close()
	plane, err := resolvertest.Start()
	if err != nil {
		panic(err)
	}
	defer plane.Close()
	plane.Set("payments", resolvertest.Endpoint("i1", instance.Listener.Addr().String()))
	dir, err := os.MkdirTemp("", "caller")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	r, err := resolver.Open(context.Background(), plane.Config(dir, "payments"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	client := &http.Client{Transport: httpresolver.New(r)}
	defer client.CloseIdleConnections()

	resp, err := client.Get("http://payments/pay")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output: payments /pay <nil>
}
