package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/gateway"
	"github.com/fairlead-platform/fairlead/view"
)

// views holds service views for a gateway, as the resolver does.
type views struct {
	mu     sync.Mutex
	held   []*view.Service
	wanted [][]string
	f      func(*view.Service)
}

func (v *views) Want(services []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wanted = append(v.wanted, services)
}

func (v *views) OnChange(f func(*view.Service)) func() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.f = f
	for _, s := range v.held {
		f(s)
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.f = nil
	}
}

// publish returns when the view is in force.
func (v *views) publish(s *view.Service) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = append(v.held, s)
	if v.f != nil {
		v.f(s)
	}
}

// says makes a view of hello that gives each named instance a weight.
func says(counter uint64, weights map[string]int) *view.Service {
	s := &view.Service{Name: "hello", Version: view.Version{Incarnation: "7f", Epoch: 1, Counter: counter}}
	for id, w := range weights {
		s.Endpoints = append(s.Endpoints, view.Endpoint{ID: id, Weight: w})
	}
	return s
}

// named answers with its name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
}

// answers counts who answers so many requests, one after the other.
func (r *rig) answers(n int) map[string]int {
	r.t.Helper()
	got := map[string]int{} // :: instance → answers
	for range n {
		resp, body := r.get("hello.localhost", "/")
		if resp.StatusCode != http.StatusOK {
			r.t.Fatalf("answered %d: %s", resp.StatusCode, body)
		}
		got[body]++
	}
	return got
}

func TestAnInstanceThatItsViewSaysIsOutGetsNoRequestWhileAnotherMayAnswer(t *testing.T) {
	held := &views{held: []*view.Service{says(1, map[string]int{"a": 0, "b": 1000})}} // from disk, before anything is served
	r := newRig(t, func(c *gateway.Config) { c.Views = held })
	h := r.host("h1")
	for _, id := range []string{"a", "b"} {
		h.offer(instance{ID: id, Service: "hello", Revision: "hello-00001", Address: r.backend(named(id))}, 4)
	}
	r.tables.publish(1, route("hello", 1))
	h.synced()
	if got := r.answers(40); got["a"] != 0 || got["b"] != 40 {
		t.Errorf("a is out: %v", got)
	}
	h.offer(instance{ID: "c", Service: "hello", Revision: "hello-00001", Address: r.backend(named("c"))}, 4)
	until(t, "c has credits", func() bool { return r.metric("fairlead_gateway_credits") == 12 })
	if got := r.answers(40); got["a"] != 0 || got["c"] < 10 {
		t.Errorf("c came after the view: %v", got)
	}
	held.publish(says(2, map[string]int{"a": 1000, "b": 1000, "c": 0}))
	if got := r.answers(40); got["a"] < 10 || got["c"] != 0 {
		t.Errorf("a is back, c is out: %v", got)
	}
	held.publish(says(3, map[string]int{"a": 1000, "b": 250, "c": 1000}))
	if got := r.answers(90); got["b"] < 8 || got["b"] > 12 {
		t.Errorf("b has a ninth of the weight: %v", got)
	}
	held.publish(says(4, map[string]int{"a": 0, "b": 0, "c": 0}))
	if got := r.answers(60); len(got) != 3 {
		t.Errorf("all are out: %v", got)
	}
	if n := r.metric("fairlead_gateway_view", "service", "hello", "incarnation", "7f", "epoch", "1"); n != 4 {
		t.Errorf("the metric says that view %v is in force", n)
	}
}

func TestAGatewayPrefersItsZoneAndObeysAPolicyThatSaysAny(t *testing.T) {
	held := &views{}
	r := newRig(t, func(c *gateway.Config) { c.Views, c.Zone = held, "x" })
	h := r.host("h1")
	v := &view.Service{Name: "hello"}
	for id, zone := range map[string]string{"a": "x", "b": "y", "c": "z"} {
		h.offer(instance{ID: id, Service: "hello", Revision: "hello-00001", Address: r.backend(named(id))}, 4)
		v.Endpoints = append(v.Endpoints, view.Endpoint{ID: id, Zone: zone, Weight: 1000})
	}
	slices.SortFunc(v.Endpoints, func(a, b view.Endpoint) int { return strings.Compare(a.ID, b.ID) })
	r.tables.publish(1, route("hello", 1))
	h.synced()
	publish := func(counter uint64, any bool) {
		next := *v
		next.Version, next.AnyZone = view.Version{Incarnation: "7f", Epoch: 1, Counter: counter}, any
		held.publish(&next)
	}
	publish(1, false)
	if got := r.answers(30); got["a"] != 30 {
		t.Errorf("the own zone has credits free, and answered by are %v", got)
	}
	publish(2, true)
	if got := r.answers(30); got["a"] != 10 || got["b"] != 10 || got["c"] != 10 {
		t.Errorf("any zone will do, and answered by are %v", got)
	}
}

func TestTheViewNeverLetsOneAnswerThatTheTableDoesNotAllow(t *testing.T) {
	held := &views{}
	r := newRig(t, func(c *gateway.Config) { c.Views = held })
	h := r.host("h1")
	h.offer(instance{ID: "old", Service: "hello", Revision: "hello-00001", Group: "g", Address: r.backend(named("old"))}, 4)
	h.offer(instance{ID: "new", Service: "hello", Revision: "hello-00002", Group: "g", Address: r.backend(named("new"))}, 4)
	r.tables.publish(1, view.Route{Service: "hello", Splits: []view.Split{{Revision: "hello-00002", Percent: 100, Group: "g", Allowed: []string{"hello-00002"}}}})
	h.synced()
	held.publish(says(1, map[string]int{"old": 1000, "new": 0}))
	if got := r.answers(20); got["new"] != 20 {
		t.Errorf("answered by %v", got)
	}
}

func TestTheViewsOfTheServicesInTheTableAreWanted(t *testing.T) {
	held := &views{}
	r := newRig(t, func(c *gateway.Config) { c.Views = held })
	r.tables.publish(1, route("a", 1), view.Route{Service: "gone", Deleted: true})
	until(t, "the first table is in force", func() bool { return r.g.Serves().Counter == 1 })
	r.tables.publish(2, route("a", 1), route("b", 1))
	r.tables.publish(3, route("a", 2), route("b", 1))
	r.tables.publish(4, route("b", 1))
	held.mu.Lock()
	defer held.mu.Unlock()
	if want := [][]string{{"a"}, {"a", "b"}, {"b"}}; !slices.EqualFunc(held.wanted, want, slices.Equal) {
		t.Errorf("wanted were %v", held.wanted)
	}
}

func TestARequestIsAnsweredByWhoIsOutWhereNobodyElseHasACreditHere(t *testing.T) {
	held := &views{held: []*view.Service{says(1, map[string]int{"a": 0, "b": 1000})}}
	r := newRig(t, func(c *gateway.Config) { c.Views = held })
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.backend(named("a"))}, 1)
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(named("b"))}, 0)
	r.tables.publish(1, route("hello", 1))
	h.synced()
	if got := r.answers(1); got["a"] != 1 {
		t.Errorf("answered by %v", got)
	}
}
