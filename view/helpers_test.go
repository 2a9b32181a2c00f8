package view_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fairlead-platform/fairlead/view"
)

// world is a plane's half: routes by service, numbered by one counter.
type world struct {
	epoch   view.Epoch
	counter uint64
	routes  map[string]view.Route // :: service name → route
	floor   uint64
}

func newWorld(incarnation string) *world {
	return &world{
		epoch:  view.Epoch{Incarnation: incarnation, Number: 1, Nonce: "n1"},
		routes: map[string]view.Route{},
	}
}

func (w *world) set(r view.Route) {
	w.counter++
	r.Sequence = w.counter
	w.routes[r.Service] = r
}

func (w *world) remove(service string) { w.set(view.Route{Service: service, Deleted: true}) }

// collect drops a tombstone.
func (w *world) collect(service string) {
	w.counter++
	w.floor = w.counter
	delete(w.routes, service)
}

func (w *world) table() *view.Table {
	var routes []view.Route
	for _, r := range w.routes {
		routes = append(routes, r)
	}
	t := view.NewTable(view.Version{Incarnation: w.epoch.Incarnation, Epoch: w.epoch.Number, Counter: w.counter}, w.epoch, routes)
	t.Floor = w.floor
	return t
}

func route(service string, n int) view.Route {
	revision := fmt.Sprintf("%s-%05d", service, n)
	return view.Route{
		Service: service, Hosts: []string{service + ".localhost"},
		Splits: []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}},
	}
}

var authenticated = view.Rules{Authenticated: true}

func take(t *testing.T, h *view.Held, d view.Delta, r view.Rules) (*view.Held, view.Taken) {
	t.Helper()
	next, taken, err := h.Take(d, r)
	if err != nil {
		t.Fatalf("cannot take %s: %v", d.To, err)
	}
	return next, taken
}

func refuses(t *testing.T, h *view.Held, d view.Delta, r view.Rules, want error) {
	t.Helper()
	next, _, err := h.Take(d, r)
	if !errors.Is(err, want) {
		t.Fatalf("took %s: %v, want %v", d.To, err, want)
	}
	if next != h {
		t.Fatalf("a refused table changed what is held")
	}
}

// served fails unless service leads to the n-th revision.
func served(t *testing.T, h *view.Held, service string, n int) {
	t.Helper()
	r, ok := h.Serving().Route(service)
	if !ok || len(r.Splits) != 1 || r.Splits[0].Revision != fmt.Sprintf("%s-%05d", service, n) {
		t.Fatalf("service %s is served as %+v (%v), want revision %d", service, r, ok, n)
	}
}
