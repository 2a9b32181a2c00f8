package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestARequestIsAnsweredByTheLeasedInstance(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 2, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		w.Header().Set("X-Seen", q.Header.Get("X-Forwarded-For")+" "+q.Header.Get("X-Forwarded-Host")+" "+q.Header.Get("X-Forwarded-Proto"))
		w.Header().Set("X-Id", q.Header.Get("X-Request-Id"))
		fmt.Fprintf(w, "%s %s %s %s", q.Method, q.Host, q.RequestURI, b)
	}))
	resp, body := r.get("hello.localhost", "/a%2Fb?x=1")
	if want := "GET hello.localhost /a%2Fb?x=1 "; resp.StatusCode != 200 || body != want {
		t.Errorf("answered %d %q, want %q", resp.StatusCode, body, want)
	}
	if got := resp.Header.Get("X-Seen"); got != "127.0.0.1 hello.localhost http" {
		t.Errorf("forwarded as %q", got)
	}
	if id := resp.Header.Get("X-Request-Id"); id == "" || id != resp.Header.Get("X-Id") {
		t.Errorf("the request has the identity %q, and the instance saw %q", id, resp.Header.Get("X-Id"))
	}
	if rev, table := resp.Header.Get("Fairlead-Revision"), resp.Header.Get("Fairlead-Table"); rev != "hello-00001" || table != "7f/1/1" {
		t.Errorf("answered by %q under %q", rev, table)
	}
	resp, body = r.do(r.request("POST", "HELLO.localhost.:8080", "/", strings.NewReader("some text")))
	if want := "POST HELLO.localhost.:8080 / some text"; resp.StatusCode != 200 || body != want {
		t.Errorf("answered %d %q, want %q", resp.StatusCode, body, want)
	}
}
