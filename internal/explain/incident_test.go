package explain

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// rewrite writes the transcripts anew: only commit the changes if you understand
// what caused them.
var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

const incarnation = "01J0STORE"

var now = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// facts are of a service shop whose first revision serves through two gateways,
// and whose second one is asked for.
func facts() Facts {
	s := &service.Snapshot{
		Service: "shop",
		Desired: service.Doc[service.Desired]{Version: 20, Value: service.Desired{
			Service: "shop", Generation: 2, Template: template("two"), Instances: 1, By: "ann@laptop", At: now.Add(-time.Minute),
		}},
		Catalog: service.Doc[service.Catalog]{Version: 12, Value: service.Catalog{
			Service: "shop", ObservedGeneration: 1, LastRevision: 2, Latest: "shop-00001", Hosts: []string{"shop.localhost"},
			Traffic: []service.CatalogPart{{Revision: "shop-00001", Percent: 100, Group: "shop-00001"}},
		}},
		Routes: service.Doc[service.Routes]{Version: 11, Value: service.Routes{Service: "shop", Plan: plan(1), Reason: "deploy of shop-00001"}},
		Revisions: []service.Doc[service.Revision]{
			{Version: 12, Value: revision(1, service.RevisionServing)}, {Version: 21, Value: revision(2, service.RevisionPending)},
		},
		Intent: "digest of two",
	}
	w := &service.World{
		Hosts:       map[string]service.HostState{"h1": {Host: service.Host{Name: "h1", Zone: "a"}, Connected: true, Reported: true}},
		Instances:   map[string][]service.Instance{},
		Of:          map[string][]service.Instance{},
		Incarnation: incarnation, Sequence: 40,
	}
	f := Facts{Snapshot: s, World: w, Leading: true, Now: now}
	f.gateway("gw-1", 30, time.Second)
	f.gateway("gw-2", 30, time.Second)
	f.runs(1, service.Instance{ID: "i1", State: service.InstanceLive, Pid: 4711})
	f.runs(2, service.Instance{ID: "i2", State: service.InstanceLive, Pid: 4712})
	return f
}

func template(command string) service.Template {
	return service.Template{Command: []string{"shop", command}}
}

func revision(n int32, state service.RevisionState) service.Revision {
	name := service.RevisionName("shop", n)
	digest := map[int32]string{1: "digest of one", 2: "digest of two"}[n]
	return service.Revision{
		Name: name, Service: "shop", Number: n, Digest: digest, State: state, Generation: n,
		Slots: []service.Slot{{ID: service.SlotID(name, 0), Host: "h1", Zone: "a"}},
	}
}

func plan(n int32) view.Route {
	name := service.RevisionName("shop", n)
	return view.Route{
		Service: "shop", Hosts: []string{"shop.localhost"},
		Splits: []view.Split{{Revision: name, Percent: 100, Group: name, Allowed: []string{name}}},
	}
}

func version(counter uint64) view.Version {
	return view.Version{Incarnation: incarnation, Epoch: 3, Counter: counter}
}

// gateway serves and keeps the table of that number.
func (f *Facts) gateway(name string, table uint64, silent time.Duration) {
	g := service.KnownGateway{Gateway: service.Gateway{Name: name, Serves: version(table), Keeps: version(table)}, Silent: silent}
	g.State = &service.GatewayState{Name: name, Connected: silent < service.BehindAfter, Silent: silent, Serves: g.Serves, Keeps: g.Keeps}
	for i := range f.World.Gateways {
		if f.World.Gateways[i].Name == name {
			f.World.Gateways[i] = g
			return
		}
	}
	f.World.Gateways = append(f.World.Gateways, g)
}

// runs has the instance in the one slot of revision n.
func (f *Facts) runs(n int32, i service.Instance) {
	i.Service, i.Revision, i.Host, i.Zone = "shop", service.RevisionName("shop", n), "h1", "a"
	i.Slot = service.SlotID(i.Revision, 0)
	f.World.Instances[i.Slot] = []service.Instance{i}
	f.World.Of["shop"] = append(f.World.Of["shop"], i)
}

