package httpapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// twoRevisions puts a service with two revisions on record: the second serves, and
// the first did before.
func (w *world) twoRevisions() {
	w.t.Helper()
	w.must(&fairleadv1.DeployRequest{Service: "hello", Template: &fairleadv1.Template{Command: []string{"one"}}})
	w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1, Template: &fairleadv1.Template{Command: []string{"two"}}})
	for n, command := range []string{"one", "two"} {
		name := service.RevisionName("hello", int32(n+1))
		w.put(service.KindRevision, name, service.Revision{
			Name: name, Service: "hello", Number: int32(n + 1), State: service.RevisionServing,
			Template: service.Template{Command: []string{command}}, Slots: []service.Slot{{ID: name + ".0", Host: "h1"}},
		})
	}
	w.catalog("hello-00002", service.EarlierTraffic{Revision: "hello-00001", Ended: time.Unix(60, 0)})
}

func (w *world) catalog(latest string, earlier ...service.EarlierTraffic) {
	w.t.Helper()
	w.put(service.KindCatalog, "hello", service.Catalog{
		Service: "hello", ObservedGeneration: 2, LastRevision: 2, Latest: latest, Earlier: earlier, Warm: "hello-00001", WarmUntil: time.Unix(7000, 0),
		Traffic: []service.CatalogPart{{Revision: latest, Percent: 100, Group: latest}},
	})
}

func (w *world) wanted() *fairleadv1.Service {
	w.t.Helper()
	r, err := w.services.GetService(w.ctx, connect.NewRequest(&fairleadv1.GetServiceRequest{Service: "hello"}))
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Msg.GetService()
}

func (w *world) history() string {
	w.t.Helper()
	r, err := w.services.ListEvents(w.ctx, connect.NewRequest(&fairleadv1.ListEventsRequest{Service: "hello"}))
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range r.Msg.GetEvents() {
		out = append(out, e.GetText())
	}
	return strings.Join(out, "\n")
}

// is checks the code that a refusal has, and that it says why.
func is(t *testing.T, err, code error, why string) {
	t.Helper()
	if err = fault.FromConnect(err); !errors.Is(err, code) || !strings.Contains(fmt.Sprint(err), why) {
		t.Errorf("refused by %v, want %v with %q", err, code, why)
	}
}

func TestTrafficIsDividedBoundToTheGenerationThatWasRead(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		split := []*fairleadv1.TrafficTarget{{Revision: "hello-00001", Percent: 90}, {Revision: "LATEST", Percent: 10}}
		before := w.everything()
		_, err := w.services.SetTraffic(w.ctx, connect.NewRequest(&fairleadv1.SetTrafficRequest{Service: "hello", ExpectedGeneration: 1, Traffic: split}))
		is(t, err, fault.Conflict, "generation 2 of hello stands")
		_, err = w.services.SetTraffic(w.ctx, connect.NewRequest(&fairleadv1.SetTrafficRequest{Service: "hello", Traffic: split[:1]}))
		is(t, err, fault.Invalid, "90 percent")
		if w.everything() != before {
			t.Error("what was refused changed something")
		}
		r, err := w.services.SetTraffic(w.ctx, connect.NewRequest(&fairleadv1.SetTrafficRequest{
			Service: "hello", ExpectedGeneration: 2, Traffic: split, Tags: map[string]string{"blue": "hello-00002"}, By: "ann",
		}))
		if err != nil {
			t.Fatal(err)
		}
		got := w.wanted()
		if r.Msg.Generation != 3 || got.Generation != 3 || targetsText(got.Traffic) != "hello-00001 90 , 10 ,hello-00002 0 blue" {
			t.Errorf("generation %d: %s", got.Generation, targetsText(got.Traffic))
		}
		if !strings.Contains(w.history(), "traffic 90% to hello-00001, 10% to the latest revision, 0% to hello-00002 (tag blue) asked for by ann") {
			t.Errorf("history is\n%s", w.history())
		}
	})
}

func targetsText(all []*fairleadv1.TrafficTarget) string {
	var out []string
	for _, t := range all {
		out = append(out, fmt.Sprint(t.Revision, " ", t.Percent, " ", t.Tag))
	}
	return strings.Join(out, ",")
}

