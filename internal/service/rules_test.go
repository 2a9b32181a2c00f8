package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/view"
)

func at(epoch, counter uint64) view.Version {
	return view.Version{Incarnation: "i", Epoch: epoch, Counter: counter}
}

// member is a gateway that serves and keeps tables of these counters.
func member(name string, serves, keeps uint64) KnownGateway {
	g := KnownGateway{Gateway: Gateway{Name: name}, State: &GatewayState{Name: name, Connected: true}}
	if serves > 0 {
		g.State.Serves = at(1, serves)
	}
	if keeps > 0 {
		g.State.Keeps = at(1, keeps)
	}
	return g
}

func to(revision string) view.Route {
	return view.Route{Service: "s", Splits: []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}}}
}

// steady is a service whose first revision serves on host a.
func steady() *Snapshot {
	t := Template{Command: []string{"run"}}
	d := Desired{Service: "s", Generation: 1, Template: t, Instances: 1}
	s := &Snapshot{
		Service: "s", Intent: t.Digest("k"),
		Desired: Doc[Desired]{Value: d, Version: 1},
		Catalog: Doc[Catalog]{Value: Catalog{
			Service: "s", ObservedGeneration: 1, LastRevision: 1, Latest: "s-00001", Hosts: d.HostsOf(),
			Traffic: []CatalogPart{{Revision: "s-00001", Percent: 100, Group: "s-00001"}},
		}, Version: 9},
		Revisions: []Doc[Revision]{{Value: Revision{
			Name: "s-00001", Service: "s", Number: 1, Digest: t.Digest("k"), State: RevisionServing, Template: t, NextIndex: 1,
			Slots: []Slot{{ID: "s-00001.0", Host: "a", Zone: "z1"}},
		}, Version: 9}},
	}
	s.Routes = Doc[Routes]{Value: Routes{Service: "s", Plan: s.CatalogRoutes()}, Version: 8}
	return s
}

func calm(s *Snapshot) *World {
	w := &World{
		Hosts:     map[string]HostState{"a": {Host: Host{Name: "a", Zone: "z1"}, Connected: true, Reported: true}, "b": {Host: Host{Name: "b", Zone: "z2"}, Connected: true, Reported: true}},
		Instances: map[string][]Instance{}, Of: map[string][]Instance{}, Gone: map[string]bool{}, Load: map[string]int{},
		Gateways: []KnownGateway{member("g1", 8, 8)}, Incarnation: "i", Sequence: 100,
		Due: func(saga.Record) bool { return false }, Parked: func(saga.Record) string { return "" },
		Unreferenced: func(string) time.Duration { return time.Hour }, Stray: func(string) time.Duration { return time.Hour }, Ends: func(_ string, all int) int { return all }, Cooled: func(string) bool { return false },
	}
	for _, r := range s.Revisions {
		for _, slot := range r.Value.Slots {
			i := Instance{ID: "i" + slot.ID, Slot: slot.ID, Service: "s", Revision: r.Value.Name, Host: slot.Host, State: InstanceLive}
			w.Instances[slot.ID] = append(w.Instances[slot.ID], i)
			w.Of["s"] = append(w.Of["s"], i)
		}
	}
	return w
}

// alive gives the first revision and its route the identity of a life.
func alive(s *Snapshot, minted string) {
	s.Revisions[0].Value.Minted = minted
	s.Routes.Value.Plan = s.CatalogRoutes()
}

// second adds a revision that the catalog does not refer to, and its deploy.
func second(s *Snapshot, state RevisionState, deploy saga.State) {
	s.Catalog.Value.LastRevision = 2
	t := Template{Command: []string{"two"}}
	s.Revisions = append(s.Revisions, Doc[Revision]{Value: Revision{
		Name: "s-00002", Service: "s", Number: 2, Digest: t.Digest("k"), State: state, Template: t,
		Slots: []Slot{{ID: "s-00002.0", Host: "b", Zone: "z2"}},
	}, Version: 12})
	if deploy != "" {
		s.Sagas = append(s.Sagas, Doc[saga.Record]{Value: saga.Record{ID: "s.deploy.s-00002.m", Kind: WorkDeploy, Owner: "s", Subject: "s-00002", Generation: 2, Attempt: 1, State: deploy}, Version: 12})
	}
}