// deploy of the second revision, its steps done up to the one named, which is
// in the state.
func (f *Facts) deploy(r saga.Record, at, state string) {
	r.ID, r.Kind, r.Owner, r.Subject, r.Generation, r.Started = "shop.deploy.shop-00002.01J1", service.WorkDeploy, "shop", "shop-00002", 2, now.Add(-50*time.Second)
	texts := map[string]string{
		"queue": "group shop-00002", "install": "on 1 host", "instances": "1 instance on 1 host", "ready": "1 instance live for 3s",
		"routes": "100% to shop-00002; acknowledged by 2 of 2 gateways",
	}
	done := true
	for _, name := range []string{"queue", "install", "instances", "ready", "routes", "finalize"} {
		step := saga.Step{Name: name}
		switch {
		case name == at:
			step.State, done = state, false
		case done:
			step.State, step.Text = "done", texts[name]
		}
		r.Steps = append(r.Steps, step)
	}
	f.Snapshot.Sagas = []service.Doc[saga.Record]{{Value: r, Version: 35}}
}

func (r Report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Service, r.Summary)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n%s\n", s.Title)
		for _, l := range s.Lines {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}
	return b.String()
}

// golden compares with the transcript of that name.
func golden(t *testing.T, name string, r Report) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := r.text()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", path, diff)
	}
}

// TestFinalizeFailedAfterPublication: the gateways have the new route, the
// record of it failed, and the store does not take the way back yet either.
func TestFinalizeFailedAfterPublication(t *testing.T) {
	f := facts()
	f.Snapshot.Routes = service.Doc[service.Routes]{Version: 30, Value: service.Routes{
		Service: "shop", Plan: plan(2), Reason: "deploy of shop-00002", Earlier: []service.PublishedPlan{{Sequence: 11, Plan: plan(1)}},
	}}
	f.deploy(saga.Record{
		State: saga.Compensating, Attempt: 1, FailedStep: "finalize", Error: "the store did not answer in 5s", RetryAt: now.Add(20 * time.Second), Backoff: 30 * time.Second,
		Effects: map[string]string{"published": "100% to shop-00002", "undo": "cannot undo routes: the store did not answer in 5s"},
	}, "finalize", "failed")
	golden(t, "finalize-failed-after-publication", Explain(f))

	// Later the earlier plan is published again and acknowledged.
	f.Snapshot.Routes = service.Doc[service.Routes]{Version: 44, Value: service.Routes{
		Service: "shop", Plan: plan(1), Reason: "what shop-00002 published is put back",
	}}
	f.World.Sequence = 44
	f.gateway("gw-1", 44, 0)
	f.gateway("gw-2", 44, 0)
	f.deploy(saga.Record{
		State: saga.Waiting, Attempt: 1, FailedStep: "finalize", Error: "the store did not answer in 5s", RetryAt: now.Add(30 * time.Second), Backoff: 30 * time.Second,
	}, "finalize", "failed")
	golden(t, "finalize-failed-and-undone", Explain(f))
}

// TestAGatewayCutOffDuringADeploy: the deploy ended without it, and what it may
// still route to is kept.
func TestAGatewayCutOffDuringADeploy(t *testing.T) {
	f := facts()
	f.Snapshot.Routes = service.Doc[service.Routes]{Version: 30, Value: service.Routes{
		Service: "shop", Plan: plan(2), Reason: "deploy of shop-00002", Earlier: []service.PublishedPlan{{Sequence: 11, Plan: plan(1)}},
	}}
	f.gateway("gw-2", 25, 130*time.Second)
	f.Snapshot.Catalog.Value = service.Catalog{
		Service: "shop", ObservedGeneration: 2, LastRevision: 2, Latest: "shop-00002", Hosts: []string{"shop.localhost"},
		Traffic: []service.CatalogPart{{Revision: "shop-00002", Percent: 100, Group: "shop-00002"}},
		Earlier: []service.EarlierTraffic{{Revision: "shop-00001", Ended: now.Add(-2 * time.Minute)}},
	}
	f.Snapshot.Revisions[1].Value.State = service.RevisionServing
	f.deploy(saga.Record{State: saga.Done, Attempt: 1, Ended: now.Add(-2 * time.Minute)}, "", "")
	golden(t, "gateway-cut-off-during-a-deploy", Explain(f))
}

// TestAReleaseThatNeverBecomesReady: its program ends at once, the old revision
// serves on, and the deploy waits for its third attempt.
func TestAReleaseThatNeverBecomesReady(t *testing.T) {
	f := facts()
	f.World.Of = map[string][]service.Instance{}
	f.runs(1, service.Instance{ID: "i1", State: service.InstanceLive, Pid: 4711})
	f.runs(2, service.Instance{ID: "i9", State: service.InstanceExited, Restarts: 6, ExitStatus: "exit status 3", Detail: "no database"})
	f.deploy(saga.Record{
		State: saga.Waiting, Attempt: 2, FailedStep: "ready", Error: "shop-00002.0 is not ready after 1m0s: exit status 3", LastLines: []string{"connecting to db:5432", "no database"},
		RetryAt: now.Add(time.Minute), Backoff: time.Minute,
	}, "ready", "failed")
	golden(t, "release-that-never-becomes-ready", Explain(f))
}