func TestARollbackSaysWhatItWillChooseAndThenChoosesThat(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		before := w.everything()
		dry, err := w.services.RollbackService(w.ctx, connect.NewRequest(&fairleadv1.RollbackServiceRequest{Service: "hello", DryRun: true}))
		if err != nil {
			t.Fatal(err)
		}
		if m := dry.Msg; m.Revision != "hello-00001" || !m.Warm || m.Generation != 2 || !strings.Contains(m.Reason, "before hello-00002") {
			t.Errorf("chose %v", m)
		}
		_, err = w.services.RollbackService(w.ctx, connect.NewRequest(&fairleadv1.RollbackServiceRequest{Service: "hello", ExpectedRevision: "hello-00002"}))
		is(t, err, fault.Conflict, "goes to hello-00001 by now")
		if w.everything() != before {
			t.Error("looking changed something")
		}
		r, err := w.services.RollbackService(w.ctx, connect.NewRequest(&fairleadv1.RollbackServiceRequest{Service: "hello", ExpectedGeneration: 2, ExpectedRevision: "hello-00001", By: "ann"}))
		if err != nil {
			t.Fatal(err)
		}
		got := w.wanted()
		if r.Msg.Generation != 3 || targetsText(got.Traffic) != "hello-00001 100 " || got.Template.Command[0] != "one" {
			t.Errorf("got %v", got)
		}
		if !strings.Contains(w.history(), "rollback to hello-00001 (it served until") {
			t.Errorf("history is\n%s", w.history())
		}
	})
}

// TestAVerbIsDecidedAnewByWhatIsRecordedMeanwhile has the deployment end
// between the reading of it and the writing of its abort.
func TestAVerbIsDecidedAnewByWhatIsRecordedMeanwhile(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		w.put(service.KindSaga, "s2", record(2, saga.Running, step("finalize", "running", "")))
		v := verb{name: "abort", service: "hello"}
		times := 0
		_, err := w.api.verb(w.ctx, v, func(s standing) (service.Desired, error) {
			if times++; times == 1 {
				w.put(service.KindSaga, "s2", record(2, saga.Done))
				w.catalog("hello-00002")
			}
			return service.Abort(s.desired, s.catalog, s.revisions, s.sagas)
		})
		var input *service.InputError
		if times != 2 || !errors.As(err, &input) || !strings.Contains(err.Error(), "nothing to abort") {
			t.Errorf("decided %d times: %v", times, err)
		}
		if got := w.wanted().Generation; got != 2 {
			t.Errorf("generation %d was written", got)
		}
	})
}

func TestAnAbortEndsWhenWhatWasInProgressIsUndone(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		_, err := w.services.AbortService(w.ctx, connect.NewRequest(&fairleadv1.AbortServiceRequest{Service: "hello"}))
		is(t, err, fault.Invalid, "nothing to abort")
		w.put(service.KindSaga, "s2", record(2, saga.Running, step("ready", "running", "")))
		r, err := w.services.AbortService(w.ctx, connect.NewRequest(&fairleadv1.AbortServiceRequest{Service: "hello", ExpectedGeneration: 2}))
		if err != nil {
			t.Fatal(err)
		}
		p := w.watchKind(r.Msg.Generation, "abort")
		p.until("ready running")
		w.put(service.KindSaga, "s2", record(2, saga.Compensating, step("ready", "failed", "aborted")))
		p.until("ready failed")
		w.put(service.KindSaga, "s2", record(2, saga.Failed, step("ready", "failed", "aborted")))
		p.until("")
		if p.end.Outcome != "done" || p.end.Serving != "hello-00002 serves all traffic" {
			t.Errorf("ended %v", p.end)
		}
		late := w.watchKind(r.Msg.Generation, "abort")
		late.until("")
		if late.end.Outcome != "done" {
			t.Errorf("a late watcher is told %v", late.end)
		}
	})
}

