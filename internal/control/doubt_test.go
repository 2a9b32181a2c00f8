package control_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
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

// twoOf leads hello to its second revision, keeps the first warm, and returns the
// routes of before.
func (r *rig) twoOf() (yesterday string) {
	r.t.Helper()
	c := r.start(options{warm: time.Hour})
	r.deploy("hello", "one")
	r.serves(10*time.Second, "hello", "hello-00001")
	routes, _ := get[service.Routes](r, service.KindRoutes, "hello")
	b, err := json.Marshal(routes)
	if err != nil {
		r.t.Fatal(err)
	}
	r.deploy("hello", "two")
	r.serves(10*time.Second, "hello", "hello-00002")
	c.stop()
	return string(b)
}

// unheard makes a host one that a new leader has yet to hear.
func (r *rig) unheard(host string) {
	r.hosts.Disconnect(host)
	r.hosts.Forget(host)
}

// offers notes where each table that is offered leads hello.
type offers struct {
	control.Gateways
	mu  sync.Mutex
	all []string
}

func (o *offers) Offer(t *view.Table) {
	to := "nowhere"
	if r, _ := t.Route("hello"); len(r.Splits) == 1 {
		to = r.Splits[0].Revision
	}
	o.mu.Lock()
	o.all = append(o.all, to)
	o.mu.Unlock()
	o.Gateways.Offer(t)
}

func (o *offers) options() options {
	return options{warm: time.Hour, edit: func(c *control.Config) { o.Gateways, c.Gateways = c.Gateways, o }}
}

func TestRoutesThatDifferFromTheCatalogAreNotOfferedBeforeTheyAreDecided(t *testing.T) {
	for name, body := range map[string]string{"edited": toNobody, "emptied": `{}`, "removed": "", "aged": "yesterday"} {
		t.Run(name, func(t *testing.T) {
			inRegion(t, 1, func(r *rig) {
				yesterday := r.twoOf()
				if body == "yesterday" {
					body = yesterday
				}
				r.spoil(body)
				r.unheard("a")
				r.unheard("b")
				var o offers
				r.start(o.options())
				time.Sleep(3 * time.Second) // until the hosts have found it too
				r.hosts.Connect("a")
				r.hosts.Connect("b")
				r.serves(10*time.Second, "hello", "hello-00002")
				for _, to := range o.all {
					if to != "hello-00002" {
						t.Errorf("offered were tables that lead to %q", o.all)
						break
					}
				}
			})
		})
	}
}

func TestWhatCannotBeDecidedKeepsNoOtherServiceWaiting(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		yesterday := r.twoOf()
		at := r.live("hello-00002")[0].Host
		r.spoil(yesterday)
		r.unheard(at)
		var o offers
		r.start(o.options())
		time.Sleep(4 * time.Second)
		if len(o.all) > 0 {
			t.Errorf("offered was what leads to %q", o.all)
		}
		r.deploy("other", "one")
		r.serves(10*time.Second, "other", "other-00001")
	})
}
