package crashpoints_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/historytest"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// guarded hosts note it when something is stopped that a gateway routes to.
type guarded struct {
	*hosttest.Sim
	w *world
}

func (g *guarded) Stop(ctx context.Context, e view.Epoch, host string, s service.Stop) error {
	if why := g.w.routedAlone(s); why != "" {
		fmt.Fprintf(&g.w.broken, "at %s slot %s was stopped (%s): %s\n", time.Now().Format(time.StampMilli), s.Slot, s.Reason, why)
	}
	return g.Sim.Stop(ctx, e, host, s)
}

// routedAlone says that some gateway routes, or would after a restart, to the
// revision whose slot is to be stopped, of which nothing else is live.
func (w *world) routedAlone(stop service.Stop) string {
	revision, live := "", 0
	running := w.hosts.Running()
	for _, i := range running {
		if i.Slot == stop.Slot && view.SameLife(i.Minted, stop.Minted) {
			revision = i.Revision
		}
	}
	for _, i := range running {
		if i.Revision == revision && i.Slot != stop.Slot && i.State == service.InstanceLive {
			live++
		}
	}
	if revision == "" || live > 0 {
		return ""
	}
	for _, t := range w.gateways.MayRoute() {
		if r, ok := t.Route(name); ok && routes(r, revision) {
			return fmt.Sprintf("a gateway may route to %s by table %s, and nothing else of it is live", revision, t.Version)
		}
	}
	return ""
}

func routes(r view.Route, revision string) bool {
	return !r.Deleted && slices.ContainsFunc(r.Splits, func(s view.Split) bool {
		return !s.Hold && slices.Contains(s.Allowed, revision)
	})
}

// watch has requests come to both gateways until the world ends, and looks
// whether the service is answered through both, and, where it is exclusive,
// that one revision runs at a time.
func (w *world) watch(o operation) {
	w.watching.Go(func() {
		began, step, fine := time.Now(), 100*time.Millisecond, true
		for {
			if time.Since(began) > 30*time.Second {
				step = 500 * time.Millisecond
			}
			w.caller.Tick(int64(2 * time.Second / step))
			if why := w.amiss(o); why != "" && fine {
				fmt.Fprintf(&w.broken, "at %s: %s\n", time.Now().Format(time.StampMilli), why)
				fine = false
			}
			select {
			case <-w.over:
				return
			case <-time.After(step):
			}
		}
	})
}

func (w *world) amiss(o operation) string {
	live, running := map[string]bool{}, map[string]bool{}
	for _, i := range w.hosts.Running() {
		live[i.Revision] = live[i.Revision] || i.State == service.InstanceLive
		running[i.Revision] = true
	}
	if o.exclusive && len(running) > 1 {
		return fmt.Sprintf("two revisions run at once: %v", running)
	}
	if o.unserved {
		return ""
	}
	for _, g := range []string{"g1", "g2"} {
		route, _ := w.gateways.Gateway(g).Table().Route(name)
		if len(route.Splits) == 0 {
			return "gateway " + g + " has no route"
		}
		for _, s := range route.Splits {
			if s.Percent > 0 && !s.Hold && !live[s.Revision] {
				return fmt.Sprintf("gateway %s routes to %s, of which nothing is live", g, s.Revision)
			}
		}
	}
	return ""
}

// expected is how the world is once it has settled.
type expected struct {
	// traffic :: release → percent
	traffic   map[string]int
	instances int
	// revisions that there are at most; more were doubled.
	revisions int
	// waits: an attempt has failed and waits for the next.
	waits bool
	gone  bool
	// cut: gateway g2 is cut off, and what it routes to runs on beside.
	cut bool
}

// heard are the gateways that can be expected to know.
func (e expected) heard() []string {
	if e.cut {
		return []string{"g1"}
	}
	return []string{"g1", "g2"}
}

// audited notes it when an attempt is recorded to have failed while gateways,
// routes and catalog do not agree.
type audited struct {
	store.Store
	w *world
}

func (a *audited) Apply(ctx context.Context, x store.Apply) (store.Result, error) {
	res, err := a.Store.Apply(ctx, x)
	if err != nil || res.Repeated {
		return res, err
	}
	for _, write := range x.Writes {
		var r saga.Record
		if write.Kind != service.KindSaga || write.Delete || json.Unmarshal(write.Body, &r) != nil {
			continue
		}
		ended := r.State == saga.Waiting || r.State == saga.Failed || r.State == saga.Superseded
		if !ended || r.Kind != service.WorkDeploy && r.Kind != service.WorkTraffic {
			continue
		}
		if why := a.w.disagrees(ctx); why != "" {
			fmt.Fprintf(&a.w.broken, "at %s %s is recorded as %s: %s\n", time.Now().Format(time.StampMilli), r.ID, r.State, why)
		}
	}
	return res, err
}