// unreferenced adds so many revisions that nothing refers to.
func unreferenced(s *Snapshot, n int) {
	for i := range n {
		r := Revision{Name: fmt.Sprintf("s-%05d", 101+i), Service: "s", Number: int32(101 + i), State: RevisionServing, Slots: []Slot{{ID: "x", Host: "b"}}}
		s.Revisions = append(s.Revisions, Doc[Revision]{Value: r, Version: 12})
		s.Catalog.Value.LastRevision = r.Number
	}
}

// wantTwo has the desired document ask for the second revision's template.
func wantTwo(s *Snapshot) {
	s.Desired.Value.Generation, s.Desired.Value.Template = 2, Template{Command: []string{"two"}}
	s.Intent = s.Desired.Value.Template.Digest("k")
}

func TestPlanDecidesWhatIsNext(t *testing.T) {
	for name, c := range map[string]struct {
		edit     func(s *Snapshot, w *World)
		kind     string
		revision string
		needs    string
	}{
		"nothing": {edit: func(*Snapshot, *World) {}},
		"a new service": {edit: func(s *Snapshot, w *World) {
			*s = Snapshot{Service: "s", Desired: s.Desired, Intent: s.Intent}
			w.Of = nil
		}, kind: WorkDeploy, revision: "s-00001"},
		"a new service, while processes of an earlier life run": {edit: func(s *Snapshot, w *World) {
			*s = Snapshot{Service: "s", Desired: s.Desired, Intent: s.Intent}
			w.Of = map[string][]Instance{"s": {{Service: "s", Revision: "s-00007"}, {Service: "s", Revision: "s-x"}}}
		}, kind: WorkDeploy, revision: "s-00008"},
		"another template": {edit: func(s *Snapshot, _ *World) { wantTwo(s) }, kind: WorkDeploy, revision: "s-00002"},
		"the same by force": {edit: func(s *Snapshot, _ *World) {
			s.Desired.Value.Generation, s.Desired.Value.Force = 2, "x"
		}, kind: WorkDeploy, revision: "s-00002"},
		"a deploy in flight": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			second(s, RevisionPending, saga.Running)
		}, kind: WorkDeploy, revision: "s-00002"},
		"a deploy marked serving whose record failed is resumed, not minted again": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			second(s, RevisionServing, saga.Running)
		}, kind: WorkDeploy, revision: "s-00002"},
		"a deploy that waits": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			second(s, RevisionFailed, saga.Waiting)
		}},
		"a deploy whose wait is over": {edit: func(s *Snapshot, w *World) {
			wantTwo(s)
			second(s, RevisionFailed, saga.Waiting)
			w.Due = func(saga.Record) bool { return true }
		}, kind: WorkDeploy, revision: "s-00002"},
		"a waiting deploy asked for again by a newer generation": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			s.Desired.Value.Generation = 3
			second(s, RevisionFailed, saga.Waiting)
		}, kind: WorkDeploy, revision: "s-00002"},
		"a waiting deploy beside which something else is asked for waits on": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			s.Desired.Value.Generation, s.Desired.Value.Asked = 3, 2
			second(s, RevisionFailed, saga.Waiting)
		}, kind: WorkAdopt, revision: "s-00002"},
		"a waiting deploy that nobody wants any more is ended": {edit: func(s *Snapshot, _ *World) {
			s.Desired.Value.Generation = 3
			second(s, RevisionFailed, saga.Waiting)
		}, kind: WorkDeploy, revision: "s-00002"},
		"a deploy ended by a person is not begun again": {edit: func(s *Snapshot, w *World) {
			wantTwo(s)
			s.Desired.Value.Aborted = 2
			second(s, RevisionFailed, saga.Failed)
		}, kind: WorkCollect, revision: "s-00002"},
		"a failed attempt is no obstacle once it is asked for again": {edit: func(s *Snapshot, w *World) {
			wantTwo(s)
			second(s, RevisionFailed, saga.Failed)
		}, kind: WorkDeploy, revision: "s-00003"},
		"an attempt in back-off that a person ended is ended": {edit: func(s *Snapshot, w *World) {
			wantTwo(s)
			s.Desired.Value.Generation, s.Desired.Value.Aborted = 3, 2
			second(s, RevisionFailed, saga.Waiting)
		}, kind: WorkDeploy, revision: "s-00002"},
		"a deploy that a person holds is left alone": {edit: func(s *Snapshot, w *World) {
			wantTwo(s)
			s.Desired.Value.Generation, s.Desired.Value.Paused = 3, true
			second(s, RevisionPending, saga.Running)
			s.Sagas[0].Value.Steps = []saga.Step{{Name: "queue", State: "done"}, {Name: "ready"}}
		}},
		"what is published is recorded though a person holds it": {edit: func(s *Snapshot, w *World) {
			wantTwo(s)
			s.Desired.Value.Generation, s.Desired.Value.Paused = 3, true
			second(s, RevisionPending, saga.Running)
			s.Sagas[0].Value.Steps = []saga.Step{{Name: "routes", State: "done"}, {Name: "finalize"}}
		}, kind: WorkDeploy, revision: "s-00002"},
		"a rollback is met by the revision that traffic is pinned to": {edit: func(s *Snapshot, _ *World) {
			second(s, RevisionServing, saga.Done)
			s.Catalog.Value.Latest = "s-00002"
			s.Catalog.Value.Traffic = []CatalogPart{{Revision: "s-00002", Percent: 100, Group: "s-00002"}}
			s.Desired.Value.Generation, s.Desired.Value.Traffic = 3, []Target{{Revision: "s-00001", Percent: 100}}
		}, kind: WorkTraffic},
		"what is kept warm is not collected": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			s.Catalog.Value.Warm = "s-00002"
			w.Instances["s-00002.0"] = []Instance{{Slot: "s-00002.0", Host: "b", State: InstanceLive}}
		}},
		"a process of what serves that ended by itself": {edit: func(_ *Snapshot, w *World) {
			w.Of["s"][0].Restarts, w.Instances["s-00001.0"][0].Restarts = 1, 1
		}, kind: WorkEnds, revision: "s-00001"},
		"a process that ended under an earlier round, or elsewhere": {edit: func(_ *Snapshot, w *World) {
			w.Instances["s-00001.0"] = append(w.Instances["s-00001.0"],
				Instance{Slot: "s-00001.0", Revision: "s-00001", Host: "b", Restarts: 7, State: InstanceLive})
			w.Instances["s-00001.0"][0].Round = 1
			w.Instances["s-00001.0"] = append(w.Instances["s-00001.0"],
				Instance{Slot: "s-00001.0", Revision: "s-00001", Host: "a", Restarts: 3, State: InstanceExited})
			w.Of["s"] = w.Instances["s-00001.0"][:1:1]
			w.Of["s"] = append(w.Of["s"], w.Instances["s-00001.0"][2])
		}},
		"a slot of what is kept warm that its host lost": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			s.Catalog.Value.Warm = "s-00002"
		}, kind: WorkSlots, revision: "s-00002"},
		"a host of what is kept warm is gone": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			s.Catalog.Value.Warm = "s-00002"
			w.Gone["b"], w.Hosts["b"] = true, HostState{}
		}, kind: WorkRewarm, revision: "s-00002"},
		"what was kept warm for the window is let go": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			s.Catalog.Value.Warm = "s-00002"
			w.Cooled = func(string) bool { return true }
			w.Instances["s-00002.0"] = []Instance{{Slot: "s-00002.0", Host: "b", State: InstanceLive}}
		}, kind: WorkCool, revision: "s-00002"},
		"A, B, A makes a third": {edit: func(s *Snapshot, _ *World) {
			s.Desired.Value.Generation = 3
			second(s, RevisionServing, saga.Done)
			s.Catalog.Value.Latest = "s-00002"
		}, kind: WorkDeploy, revision: "s-00003"},
		"an undo that failed keeps everything else away": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			second(s, RevisionPending, saga.Compensating)
			s.Sagas[0].Value.RetryAt, s.Sagas[0].Value.Effects = time.Unix(1, 0), map[string]string{"undo": "no gateway answers"}
			s.Desired.Value.Instances = 5
		}, kind: WorkNeeds, needs: "no gateway answers"},
		"a tombstone comes before what is in flight": {edit: func(s *Snapshot, _ *World) {
			second(s, RevisionPending, saga.Running)
			s.Desired.Value.Generation, s.Desired.Value.Deleted = 3, true
		}, kind: WorkDelete},
		"other host names":    {edit: func(s *Snapshot, _ *World) { s.Desired.Value.HostNames = []string{"x.example"} }, kind: WorkTraffic},
		"more instances":      {edit: func(s *Snapshot, _ *World) { s.Desired.Value.Instances = 3 }, kind: WorkScale},
		"a host that is gone": {edit: func(s *Snapshot, w *World) { w.Gone["a"] = true }, kind: WorkScale},
		"a restart":           {edit: func(s *Snapshot, _ *World) { s.Desired.Value.Round = 1 }, kind: WorkRestart},
		"a met generation":    {edit: func(s *Snapshot, _ *World) { s.Desired.Value.Generation = 2 }, kind: WorkObserve},
		"traffic to what is not there": {edit: func(s *Snapshot, _ *World) {
			s.Desired.Value.Traffic = []Target{{Revision: "s-00007", Percent: 100}}
		}, kind: WorkNeeds, needs: "s-00007"},
		"routes that drifted":  {edit: func(s *Snapshot, _ *World) { s.Routes.Value.Plan = to("s-00009") }, kind: WorkRoutes},
		"routes that vanished": {edit: func(s *Snapshot, _ *World) { s.Routes = Doc[Routes]{} }, kind: WorkRoutes},
		"drifted routes that answer where the catalog's do not": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			w.Instances["s-00002.0"] = []Instance{{Slot: "s-00002.0", State: InstanceLive}}
			w.Instances["s-00001.0"] = []Instance{{Slot: "s-00001.0", State: InstanceStarting}}
			s.Routes.Value.Plan = to("s-00002")
		}, kind: WorkNeeds, needs: "what answers is kept"},
		"drifted routes that answer where a host of the catalog's is yet to report": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			w.Instances["s-00002.0"] = []Instance{{Slot: "s-00002.0", State: InstanceLive}}
			delete(w.Instances, "s-00001.0")
			delete(w.Hosts, "a")
			s.Routes.Value.Plan = to("s-00002")
		}},
		"drifted routes of which it is not known yet who answers": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			clear(w.Instances)
			clear(w.Hosts)
			s.Routes.Value.Plan = to("s-00002")
			s.Catalog.Value.NeedsOperator = "as before" // and stays so
		}, needs: "as before"},
		"drifted routes of which the hosts are gone": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			clear(w.Instances)
			clear(w.Hosts)
			w.Gone = map[string]bool{"a": true, "b": true}
			s.Routes.Value.Plan = to("s-00002")
		}, kind: WorkRoutes},
		"what needed a person is settled": {edit: func(s *Snapshot, w *World) { s.Catalog.Value.NeedsOperator = "x" }, kind: WorkNeeds},
		"what needs a person is noted once": {edit: func(s *Snapshot, w *World) {
			s.Desired.Value.Traffic = []Target{{Revision: "s-00007", Percent: 100}}
			s.Catalog.Value.NeedsOperator = "traffic is wanted at revision s-00007, which is not there"
		}, needs: "s-00007"},
		"a slot that its host lost": {edit: func(s *Snapshot, w *World) { delete(w.Instances, "s-00001.0") }, kind: WorkSlots, revision: "s-00001"},
		"a slot of a host that has not reported": {edit: func(s *Snapshot, w *World) {
			delete(w.Instances, "s-00001.0")
			w.Hosts["a"] = HostState{Host: Host{Name: "a"}, Connected: true}
		}},
		"what nothing refers to": {edit: func(s *Snapshot, _ *World) { second(s, RevisionServing, saga.Done) }, kind: WorkCollect, revision: "s-00002"},
		"what nothing refers to, fallen behind, goes before more is begun": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			unreferenced(s, 11)
		}, kind: WorkCollect, revision: "s-00101"},
		"what nothing refers to, not fallen behind, waits for what is asked for": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			unreferenced(s, 10)
		}, kind: WorkDeploy, revision: "s-00111"},
		"traffic waits for no collection": {edit: func(s *Snapshot, _ *World) {
			second(s, RevisionServing, saga.Done)
			unreferenced(s, 20)
			s.Desired.Value.Generation, s.Desired.Value.Traffic = 2, []Target{{Revision: "s-00002", Percent: 100}}
		}, kind: WorkTraffic},
		"what nothing refers to, not long enough": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			w.Unreferenced = func(string) time.Duration { return 9 * time.Second }
		}},
		"what a gateway may still route to": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			s.Routes.Value.Earlier = []PublishedPlan{{Sequence: 5, Plan: to("s-00002")}}
			w.Gateways = []KnownGateway{member("g1", 8, 8), member("g2", 8, 7)}
		}},
		"what every gateway has left": {edit: func(s *Snapshot, w *World) {
			second(s, RevisionServing, saga.Done)
			s.Routes.Value.Earlier = []PublishedPlan{{Sequence: 5, Plan: to("s-00002")}}
			w.Gateways = []KnownGateway{member("g1", 8, 8), member("g2", 9, 8)}
		}, kind: WorkCollect, revision: "s-00002"},
		"a superseded attempt": {edit: func(s *Snapshot, _ *World) { second(s, RevisionFailed, saga.Superseded) }, kind: WorkCollect, revision: "s-00002"},
		"what is asked for today is spared": {edit: func(s *Snapshot, _ *World) {
			wantTwo(s)
			second(s, RevisionFailed, saga.Waiting)
		}},
		"a process that nobody asked for": {edit: func(s *Snapshot, w *World) {
			w.Of["s"] = append(w.Of["s"], Instance{Slot: "s-00001.7", Revision: "s-00001", Host: "b", State: InstanceLive})
		}, kind: WorkStrays},
		"a process of an earlier life of a slot's name": {edit: func(s *Snapshot, w *World) {
			alive(s, "new")
			w.Of["s"] = append(w.Of["s"], Instance{Slot: "s-00001.0", Revision: "s-00001", Minted: "old", Host: "a", State: InstanceLive})
		}, kind: WorkStrays},
		"a process of an earlier life that a gateway may still route to": {edit: func(s *Snapshot, w *World) {
			alive(s, "new")
			w.Of["s"] = append(w.Of["s"], Instance{Slot: "s-00001.0", Revision: "s-00001", Minted: "old", Host: "a", State: InstanceLive})
			was := to("s-00001")
			was.Splits[0].Minted = []string{"old"}
			s.Routes.Value.Earlier = []PublishedPlan{{Sequence: 5, Plan: was}}
			w.Gateways = []KnownGateway{member("g1", 8, 7)}
		}},
		"a process from before there were identities": {edit: func(s *Snapshot, _ *World) { alive(s, "new") }},
		"a slot in which only an earlier life of its name runs": {edit: func(s *Snapshot, w *World) {
			alive(s, "new")
			w.Instances["s-00001.0"][0].Minted = "old"
		}, kind: WorkSlots, revision: "s-00001"},
		"routes that name no life": {edit: func(s *Snapshot, _ *World) {
			was := s.Routes.Value.Plan
			alive(s, "new")
			s.Routes.Value.Plan = was
		}, kind: WorkRoutes},
		"a process of a revision that only a gateway knows": {edit: func(s *Snapshot, w *World) {
			w.Of["s"] = append(w.Of["s"], Instance{Slot: "s-00009.0", Revision: "s-00009", Host: "b", State: InstanceLive})
			w.Gateways = []KnownGateway{member("g1", 200, 200)}
		}},
		"a free host name": {edit: func(s *Snapshot, _ *World) { s.Claims = []Doc[string]{{Value: "x.example", Version: 3}} }, kind: WorkClaims},
		"an unreadable saga": {edit: func(s *Snapshot, _ *World) {
			s.Broken = []Broken{{Kind: KindSaga, Name: "s.deploy.x.y", Problem: "bad"}}
			wantTwo(s)
		}, kind: WorkNeeds, needs: "s.deploy.x.y"},
		"a saga of a newer program": {edit: func(s *Snapshot, w *World) {
			wantTwo(s)
			second(s, RevisionPending, saga.Running)
			w.Parked = func(saga.Record) string { return "version 9" }
		}, kind: WorkNeeds, needs: "version 9"},
		"withdrawn routes that all have kept": {edit: func(s *Snapshot, _ *World) {
			*s = Snapshot{Service: "s", Routes: Doc[Routes]{Value: Routes{Plan: view.Route{Service: "s", Deleted: true}}, Version: 8}}
		}, kind: WorkDropRoutes},
		"withdrawn routes that one has not kept": {edit: func(s *Snapshot, w *World) {
			*s = Snapshot{Service: "s", Routes: Doc[Routes]{Value: Routes{Plan: view.Route{Service: "s", Deleted: true}}, Version: 8}}
			w.Gateways = append(w.Gateways, member("g2", 8, 7))
			w.Of = nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := steady()
			w := calm(s)
			c.edit(s, w)
			got := Plan(s, w)
			if got.Kind != c.kind || c.revision != "" && got.Revision != c.revision || !strings.Contains(got.NeedsOperator, c.needs) || c.needs == "" && got.NeedsOperator != "" {
				t.Errorf("Plan: %q %s (%s), needs %q; want %q %s, needs %q", got.Kind, got.Revision, got.Reason, got.NeedsOperator, c.kind, c.revision, c.needs)
			}
			if got.Kind != WorkNone && got.Reason == "" {
				t.Error("it gives no reason")
			}
		})
	}
}

