package control_test

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

const toNobody = `{"service":"hello","plan":{"service":"hello","hosts":["hello.localhost"],"splits":[{"revision":"hello-00009","percent":100,"group":"hello-00009","allowed":["hello-00009"]}]}}`

// spoil writes the routes of hello where no leader sees it.
func (r *rig) spoil(body string) {
	r.t.Helper()
	k := store.Key{Kind: service.KindRoutes, Name: "hello"}
	doc, err := r.store.Get(r.t.Context(), k)
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		r.raw(k, doc.Version, []byte(body))
		return
	}
	if _, err := r.store.Apply(r.t.Context(), store.Apply{ID: "spoil", Writes: []store.Write{{Key: k, Expect: doc.Version, Delete: true}}}); err != nil {
		r.t.Fatal(err)
	}
}

func TestRoutesThatDifferFromTheCatalogAreNotOfferedBeforeTheyAreDecided(t *testing.T) {
	for name, body := range map[string]string{"edited": toNobody, "emptied": `{}`, "removed": ""} {
		t.Run(name, func(t *testing.T) {
			inRegion(t, 1, func(r *rig) {
				c := r.start(options{})
				r.deploy("hello", "one")
				r.serves(10*time.Second, "hello", "hello-00001")
				c.stop()
				r.spoil(body)
				for _, h := range []string{"a", "b"} {
					r.hosts.Disconnect(h)
					r.hosts.Forget(h)
				}
				r.start(options{})
				for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
					if time.Since(began) > 3*time.Second { // the hosts have found it too
						r.hosts.Connect("a")
						r.hosts.Connect("b")
					}
					route, _ := r.gateways.Gateway("g1").Table().Route("hello")
					if len(route.Splits) != 1 || route.Splits[0].Revision != "hello-00001" {
						t.Fatalf("after %s it was offered %+v", time.Since(began), route)
					}
				}
				r.serves(time.Second, "hello", "hello-00001")
			})
		})
	}
}

func TestWhatCannotBeDecidedKeepsNoOtherServiceWaiting(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		c := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		at := r.live("hello-00001")[0].Host
		c.stop()
		r.spoil(toNobody)
		r.hosts.Disconnect(at)
		r.hosts.Forget(at)
		r.start(options{})
		r.deploy("other", "one")
		r.serves(12*time.Second, "other", "other-00001")
	})
}