func TestAPauseEndsWhenItIsHeldAndAResumeWhenItIsDone(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		w.put(service.KindSaga, "s2", record(2, saga.Running, step("ready", "running", "")))
		paused, err := w.services.PauseService(w.ctx, connect.NewRequest(&fairleadv1.PauseServiceRequest{Service: "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		p := w.watchKind(paused.Msg.Generation, "pause")
		p.until("ready running")
		held := record(2, saga.Running, step("ready", "done", ""), step("routes", "", ""))
		held.Held = "it is paused before routes"
		w.put(service.KindSaga, "s2", held)
		p.until("")
		if p.end.Outcome != "done" || p.end.Reason != held.Held {
			t.Errorf("ended %v", p.end)
		}
		if s := w.status(); !s.Paused || s.Deployment.GetHeld() != held.Held {
			t.Errorf("status %v", s)
		}
		_, err = w.services.PauseService(w.ctx, connect.NewRequest(&fairleadv1.PauseServiceRequest{Service: "hello"}))
		is(t, err, fault.Invalid, "paused already")
		resumed, err := w.services.ResumeService(w.ctx, connect.NewRequest(&fairleadv1.ResumeServiceRequest{Service: "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		q := w.watchKind(resumed.Msg.Generation, "resume")
		w.put(service.KindSaga, "s2", record(2, saga.Running, step("ready", "done", ""), step("routes", "running", "")))
		q.until("routes running")
		w.put(service.KindSaga, "s2", record(2, saga.Done, step("ready", "done", ""), step("routes", "done", "")))
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: resumed.Msg.Generation, Latest: "hello-00002"})
		q.until("")
		if q.end.Outcome != "done" {
			t.Errorf("ended %v", q.end)
		}
	})
}

func TestADeployWhileTrafficIsPinnedSaysThatItGotNoneAndHowToMoveIt(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		pin := []*fairleadv1.TrafficTarget{{Revision: "hello-00002", Percent: 100}}
		if _, err := w.services.SetTraffic(w.ctx, connect.NewRequest(&fairleadv1.SetTrafficRequest{Service: "hello", Traffic: pin})); err != nil {
			t.Fatal(err)
		}
		r := w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 3, Template: &fairleadv1.Template{Command: []string{"three"}}})
		if !strings.Contains(r.Message, "the new revision gets 0%") {
			t.Errorf("told %q", r.Message)
		}
		w.put(service.KindCatalog, "hello", service.Catalog{
			Service: "hello", ObservedGeneration: 4, Latest: "hello-00003", Traffic: []service.CatalogPart{{Revision: "hello-00002", Percent: 100}},
		})
		w.put(service.KindSaga, "s4", record(4, saga.Done, step("finalize", "done", "")))
		p := w.watch(4)
		p.until("")
		want := "hello-00003 got 0% of the traffic, which is pinned (100% hello-00002); to move it: fairlead traffic hello LATEST=100"
		if p.end.Outcome != "done" || p.end.Hint != want {
			t.Errorf("ended %v", p.end)
		}
		if s := w.status(); s.Pinned != "100% hello-00002" || targetsText(s.WantedTraffic) != "hello-00002 100 " {
			t.Errorf("status says %q, %v", s.Pinned, s.WantedTraffic)
		}
	})
}

func TestStatusNamesTheRevisionThatIsKeptWarm(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		if s := w.status(); s.Warm != "hello-00001" || s.WarmUntil.AsTime().Unix() != 7000 || s.Pinned != "" || s.Paused {
			t.Errorf("status %v", s)
		}
	})
}

func TestADeployThatSaysItsTrafficReplacesItAndOneThatDoesNotLeavesIt(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.twoRevisions()
		split := []*fairleadv1.TrafficTarget{{Revision: "hello-00001", Percent: 90, Tag: "old"}, {Percent: 10}}
		m := func(generation int32) *fairleadv1.DeployRequest {
			return &fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: generation, Template: &fairleadv1.Template{Command: []string{"two"}}}
		}
		set := m(2)
		set.SetTraffic, set.Traffic = true, split
		w.must(set)
		if got := targetsText(w.wanted().Traffic); got != "hello-00001 90 old, 10 " {
			t.Errorf("traffic is %s", got)
		}
		more := m(3)
		more.Instances = 3
		w.must(more)
		if got := targetsText(w.wanted().Traffic); got != "hello-00001 90 old, 10 " {
			t.Errorf("traffic is %s", got)
		}
		for why, edit := range map[string]func(*fairleadv1.DeployRequest){
			"a tag or no traffic": func(m *fairleadv1.DeployRequest) { m.Tag = "x" },
			"90 percent":          func(m *fairleadv1.DeployRequest) { m.Traffic = split[:1] },
			"no revision": func(m *fairleadv1.DeployRequest) {
				m.Traffic = []*fairleadv1.TrafficTarget{{Revision: "x", Percent: 100}}
			},
			"nothing to change": func(m *fairleadv1.DeployRequest) { m.Traffic = nil },
		} {
			bad := m(4)
			bad.SetTraffic, bad.Traffic = true, split
			edit(bad)
			_, err := w.deploy(bad)
			is(t, err, fault.Invalid, why)
		}
		back := m(4)
		back.SetTraffic, back.Traffic = true, []*fairleadv1.TrafficTarget{{Revision: "LATEST", Percent: 100}, {Revision: "hello-00001"}}
		w.must(back)
		if got := targetsText(w.wanted().Traffic); got != "" {
			t.Errorf("traffic is %s", got)
		}
	})
}