func TestSettledAsksEachKnownGatewayAnew(t *testing.T) {
	behind := member("b", 3, 3)
	behind.Silent = BehindAfter
	unheard := KnownGateway{Gateway: Gateway{Name: "u", Serves: at(1, 9), Keeps: at(1, 9)}, Silent: time.Second}
	foreign := member("f", 9, 9)
	foreign.State.Serves.Incarnation = "another"
	refusing := member("r", 9, 9)
	refusing.State.Refused = map[string]string{"s": "bad"}
	for name, c := range map[string]struct {
		gateways []KnownGateway
		done     bool
		text     string
	}{
		"none":                   {nil, false, "no gateway is known"},
		"all":                    {[]KnownGateway{member("a", 5, 1), member("b", 9, 1)}, true, "acknowledged by 2 of 2"},
		"one waits":              {[]KnownGateway{member("a", 5, 5), member("b", 4, 4)}, false, "waiting for b"},
		"one is behind":          {[]KnownGateway{member("a", 5, 5), behind}, true, "behind: b"},
		"all are behind":         {[]KnownGateway{behind}, false, "behind: b"},
		"one has not been heard": {[]KnownGateway{member("a", 5, 5), unheard}, false, "waiting for u"},
		"another incarnation":    {[]KnownGateway{member("a", 5, 5), foreign}, false, "waiting for f"},
		"refused":                {[]KnownGateway{refusing}, true, "acknowledged by 1"},
	} {
		got := Settled(c.gateways, at(1, 5), "s")
		if got.Done != c.done || !strings.Contains(got.Text(), c.text) || (name == "refused") != (got.Refused["r"] == "bad") {
			t.Errorf("%s: %+v, %s", name, got, got.Text())
		}
	}
	if Settled([]KnownGateway{member("a", 5, 5)}, at(2, 5), "s").Done {
		t.Error("a table of an earlier epoch counts")
	}
	if !Settled([]KnownGateway{member("a", 5, 5)}, at(0, 50), "s").Done {
		t.Error("a table of a later epoch does not count")
	}
}

