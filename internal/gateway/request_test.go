package gateway_test

import (
	"net/http"
	"testing"
)

func TestNoCallerCanHaveTheGatewaysOwnFieldsLeftOut(t *testing.T) {
	r := newRig(t)
	heads := make(chan http.Header, 1)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { heads <- q.Header.Clone() }))
	given := map[string]string{
		"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "https", "X-Request-Id": "mine",
	}
	for _, with := range []bool{false, true} {
		for k, v := range given {
			q := r.request("GET", "hello.localhost", "/", nil)
			q.Header.Set("Connection", k+", X-Private")
			q.Header.Set("X-Private", "1")
			if with {
				q.Header.Set(k, v)
			}
			r.do(q)
			got := <-heads
			for name := range given {
				if got.Get(name) == "" {
					t.Errorf("with %s declared, the instance saw no %s", k, name)
				}
			}
			want := v
			if k == "X-Forwarded-For" {
				want += ", 127.0.0.1"
			}
			if with && got.Get(k) != want {
				t.Errorf("the instance saw %s: %q, want %q", k, got.Get(k), want)
			}
			if got.Get("X-Private") != "" {
				t.Error("the instance saw a field of one hop")
			}
		}
	}
}
