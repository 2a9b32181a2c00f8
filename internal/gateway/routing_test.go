package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/view"
)

func answerWith(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
}

func TestWithoutATableEveryRequestIsToldSo(t *testing.T) {
	r := newRig(t)
	resp, body := r.get("hello.localhost", "/")
	wantAnswer(t, resp, body, 503, "no-table", "no route table is held: none has been received since the start, and none on disk could be read")
}

func TestAnUnknownHostIsToldTheHostsThereAreAndHowToReachOne(t *testing.T) {
	r := newRig(t)
	var routes []view.Route
	for i := range 25 {
		routes = append(routes, route(fmt.Sprintf("s%02d", i), 1))
	}
	r.tables.publish(1, routes...)
	resp, body := r.get("nobody.example", "/")
	wantAnswer(t, resp, body, 404, "unknown-host", `"nobody.example"`, "s00.localhost, s01.localhost", "and 5 more",
		"curl -H 'Host: s00.localhost' "+r.url+"/")
	if n := strings.Count(body, ".localhost,"); n > 20 {
		t.Errorf("the answer names %d hosts", n)
	}
	r.tables.publish(2)
	resp, body = r.get("nobody.example", "/")
	wantAnswer(t, resp, body, 404, "unknown-host", "none is known yet")
}

func TestAServiceWithoutTrafficAndADeletedOneSaySo(t *testing.T) {
	r := newRig(t)
	r.tables.publish(1, view.Route{Service: "quiet"}, view.Route{Service: "old", Deleted: true, Hosts: []string{"www.old.example"}})
	resp, body := r.get("quiet.localhost", "/")
	wantAnswer(t, resp, body, 503, "no-traffic", "service quiet has no traffic")
	for _, host := range []string{"old.localhost", "www.old.example"} {
		resp, body = r.get(host, "/")
		wantAnswer(t, resp, body, 404, "deleted", "service old was deleted")
	}
}

func TestDeclaredHostsAndTagsLeadToTheirSplits(t *testing.T) {
	r := newRig(t)
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.backend(answerWith("one"))}, 4)
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00002", Address: r.backend(answerWith("two"))}, 4)
	ro := route("hello", 1)
	ro.Hosts = []string{"www.example.com"}
	ro.Splits = append(ro.Splits, view.Split{Revision: "hello-00002", Group: "hello-00002", Allowed: []string{"hello-00002"}, Tag: "next"})
	r.tables.publish(1, ro)
	h.synced()
	for host, want := range map[string]string{
		"hello.localhost": "one", "www.example.com": "one", "WWW.Example.COM.:80": "one",
		"next---hello.localhost": "two", "NEXT---www.example.com": "two",
	} {
		if resp, body := r.get(host, "/"); resp.StatusCode != 200 || body != want {
			t.Errorf("%s answered %d %q, want %q", host, resp.StatusCode, body, want)
		}
	}
	resp, body := r.get("other---hello.localhost", "/")
	wantAnswer(t, resp, body, 404, "unknown-host")
}

// The names of a service's revisions begin anew when it is deleted and made
// again: what its earlier life left running comes back under the same ones.
func TestAnInstanceOfAnotherLifeOfARevisionsNameAnswersNobody(t *testing.T) {
	r := newRig(t)
	h := r.host("h1")
	ro := route("hello", 1)
	ro.Splits[0].Minted = []string{"new"}
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Minted: "old", Address: r.backend(answerWith("old"))}, 100)
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Minted: "new", Address: r.backend(answerWith("new"))}, 1)
	r.tables.publish(1, ro)
	h.synced()
	for range 20 {
		if resp, body := r.get("hello.localhost", "/"); resp.StatusCode != 200 || body != "new" {
			t.Fatalf("answered %d %q, want the new life", resp.StatusCode, body)
		}
	}
	ro.Splits[0].Minted = nil // a table from before there were identities
	r.tables.publish(2, ro)
	h.gone("b")
	h.synced()
	if resp, body := r.get("hello.localhost", "/"); resp.StatusCode != 200 || body != "old" {
		t.Errorf("by its name alone: answered %d %q", resp.StatusCode, body)
	}
}

func TestTrafficIsDividedByThePercents(t *testing.T) {
	r := newRig(t)
	h := r.host("h1")
	ro := view.Route{Service: "hello"}
	for i, p := range []int{80, 20} {
		rev := revision("hello", i+1)
		h.offer(instance{ID: rev + "-a", Service: "hello", Revision: rev, Address: r.backend(answerWith(rev))}, 4)
		ro.Splits = append(ro.Splits, view.Split{Revision: rev, Percent: p, Group: rev, Allowed: []string{rev}})
	}
	r.tables.publish(1, ro)
	h.synced()
	n := map[string]int{}
	for range 1000 {
		_, body := r.get("hello.localhost", "/")
		n[body]++
	}
	if n["hello-00002"] < 120 || n["hello-00002"] > 280 || n["hello-00001"]+n["hello-00002"] != 1000 {
		t.Errorf("of 1,000 requests at 80 and 20%%: %v", n)
	}
}