func TestMayRouteByCoversEveryTableThatAGatewayMayHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// A history of publications at rising sequences, through Publish, while
		// gateways acknowledge at random, serve and keep apart.
		type truth struct{ serves, keeps int } // indices into plans that the gateway really holds
		var plans []view.Route
		var since []uint64
		gateways := make([]truth, rapid.IntRange(1, 3).Draw(t, "gateways"))
		s := &Snapshot{Service: "s"}
		sequence := uint64(0)
		world := func() *World {
			w := &World{Incarnation: "i", Sequence: sequence + 2}
			for k, g := range gateways {
				m := member(fmt.Sprintf("g%d", k), 0, 0)
				if g.serves > 0 {
					m.State.Serves = at(1, since[g.serves-1]+uint64(rapid.IntRange(0, 1).Draw(t, "later")))
				}
				if g.keeps > 0 {
					m.State.Keeps = at(1, since[g.keeps-1])
				}
				w.Gateways = append(w.Gateways, m)
			}
			return w
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "publish") || len(plans) == 0 {
				sequence += 3
				plan := to(fmt.Sprintf("s-%05d", rapid.IntRange(1, 4).Draw(t, "revision")))
				s.Routes = Doc[Routes]{Value: s.Publish(plan, "", "", world()), Version: sequence}
				plans, since = append(plans, plan), append(since, sequence)
				continue
			}
			g := &gateways[rapid.IntRange(0, len(gateways)-1).Draw(t, "gateway")]
			g.serves = rapid.IntRange(max(g.serves, 1), len(plans)).Draw(t, "serves")
			if rapid.Bool().Draw(t, "kept") {
				g.keeps = rapid.IntRange(max(g.keeps, 1), g.serves).Draw(t, "keeps")
			}
		}
		reach := s.MayRoute(world())
		must := []view.Route{s.Routes.Value.Plan}
		for _, g := range gateways {
			for _, i := range []int{g.serves, g.keeps} {
				if i > 0 {
					must = append(must, plans[i-1])
				}
			}
		}
		for _, p := range must {
			if _, reached := reach.Revision(p.Splits[0].Revision); !reached {
				t.Fatalf("%s may be routed to and is not reached: %+v", p.Splits[0].Revision, gateways)
			}
		}
		// And nothing is held for ever: once all have the newest, only it is reached.
		for k := range gateways {
			gateways[k] = truth{serves: len(plans), keeps: len(plans)}
		}
		next := s.Publish(s.Routes.Value.Plan, "", "", world())
		if len(next.Earlier) != 1 {
			t.Fatalf("%d earlier plans are kept", len(next.Earlier))
		}
	})
}