// TestAnExclusiveHandoverHoldsRequests: what serves was told to end, and what
// comes waits for it; then its host is not heard any more; then the new one starts.
func TestAnExclusiveHandoverHoldsRequests(t *testing.T) {
	f := facts()
	f.Snapshot.Routes = service.Doc[service.Routes]{Version: 30, Value: service.Routes{
		Service: "shop", Plan: service.Held(plan(2)), Reason: "deploy of generation 2", At: now.Add(-20 * time.Second),
	}}
	f.Snapshot.Revisions[0].Value.Slots, f.Snapshot.Revisions[1].Value.Slots = nil, nil
	f.World.Instances, f.World.Of = map[string][]service.Instance{}, map[string][]service.Instance{}
	f.runs(1, service.Instance{ID: "i1", State: service.InstanceDraining, Pid: 4711})
	f.World.Gateways[0].State.Waiting = map[string]int{"shop": 10, "other": 3}
	f.World.Gateways[1].State.Waiting = map[string]int{"shop": 4}
	f.deploy(saga.Record{State: saga.Running, Attempt: 1, Effects: map[string]string{
		"published": "held: 100% to shop-00002", service.EffectHold: now.Add(85 * time.Second).Format(time.RFC3339),
	}}, "instances", "running")
	golden(t, "exclusive-handover-holds", Explain(f))

	h := f.World.Hosts["h1"]
	h.Silent = 20 * time.Second
	f.World.Hosts["h1"] = h
	f.gateway("gw-2", 25, 130*time.Second)
	r := Explain(f)
	says(t, r, "routes", "and 10 wait (gw-1 10, gw-2 is not heard)",
		"they wait for the end of slot shop-00001.0 of shop-00001 on host h1, which is draining; the host is not heard for 20s: if it does not come back: fairlead hosts retire h1")
	if want := "; they wait for the end of slot shop-00001.0 of shop-00001 on host h1"; !strings.Contains(r.Summary, want) {
		t.Errorf("the summary is %q", r.Summary)
	}
	f.World.Retired = func(string) bool { return true }
	h.Connected = false
	f.World.Hosts["h1"] = h
	says(t, Explain(f), "routes", "they wait for shop-00002 to be ready")

	f = facts()
	f.Snapshot.Routes = service.Doc[service.Routes]{Version: 30, Value: service.Routes{Service: "shop", Plan: service.Held(plan(2)), At: now}}
	f.World.Instances, f.World.Of = map[string][]service.Instance{}, map[string][]service.Instance{}
	f.runs(2, service.Instance{ID: "i2", State: service.InstanceStarting, Pid: 4712})
	says(t, Explain(f), "routes", "they wait for slot shop-00002.0 on host h1 to be live")
	f.Snapshot.Revisions[1].Value.Slots[0].Host = "h2" // where it is moved to
	says(t, Explain(f), "routes", "they wait for the end of slot shop-00002.0 of shop-00002 on host h1, which is starting")
}

// TestAHostThatIsNotHeardIsADifference: what it said last is not what is known.
func TestAHostThatIsNotHeardIsADifference(t *testing.T) {
	f := settled()
	h := f.World.Hosts["h1"]
	h.Connected, h.Silent = false, 16*time.Second
	f.World.Hosts["h1"] = h
	r := Explain(f)
	says(t, r, "differences", "host h1 runs 1 instance of it, and it was not heard for 16s: what is said of them is its last word")
	if strings.Contains(r.Summary, "all agree") && !strings.Contains(r.Summary, "not all agree") {
		t.Errorf("the summary is %q", r.Summary)
	}
}

// TestADeadGatewayHasCredits: a gateway was killed, and has a third of them.
func TestADeadGatewayHasCredits(t *testing.T) {
	f := settled()
	f.gateway("gw-2", 30, 12*time.Second)
	f.World.Of["shop"][0].Away = map[string]int{"gw-2": 33}
	r := Explain(f)
	says(t, r, "gateways", "gw-2 has 33 of the 100 credits of what is live, and its hosts do not hear it: nobody else can use them")
	says(t, r, "to do", "if gateway gw-2 does not come back: fairlead gateways retire gw-2")
}
