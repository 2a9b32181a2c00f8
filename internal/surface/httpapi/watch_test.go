package httpapi

import (
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
)

// progress is a followed deployment.
type progress struct {
	w      *world
	stream *connect.ServerStreamForClient[fairleadv1.WatchDeploymentResponse]
	said   []string
	end    *fairleadv1.DeploymentEnd
}

func (w *world) watch(generation int32) *progress {
	w.t.Helper()
	return w.watchKind(generation, "")
}

func (w *world) watchKind(generation int32, kind string) *progress {
	w.t.Helper()
	s, err := w.services.WatchDeployment(w.ctx, connect.NewRequest(&fairleadv1.WatchDeploymentRequest{Service: "hello", Generation: generation, Kind: kind}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return &progress{w: w, stream: s}
}

// until receives until the text was said, or the end.
func (p *progress) until(text string) {
	p.w.t.Helper()
	for p.end == nil && (text == "" || !strings.Contains(strings.Join(p.said, "\n"), text)) {
		if !p.stream.Receive() {
			p.w.t.Fatalf("the stream ended without %q: %v; said was %q", text, p.stream.Err(), p.said)
		}
		for _, s := range p.stream.Msg().Steps {
			p.said = append(p.said, s.Step+" "+s.State+" "+s.Text)
		}
		p.end = p.stream.Msg().Ended
	}
}

func step(name, state, text string) saga.Step { return saga.Step{Name: name, State: state, Text: text} }

func TestProgressIsToldStepByStepAndThenTheEnd(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		p := w.watch(1)
		w.put(service.KindSaga, "s1", record(1, saga.Running, step("queue", "running", ""), step("install", "", "")))
		p.until("queue running")
		w.put(service.KindSaga, "s1", record(1, saga.Running, step("queue", "done", "group hello-00001"), step("install", "running", "")))
		p.until("install running")
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: 1, Latest: "hello-00001", Traffic: []service.CatalogPart{{Revision: "hello-00001", Percent: 100}}})
		w.put(service.KindSaga, "s1", record(1, saga.Done, step("queue", "done", "group hello-00001"), step("install", "done", "")))
		p.until("")
		want := "queue running |queue done group hello-00001|install running |install done "
		if got := strings.Join(p.said, "|"); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
		if p.end.Outcome != "done" || p.end.Revision != "hello-00001" || p.end.Serving != "hello-00001 serves all traffic" || p.end.Url == "" {
			t.Errorf("ended %v", p.end)
		}
	})
}

func TestAFailedDeploySaysStepReasonLastLinesWhatServesAndWhenItIsTriedAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		r := record(1, saga.Waiting, step("queue", "done", ""), step("ready", "failed", "exited"))
		r.Error, r.FailedStep, r.LastLines, r.RetryAt = "exit status 3", "ready", []string{"no database"}, time.Unix(5000, 0)
		w.put(service.KindSaga, "s1", r)
		p := w.watch(1)
		p.until("")
		e := p.end
		if e.Outcome != "failed" || e.Step != "ready" || e.Reason != "exit status 3" || len(e.LastLines) != 1 || e.Serving != "nothing serves hello" || e.RetryAt.AsTime().Unix() != 5000 {
			t.Errorf("ended %v", e)
		}
	})
}

func TestADeployThatIsSupersededSaysByWhat(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		p := w.watch(1)
		w.put(service.KindSaga, "s1", record(1, saga.Running, step("queue", "running", "")))
		p.until("queue running")
		w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1, Template: &fairleadv1.Template{Command: []string{"other"}}, By: "bob"})
		w.put(service.KindSaga, "s1", record(1, saga.Superseded, step("queue", "failed", "superseded")))
		p.until("")
		if p.end.Outcome != "superseded" || !strings.Contains(p.end.Reason, "generation 2") || !strings.Contains(p.end.Reason, "bob") {
			t.Errorf("ended %v", p.end)
		}
	})
}

func TestADeployThatADeletionEndsSaysSo(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		p := w.watch(1)
		w.put(service.KindSaga, "s1", record(1, saga.Running, step("queue", "running", "")))
		p.until("queue running")
		if _, err := w.delete("hello"); err != nil {
			t.Fatal(err)
		}
		w.put(service.KindSaga, "s1", record(1, saga.Superseded, step("queue", "failed", "superseded")))
		p.until("")
		if p.end.Outcome != "superseded" || p.end.Reason != "superseded by the deletion of hello (generation 2), asked for by ann" || p.end.Serving != "" {
			t.Errorf("ended %v", p.end)
		}
	})
}