func TestATableThatThisStoreNeverPublishedReachesEverything(t *testing.T) {
	s := steady()
	for name, g := range map[string]KnownGateway{
		"another incarnation": {Gateway: Gateway{Name: "g", Serves: view.Version{Incarnation: "other", Epoch: 1, Counter: 1}}},
		"a later time":        {Gateway: Gateway{Name: "g", Keeps: at(1, 101), Serves: at(1, 8)}},
	} {
		if _, reached := s.MayRoute(&World{Incarnation: "i", Sequence: 100, Gateways: []KnownGateway{g}}).Revision("s-00077"); !reached {
			t.Errorf("%s: not reached", name)
		}
	}
}

func TestPlacementSpreadsOverZonesThenHostsAndStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &World{Hosts: map[string]HostState{}, Load: map[string]int{}}
		for i := range rapid.IntRange(1, 6).Draw(t, "hosts") {
			name := fmt.Sprintf("h%d", i)
			w.Hosts[name] = HostState{Host: Host{Name: name, Zone: fmt.Sprintf("z%d", rapid.IntRange(0, 2).Draw(t, "zone"))}, Connected: i == 0 || rapid.Bool().Draw(t, "connected")}
			w.Load[name] = rapid.IntRange(0, 3).Draw(t, "load")
		}
		n := rapid.IntRange(0, 9).Draw(t, "n")
		r, err := Revision{Name: "r"}.Grow(n, w)
		if err != nil || len(r.Slots) != n || r.NextIndex != n {
			t.Fatalf("Grow: %v, %+v", err, r)
		}
		zones, hosts := count(r.Slots)
		inZone := map[string]bool{}
		for _, h := range w.Hosts {
			if h.Connected {
				inZone[h.Zone] = true
			} else if hosts[h.Name] > 0 {
				t.Fatal("placed on a host that is not connected")
			}
		}
		for a := range inZone {
			for b := range inZone {
				if zones[a]-zones[b] > 1 {
					t.Fatalf("zones are uneven: %v", zones)
				}
			}
		}
		for a, x := range w.Hosts {
			for b, y := range w.Hosts {
				if x.Zone == y.Zone && x.Connected && y.Connected && hosts[a]-hosts[b] > 1 {
					t.Fatalf("hosts of %s are uneven: %v", x.Zone, hosts)
				}
			}
		}
		more, err := r.Grow(n+2, w)
		if err != nil || !slices.Equal(more.Slots[:n], r.Slots) {
			t.Fatalf("what was placed moved: %v", err)
		}
		m := rapid.IntRange(0, n).Draw(t, "m")
		less := r.Shrink(m)
		if len(less.Slots) != m || len(less.Leaving) != n-m || len(r.Slots) != n {
			t.Fatalf("Shrink: %+v", less)
		}
	})
	if _, err := (Revision{Name: "r"}).Grow(1, &World{}); err == nil {
		t.Error("placed without a host")
	}
}