// disagrees says where the gateways that are heard and the published routes
// lead elsewhere than the catalog says.
func (w *world) disagrees(ctx context.Context) string {
	var c service.Catalog
	var p service.Routes
	for kind, v := range map[string]any{service.KindCatalog: &c, service.KindRoutes: &p} {
		d, err := w.store.Get(ctx, store.Key{Kind: kind, Name: name})
		if err != nil || json.Unmarshal(d.Body, v) != nil {
			return "" // nothing was ever published, or the service is being deleted
		}
	}
	lead := service.Lead(c.Traffic)
	if lead == "" || p.Plan.Deleted {
		return ""
	}
	plans := map[string]view.Route{"the store": p.Plan}
	for _, g := range []string{"g1", "g2"} {
		if t := w.gateways.Gateway(g).Table(); t != nil && !w.cut && !w.unheard[g] {
			plans["gateway "+g], _ = t.Route(name)
		}
	}
	for who, r := range plans {
		if len(r.Splits) == 0 || r.Splits[0].Revision != lead || r.Splits[0].Hold {
			return fmt.Sprintf("%s has %s, the catalog %s", who, service.PlanText(r), c.Serving())
		}
	}
	return ""
}

// release that a revision is of.
func (f facts) release(revision string) string {
	if c := f.revisions[revision].Template.Command; len(c) > 0 {
		return c[0]
	}
	return "no release, by the name of " + revision
}

// wrong says where gateways, routes, catalog and what answers differ from each
// other or from what is expected, and what has leaked; empty when nothing.
func (w *world) wrong(e expected) string {
	f := w.facts()
	if e.gone {
		if f.left > 0 || len(w.hosts.Running()) > 0 {
			return fmt.Sprintf("%d documents are left, %d processes run", f.left, len(w.hosts.Running()))
		}
		return ""
	}
	for _, check := range []func(facts, expected) string{w.wrongRecords, w.wrongRoutes, w.wrongProcesses} {
		if why := check(f, e); why != "" {
			return why
		}
	}
	if why := w.caller.Overdue(); why != "" {
		return why
	}
	return w.now.NeedsOperator(name)
}

func (w *world) wrongRecords(f facts, e expected) string {
	if f.desired == nil || !e.waits && f.catalog.ObservedGeneration != f.desired.Generation {
		return fmt.Sprintf("generation %d is observed, not what is desired", f.catalog.ObservedGeneration)
	}
	for _, s := range f.sagas {
		if s.Open() && (!e.waits || s.Kind != service.WorkDeploy) {
			return fmt.Sprintf("saga %s is %s at %s: %s", s.ID, s.State, s.At(), s.Error)
		}
	}
	if len(f.revisions) > e.revisions {
		return fmt.Sprintf("there are %d revisions, expected are %d", len(f.revisions), e.revisions)
	}
	waits := slices.ContainsFunc(f.sagas, func(s saga.Record) bool { return s.Kind == service.WorkDeploy && s.State == saga.Waiting })
	if waits != e.waits {
		return fmt.Sprintf("a deploy waits for its next attempt: %v", waits)
	}
	made := map[string]int{} // :: revision → deploys of it
	for _, s := range f.sagas {
		if s.Kind == service.WorkDeploy {
			if made[s.Subject]++; made[s.Subject] > 1 {
				return "two sagas make " + s.Subject
			}
		}
	}
	got := map[string]int{}
	for _, p := range f.catalog.Traffic {
		if p.Percent > 0 {
			got[f.release(p.Revision)] += p.Percent
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(e.traffic) {
		return fmt.Sprintf("the catalog has %v, expected is %v", got, e.traffic)
	}
	return ""
}

func (w *world) wrongRoutes(f facts, e expected) string {
	got := map[string]int{}
	for _, s := range f.routes.Plan.Splits {
		if s.Hold {
			return "the published routes hold"
		}
		if s.Percent > 0 {
			got[f.release(s.Revision)] += s.Percent
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(e.traffic) {
		return fmt.Sprintf("the routes have %v, expected is %v", got, e.traffic)
	}
	for _, g := range e.heard() {
		route, _ := w.gateways.Gateway(g).Table().Route(name)
		if !service.SamePlan(route, f.routes.Plan) {
			return fmt.Sprintf("gateway %s routes by %s, published is %s", g, service.PlanText(route), service.PlanText(f.routes.Plan))
		}
	}
	return ""
}

// wrongProcesses: each revision with traffic runs as often as is asked for, and
// nothing else runs, or is recorded to.
func (w *world) wrongProcesses(f facts, e expected) string {
	live, total := map[string]int{}, 0
	for _, i := range w.hosts.Running() {
		total++
		if i.State == service.InstanceLive {
			live[f.release(i.Revision)]++
		}
	}
	for r := range e.traffic {
		if live[r] != e.instances {
			return fmt.Sprintf("%d instances of %s are live", live[r], r)
		}
	}
	if e.cut {
		return "" // amiss says whether what the other may route to runs
	}
	if total != e.instances*len(e.traffic) {
		return fmt.Sprintf("%d processes run", total)
	}
	for n, r := range f.revisions {
		if len(r.Leaving) > 0 {
			return fmt.Sprintf("slots of %s are leaving", n)
		}
		serves := f.catalog.Serves(n)
		if !serves && len(r.Slots) > 0 || serves && len(r.Slots) != e.instances {
			return fmt.Sprintf("%s has %d slots", n, len(r.Slots))
		}
	}
	return ""
}

// history reads the service's events as they were committed.
func (w *world) history() string {
	docs, _, err := w.store.List(w.t.Context(), service.KindEvent)
	if err != nil {
		return err.Error()
	}
	slices.SortFunc(docs, func(a, b store.Document) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Name, b.Name))
	})
	events := make([]service.Event, len(docs))
	for i, d := range docs {
		w.decode(d, &events[i])
	}
	if err := historytest.Check(events); err != nil {
		return "the history cannot be: " + err.Error()
	}
	return ""
}