func TestADeployThatGoesOnUnderALaterGenerationIsFollowedToItsEnd(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		p := w.watch(1)
		w.put(service.KindSaga, "s1", record(1, saga.Running, step("ready", "running", "")))
		p.until("ready running")
		if _, err := w.services.PauseService(w.ctx, connect.NewRequest(&fairleadv1.PauseServiceRequest{Service: "hello"})); err != nil {
			t.Fatal(err)
		}
		held := record(1, saga.Running, step("ready", "done", ""), step("routes", "", ""))
		held.Held = "it is paused before routes"
		w.put(service.KindSaga, "s1", held)
		p.until("routes held it is paused before routes")
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: 1, Latest: "hello-00001"})
		w.put(service.KindSaga, "s1", record(1, saga.Done, step("ready", "done", ""), step("routes", "done", "")))
		p.until("")
		if p.end.Outcome != "done" {
			t.Errorf("ended %v; said %q", p.end, p.said)
		}
	})
}

func TestADeployThatWasNeverBegunIsSupersededAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1, Template: &fairleadv1.Template{Command: []string{"other"}}})
		p := w.watch(1)
		p.until("")
		if p.end.Outcome != "superseded" {
			t.Errorf("ended %v", p.end)
		}
	})
}

func TestADeployThatWasDoneIsNotSaidToBeSupersededByALaterOne(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.put(service.KindSaga, "s1", record(1, saga.Done, step("queue", "done", "")))
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: 1})
		w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1, Instances: 2})
		for _, observed := range []int32{1, 2} {
			w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: observed})
			p := w.watch(1)
			p.until("")
			if p.end.Outcome != "done" {
				t.Errorf("ended %v with %d applied", p.end, observed)
			}
		}
		w.erase(service.KindSaga, "s1")
		p := w.watch(1)
		p.until("")
		if p.end.Outcome != "superseded" {
			t.Errorf("ended %v", p.end)
		}
	})
}

func TestADeletionEndsWhenItsDocumentIsGone(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		if _, err := w.services.DeleteService(w.ctx, connect.NewRequest(&fairleadv1.DeleteServiceRequest{Service: "hello"})); err != nil {
			t.Fatal(err)
		}
		p := w.watch(2)
		r := record(2, saga.Running, step("routes", "done", ""))
		r.Kind = "delete"
		w.put(service.KindSaga, "s2", r)
		p.until("routes done")
		w.erase(service.KindSaga, "s2")
		w.erase(service.KindDesired, "hello")
		p.until("")
		if p.end.Outcome != "deleted" {
			t.Errorf("ended %v", p.end)
		}
		late := w.watch(2)
		late.until("")
		if late.end.Outcome != "deleted" {
			t.Errorf("a late watcher is told %v", late.end)
		}
	})
}

func TestADeletionThatWaitsForAHostSaysSoAndIsFollowedToItsEnd(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		if _, err := w.services.DeleteService(w.ctx, connect.NewRequest(&fairleadv1.DeleteServiceRequest{Service: "hello"})); err != nil {
			t.Fatal(err)
		}
		p := w.watchKind(2, "delete")
		r := record(2, saga.Waiting, step("stop", "failed", "host h2 is away"))
		r.Kind = "delete"
		w.put(service.KindSaga, "s2", r)
		p.until("stop waiting host h2 is away; it goes on by itself")
		w.erase(service.KindSaga, "s2")
		w.erase(service.KindDesired, "hello")
		p.until("")
		if p.end.Outcome != "deleted" {
			t.Errorf("ended %v", p.end)
		}
	})
}

func TestADeletionThatANewerDocumentOutlivedEndsAsSuperseded(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		if _, err := w.services.DeleteService(w.ctx, connect.NewRequest(&fairleadv1.DeleteServiceRequest{Service: "hello"})); err != nil {
			t.Fatal(err)
		}
		p := w.watchKind(2, "delete")
		r := record(2, saga.Running, step("erase", "done", ""))
		r.Kind = "delete"
		w.put(service.KindSaga, "s2", r)
		p.until("erase done")
		w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 2})
		w.erase(service.KindSaga, "s2")
		p.until("")
		if p.end.Outcome != "superseded" {
			t.Errorf("ended %v", p.end)
		}
	})
}