func TestPartsResolveTheLatest(t *testing.T) {
	s := steady()
	second(s, RevisionServing, saga.Done)
	for name, c := range map[string]struct {
		traffic []Target
		want    string
		fails   bool
	}{
		"all to the latest":  {nil, "[{s-00002 100  s-00002}]", false},
		"pinned, with a tag": {[]Target{{Revision: "s-00001", Percent: 100}, {Tag: "new"}}, "[{s-00001 100  s-00001} {s-00002 0 new s-00002}]", false},
		"the same twice":     {[]Target{{Revision: "s-00002", Percent: 30}, {Percent: 70, Tag: "x"}}, "[{s-00002 100 x s-00002}]", false},
		"what is not there":  {[]Target{{Revision: "s-00005", Percent: 100}}, "[]", true},
		"a split":            {[]Target{{Revision: "s-00001", Percent: 90}, {Percent: 10}}, "[{s-00001 90  s-00001} {s-00002 10  s-00002}]", false},
	} {
		s.Desired.Value.Traffic = c.traffic
		parts, err := s.Parts("s-00002")
		if fmt.Sprint(parts) != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, parts, err)
		}
		if err == nil {
			if err := s.PlanRoutes(parts, s.Desired.Value.HostsOf()).Check(); err != nil {
				t.Errorf("%s: the route cannot be routed by: %v", name, err)
			}
		}
	}
}

