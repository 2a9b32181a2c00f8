package crashpoints_test

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// operation is something asked of a region that has been prepared, and how the
// region is once it has settled.
type operation struct {
	name    string
	prepare func(w *world)
	ask     func(w *world)
	then    expected
	// end is asked once it has settled, e.g. what ends a failing release.
	end       func(w *world)
	last      expected
	unserved  bool // the service may stop answering
	exclusive bool // two revisions may never run at once
	judged    bool // the discovery plane runs beside, and what is new waits for its verdict
}

func all(release string, instances, revisions int) expected {
	return expected{traffic: map[string]int{release: 100}, instances: instances, revisions: revisions}
}

func (w *world) first(edit func(d *service.Desired)) {
	w.desired(func(d *service.Desired) {
		d.Template.Command = []string{"one"}
		edit(d)
	})
	n := 1
	w.desired(func(d *service.Desired) { n = d.Instances })
	w.must("the first deploy", w.settles(time.Minute, func() string { return w.wrong(all("one", n, 1)) }))
}

func plain(w *world) { w.first(func(*service.Desired) {}) }

// second deploys a second release; the first is warm for as long as the window is.
func second(w *world) {
	plain(w)
	w.release("two")
	w.must("the second deploy", w.settles(time.Minute, func() string {
		f := w.facts()
		if f.catalog.Latest != "hello-00002" || f.catalog.ObservedGeneration != f.desired.Generation {
			return "it does not serve yet"
		}
		return ""
	}))
}

// cooled is second, and the first is collected.
func cooled(w *world) {
	second(w)
	w.must("the collection", w.settles(2*time.Minute, func() string { return w.wrong(all("two", 1, 2)) }))
}

func neverTwo(w *world) {
	w.hosts.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
		return hosttest.Behaviour{ReadyAfter: readyAfter, NeverListens: len(a.Template.Command) > 0 && a.Template.Command[0] == "two"}
	})
}

func (w *world) verb(f func(d service.Desired, c service.Catalog, revs []service.Revision, sagas []saga.Record) (service.Desired, error)) {
	facts := w.facts()
	var revs []service.Revision
	for _, r := range facts.revisions {
		revs = append(revs, r)
	}
	next, err := f(*facts.desired, facts.catalog, revs, facts.sagas)
	if err != nil {
		w.t.Fatal(err)
	}
	w.desired(func(d *service.Desired) { *d = next })
}

func rollback(w *world) {
	w.verb(func(d service.Desired, c service.Catalog, revs []service.Revision, _ []saga.Record) (service.Desired, error) {
		choice, err := service.ChooseRollback(d, c, revs, "")
		return service.Rollback(d, choice, revs), err
	})
}

func abort(w *world) { w.verb(service.Abort) }

func failing(w *world) {
	w.desired(func(d *service.Desired) {
		d.Template.Command, d.Template.ReadyTimeout = []string{"two"}, 5*time.Second
	})
}

func scaled(n int) func(w *world) {
	return func(w *world) { w.desired(func(d *service.Desired) { d.Instances = n }) }
}

func shared(d *service.Desired) { d.Template.Group = "workers" }

func exclusively(d *service.Desired) { d.Template.Handover = service.HandoverExclusive }