func TestTheSagasOfOtherGenerationsAndServicesTellNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.must(&fairleadv1.DeployRequest{Service: "hello", ExpectedGeneration: 1, Instances: 2})
		other := record(2, saga.Failed, step("queue", "failed", ""))
		other.Owner = "other"
		w.put(service.KindSaga, "s0", other)
		w.put(service.KindSaga, "s1", record(1, saga.Superseded, step("queue", "done", "old")))
		collect := record(2, saga.Done, step("collect", "done", ""))
		collect.Kind = "collect"
		w.put(service.KindSaga, "s2", collect)
		p := w.watch(2)
		w.put(service.KindSaga, "s3", record(2, saga.Done, step("queue", "done", "new")))
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: 2})
		p.until("")
		if got := strings.Join(p.said, "|"); got != "queue done new" || p.end.Outcome != "done" {
			t.Errorf("said %q, ended %v", got, p.end)
		}
	})
}

func TestWhoWaitsForAScaleIsNotToldOfAnotherAttemptOfAFailedDeploy(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", Traffic: []service.CatalogPart{{Revision: "hello-00001", Percent: 100}}})
		w.put(service.KindSaga, "s1", record(1, saga.Waiting, step("ready", "failed", "")))
		p := w.watchKind(1, "scale")
		r := record(1, saga.Running, step("place", "done", "3 wanted"))
		r.Kind = "scale"
		w.put(service.KindSaga, "s2", r)
		p.until("place")
		r.State = saga.Done
		w.put(service.KindSaga, "s2", r)
		p.until("")
		if got := strings.Join(p.said, "|"); got != "place done 3 wanted" || p.end.Outcome != "done" {
			t.Errorf("said %q, ended %v", got, p.end)
		}
	})
}

func TestWhoWaitsForAScaleOfWhatNeverServedIsToldThatTheDeployFails(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		w.put(service.KindSaga, "s1", record(1, saga.Waiting, step("ready", "failed", "")))
		p := w.watchKind(1, "scale")
		p.until("")
		if p.end.Outcome != "failed" {
			t.Errorf("ended %v", p.end)
		}
	})
}

func TestAGenerationThatWasNeverWrittenIsNotWatched(t *testing.T) {
	w := newWorld(t, memory.Open(memory.Options{}))
	w.must(&fairleadv1.DeployRequest{Service: "hello"})
	s, err := w.services.WatchDeployment(w.ctx, connect.NewRequest(&fairleadv1.WatchDeploymentRequest{Service: "hello", Generation: 7}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Receive() || !errors.Is(fault.FromConnect(s.Err()), fault.NotFound) {
		t.Errorf("got %v, %v", s.Msg(), s.Err())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAWatcherThatFellBehindListsAgain runs over a store that keeps one commit:
// whatever is written while the client does not read is too old.
func TestAWatcherThatFellBehindListsAgain(t *testing.T) {
	w := newWorld(t, memory.Open(memory.Options{KeepCommits: 1}))
	w.must(&fairleadv1.DeployRequest{Service: "hello"})
	f := &follower{api: w.api, service: "hello", generation: 1, told: map[string]saga.Step{}}
	from, err := f.snapshot(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.put(service.KindSaga, "s1", record(1, saga.Running, step("queue", "running", "")))
	}
	var got []*fairleadv1.WatchDeploymentResponse
	send := func(m *fairleadv1.WatchDeploymentResponse) error {
		got = append(got, m)
		if m.Ended == nil {
			w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", ObservedGeneration: 1})
			w.put(service.KindSaga, "s1", record(1, saga.Done, step("queue", "done", "")))
		}
		return nil
	}
	if _, err := f.follow(w.ctx, from, send); !errors.Is(err, store.ErrTooOld) {
		t.Fatalf("got %v", err)
	}
	if err := f.run(w.ctx, send); err != nil || len(got) != 2 || got[1].Ended.GetOutcome() != "done" {
		t.Errorf("got %v, %v", got, err)
	}
}