func TestHistoryBeyondItsBoundsIsTheOldest(t *testing.T) {
	s := steady()
	for i := range 30 {
		s.Revisions = append(s.Revisions, Doc[Revision]{Value: Revision{Name: RevisionName("s", int32(i+2)), Number: int32(i + 2), State: RevisionRetired}, Version: 1})
		s.Sagas = append(s.Sagas, Doc[saga.Record]{Value: saga.Record{ID: fmt.Sprintf("s.collect.x.%02d", i), Kind: WorkCollect, State: saga.Done, Ended: time.Unix(int64(100-i), 0)}})
	}
	s.Sagas = append(s.Sagas, Doc[saga.Record]{Value: saga.Record{ID: "s.deploy.s-00001.m", Kind: WorkDeploy, State: saga.Done, Ended: time.Unix(1, 0)}})
	e := s.Excess()
	if len(e.Revisions) != 10 || e.Revisions[0].Value.Number != 2 || len(e.Sagas) != 10 || e.Sagas[0].Value.ID != "s.collect.x.29" {
		t.Errorf("%d revisions, %d sagas: %+v", len(e.Revisions), len(e.Sagas), e.Sagas)
	}
	if Plan(s, calm(s)).Kind != WorkTrim {
		t.Error("nothing trims it")
	}
}