func operations() []operation {
	waits := all("one", 1, 2)
	waits.waits = true
	split := expected{traffic: map[string]int{"one": 90, "two": 10}, instances: 1, revisions: 2}
	begun := func(edit func(d *service.Desired)) func(w *world) { return func(w *world) { w.first(edit) } }
	release := func(w *world) { w.release("two") }
	return []operation{
		{name: "deploy", prepare: plain, ask: release, then: all("two", 1, 2), judged: true},
		{name: "deploy on a shared group", prepare: begun(shared), ask: release, then: all("two", 1, 2)},
		{name: "exclusive deploy", prepare: begun(exclusively), ask: release, then: all("two", 1, 2), exclusive: true, judged: true},
		{
			name: "deploy that is never ready", prepare: func(w *world) { plain(w); neverTwo(w) }, ask: failing, then: waits,
			end: abort, last: all("one", 1, 2),
		},
		{
			name: "exclusive deploy that is never ready", prepare: func(w *world) { w.first(exclusively); neverTwo(w) }, ask: failing, then: waits,
			end: abort, last: all("one", 1, 2), exclusive: true,
		},
		{
			name: "deploy overtaken by another", prepare: plain,
			ask: func(w *world) {
				w.release("two")
				time.Sleep(1500 * time.Millisecond)
				w.revive()
				w.release("three")
			}, then: all("three", 1, 3),
		},
		{
			name: "deploy aborted amid its wait", prepare: func(w *world) { plain(w); neverTwo(w) },
			ask: func(w *world) {
				w.release("two")
				w.must("the deploy begins", w.settles(5*time.Minute, func() string {
					if f := w.facts(); len(f.sagas) > 0 && !slices.ContainsFunc(f.sagas, func(s saga.Record) bool { return s.Kind == service.WorkDeploy && s.Subject == "hello-00002" }) {
						return "it has not begun"
					}
					return ""
				}))
				abort(w)
			}, then: all("one", 1, 2),
		},
		{
			name: "deploy paused and resumed", prepare: plain,
			ask: func(w *world) {
				w.desired(func(d *service.Desired) { d.Template.Command, d.Paused = []string{"two"}, true })
				time.Sleep(5 * time.Second)
				w.revive()
				w.desired(func(d *service.Desired) { d.Paused = false })
			}, then: all("two", 1, 2),
		},
		{
			name: "deploy with a gateway cut off", prepare: func(w *world) {
				plain(w)
				w.cut = true
				w.gateways.Gateway("g2").Cut()
			},
			ask: release, then: expected{traffic: map[string]int{"two": 100}, instances: 1, revisions: 2, cut: true},
			end: func(w *world) { w.cut = false; w.gateways.Gateway("g2").Heal() }, last: all("two", 1, 2),
		},
		{
			name: "split", prepare: second,
			ask: func(w *world) {
				w.verb(func(d service.Desired, _ service.Catalog, revs []service.Revision, _ []saga.Record) (service.Desired, error) {
					return service.SetTraffic(d, []service.Target{{Revision: "hello-00001", Percent: 90}, {Revision: "hello-00002", Percent: 10}}, nil, revs)
				})
			}, then: split,
		},
		{name: "rollback to a warm revision", prepare: second, ask: rollback, then: all("one", 1, 2)},
		{name: "rollback to a collected revision", prepare: cooled, ask: rollback, then: all("one", 1, 2), judged: true},
		{
			name: "exclusive rollback", prepare: func(w *world) {
				w.first(exclusively)
				w.release("two")
				w.must("the second deploy", w.settles(2*time.Minute, func() string { return w.wrong(all("two", 1, 2)) }))
			},
			ask: rollback, then: all("one", 1, 2), exclusive: true,
		},
		{name: "scale up", prepare: plain, ask: scaled(3), then: all("one", 3, 1), end: scaled(1), last: all("one", 1, 1), judged: true},
		{name: "restart", prepare: plain, ask: func(w *world) { w.desired(func(d *service.Desired) { d.Round++ }) }, then: all("one", 1, 1), judged: true},
		{
			name: "change of host names", prepare: plain,
			ask: func(w *world) { w.desired(func(d *service.Desired) { d.HostNames = []string{"x.example"} }) }, then: all("one", 1, 1),
		},
		{name: "collection", prepare: second, ask: func(*world) {}, then: all("two", 1, 2)},
		{
			name: "delete", prepare: plain, judged: true, ask: func(w *world) { w.desired(func(d *service.Desired) { d.Deleted = true }) },
			then: expected{gone: true}, unserved: true,
			end: func(w *world) {
				w.desired(func(d *service.Desired) {
					*d = service.Desired{Service: name, Instances: 1, Template: service.Template{Command: []string{"one"}}}
				})
			}, last: all("one", 1, 1),
		},
	}
}
