package control_test

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// unpolled is a revision that the published routes lead to, not held, although
// none of its instances is live.
func (r *rig) unpolled(name string) string {
	routes, _ := get[service.Routes](r, service.KindRoutes, name)
	for _, s := range routes.Plan.Splits {
		if !s.Hold && len(r.live(s.Revision)) == 0 {
			return s.Revision
		}
	}
	return ""
}

// slowly has each process that starts from now on take its time.
func (r *rig) slowly() {
	r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
		return hosttest.Behaviour{ReadyAfter: 20 * time.Second}
	})
}

func TestRoutesAreRepairedHeldWhileNothingCouldAnswer(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.slowly()
		for _, i := range r.live("hello-00001") {
			r.hosts.Kill(i.ID)
		}
		doc, err := r.store.Get(r.t.Context(), store.Key{Kind: service.KindRoutes, Name: "hello"})
		if err != nil {
			t.Fatal(err)
		}
		r.put(store.Key{Kind: service.KindRoutes, Name: "hello"}, doc.Version, service.Routes{Service: "hello", Plan: view.Route{Service: "hello"}})
		held := false
		r.within(15*time.Second, "they are published again, held", func() bool {
			routes, _ := get[service.Routes](r, service.KindRoutes, "hello")
			held = len(routes.Plan.Splits) == 1 && routes.Plan.Splits[0].Hold
			return len(routes.Plan.Splits) > 0
		})
		if rev := r.unpolled("hello"); !held || rev != "" {
			t.Errorf("they lead to %s, of which nothing is live", rev)
		}
		r.serves(time.Minute, "hello", "hello-00001")
		r.within(10*time.Second, "nothing is held any more", func() bool {
			routes, _ := get[service.Routes](r, service.KindRoutes, "hello")
			return len(routes.Plan.Splits) == 1 && !routes.Plan.Splits[0].Hold
		})
	})
}

func TestADeployIsNotPublishedWhenWhatWasReadyHasEnded(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{}
		p.hook = func(_ int, a store.Apply) {
			for _, w := range a.Writes {
				if w.Kind != service.KindSaga || w.Delete {
					continue
				}
				var rec saga.Record
				decode(r.t, store.Document{Body: w.Body}, &rec)
				if rec.At() == "routes" && rec.Attempt == 1 && rec.Subject == "hello-00002" && rec.State == saga.Running {
					r.slowly()
					for _, i := range r.live("hello-00002") {
						r.hosts.Kill(i.ID)
					}
				}
			}
		}
		r.killable(p)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		r.serves(5*time.Minute, "hello", "hello-00002")
		stop()
		if s := r.deploySaga("hello"); s.Attempt < 2 {
			t.Errorf("it was served by attempt %d, whose instances had ended", s.Attempt)
		}
	})
}
