package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// believed is what the plane says of the service hello, as a test has it.
type believed struct {
	observing bool
	standings []discovery.Standing
	guards    []discovery.GuardState
	probers   []discovery.ProberState
	sources   []discovery.SourceState
	differ    []discovery.Difference
	decided   discovery.GuardDecision
}

func (b *believed) Standings(name string) ([]discovery.Standing, bool) {
	if name != "hello" {
		return nil, b.observing
	}
	return slices.Clone(b.standings), b.observing
}

func (b *believed) Probers() ([]discovery.ProberState, int, bool) { return b.probers, 4, b.observing }
func (b *believed) Guards(string) []discovery.GuardState          { return b.guards }
func (b *believed) Decide(_ context.Context, _ string, d discovery.GuardDecision) ([]discovery.GuardState, error) {
	b.decided = d
	return b.guards, nil
}

func (b *believed) Runtime() ([]discovery.SourceState, []discovery.Difference, bool) {
	return b.sources, b.differ, b.observing
}

func (b *believed) Try(context.Context, string, eligibility.Contract, time.Duration) (discovery.Trial, error) {
	return discovery.Trial{}, nil
}

func standingOf(id string, v view.Verdict, rule eligibility.Rule, served int) discovery.Standing {
	return discovery.Standing{
		Standing: evaluate.Standing{
			Instance: registry.Instance{ID: id, Service: "hello", Revision: "hello-00001", Slot: "hello-00001.0", Host: "h1", Zone: "a", Address: "127.0.0.1:1"},
			Verdict:  v, Rule: rule, Flaps: 2,
			Account: eligibility.Account{Why: "its callers fail here", Classes: []string{"probes: 0%", "outcomes: 40%"}, Next: "30 s in which nothing speaks against it"},
		},
		At: time.Unix(7, 0), Served: served, Said: []string{"self: database degraded by 10%"},
	}
}

// seeing has the API tell what b says.
func (w *world) seeing(b *believed) fairleadv1connect.DiscoveryAPIServiceClient {
	w.api.Discovery, w.api.Runtime = b, b
	w.must(&fairleadv1.DeployRequest{Service: "hello"})
	return fairleadv1connect.NewDiscoveryAPIServiceClient(http.DefaultClient, w.url)
}

func TestInstancesAreListedWithVerdictRuleWeightAndSinceWhenAndTheGuardsThatTripped(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		b := &believed{
			observing: true,
			standings: []discovery.Standing{standingOf("i2", view.Ineligible, eligibility.FailingCallers, 0), standingOf("i1", view.Degraded, eligibility.FailingSome, 400)},
			guards: []discovery.GuardState{{
				Guarded: view.Guarded{ZoneMark: view.ZoneMark{Group: "hello-00001", Zone: "a", Counted: 4, In: 1}, Served: 3}, Mode: view.HoldForPerson, Since: time.Unix(9, 0),
			}},
		}
		w.seeing(b)
		r, err := w.services.ListInstances(w.ctx, connect.NewRequest(&fairleadv1.ListInstancesRequest{Service: "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		all := r.Msg.GetInstances()
		if len(all) != 2 || all[0].GetId() != "i1" || all[1].GetId() != "i2" {
			t.Fatalf("listed are %v", all)
		}
		if x := all[0]; x.GetVerdict() != "degraded" || x.GetRule() != "failing-some" || x.GetWeight() != 0.4 || x.GetSince().AsTime().Unix() != 7 || x.GetChanges() != 2 || x.GetZone() != "a" {
			t.Errorf("i1 is %v", x)
		}
		if g := r.Msg.GetGuards(); len(g) != 1 || g[0].GetMode() != "hold" || g[0].GetServed() != 3 || g[0].GetIn() != 1 || g[0].GetDecision() != "" || g[0].GetSince().AsTime().Unix() != 9 {
			t.Errorf("guards are %v", g)
		}
		if _, err := w.services.ListInstances(w.ctx, connect.NewRequest(&fairleadv1.ListInstancesRequest{Service: "nobody"})); fault.CodeOf(fault.FromConnect(err)) != fault.NotFound {
			t.Errorf("of a service that is not there: %v", err)
		}
	})
}

func TestAnExplanationOfAnInstanceHasItsRuleItsEvidenceAndWhatWouldChangeIt(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		b := &believed{standings: []discovery.Standing{standingOf("i1", view.Ineligible, eligibility.FailingCallers, 0)}}
		w.seeing(b)
		explain := func(id string) (*fairleadv1.ExplainInstanceResponse, error) {
			r, err := w.services.ExplainInstance(w.ctx, connect.NewRequest(&fairleadv1.ExplainInstanceRequest{Service: "hello", Instance: id}))
			if err != nil {
				return nil, fault.FromConnect(err)
			}
			return r.Msg, nil
		}
		if _, err := explain("i1"); fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "only just begun to observe") {
			t.Errorf("before anything is observed: %v", err)
		}
		b.observing = true
		m, err := explain("i1")
		if err != nil {
			t.Fatal(err)
		}
		if m.GetInstance().GetRule() != "failing-callers" || m.GetWhy() != "its callers fail here" || m.GetNext() != "30 s in which nothing speaks against it" ||
			!slices.Equal(m.GetEvidence(), []string{"probes: 0%", "outcomes: 40%", "self: database degraded by 10%"}) {
			t.Errorf("explained as %v", m)
		}
		if _, err := explain("i9"); fault.CodeOf(err) != fault.NotFound || !strings.Contains(fault.HintOf(err), "fairlead history hello --instance i9") {
			t.Errorf("of one that is not there: %v, %q", err, fault.HintOf(err))
		}
	})
}

func TestAGuardIsDecidedInTheNameOfWhoAsks(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		b := &believed{observing: true, guards: []discovery.GuardState{{Guarded: view.Guarded{ZoneMark: view.ZoneMark{Group: "g", Zone: "a"}, Decision: view.Accepted}, By: "ann"}}}
		client := w.seeing(b)
		for accept, want := range map[bool]view.Decision{true: view.Accepted, false: view.Declined} {
			r, err := client.DecideGuard(w.ctx, connect.NewRequest(&fairleadv1.DecideGuardRequest{Service: "hello", Group: "g", Zone: "a", Accept: accept}))
			if err != nil {
				t.Fatal(err)
			}
			if b.decided.Decision != want || b.decided.Group != "g" || b.decided.Zone != "a" || !strings.Contains(b.decided.By, "ann") {
				t.Errorf("decided is %+v", b.decided)
			}
			if d := r.Msg.GetDecided(); len(d) != 1 || d[0].GetBy() != "ann" || d[0].GetDecision() != "accepted" {
				t.Errorf("told is %v", d)
			}
		}
		if _, err := client.DecideGuard(w.ctx, connect.NewRequest(&fairleadv1.DecideGuardRequest{Service: "hello", Accept: true, By: "x" + strings.Repeat("ä", 99)})); err != nil || b.decided.By != "x"+strings.Repeat("ä", 49) {
			t.Errorf("by a long name it is decided by %q: %v", b.decided.By, err)
		}
		w.api.Discovery = nil
		_, err := client.DecideGuard(w.ctx, connect.NewRequest(&fairleadv1.DecideGuardRequest{Service: "hello", Accept: true}))
		if fault.CodeOf(fault.FromConnect(err)) != fault.Unavailable {
			t.Errorf("where nothing is observed: %v", err)
		}
	})
}

func TestProbersAreListedWithTheirSilenceTheirTargetsAndWhyTheyAreDoubted(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		b := &believed{observing: true, probers: []discovery.ProberState{
			{Name: "p1", Zone: "a", Connected: true, Targets: 12, Borrowed: 2, Assignment: 5, Looked: time.Now().Add(-time.Minute), Suspect: time.Unix(8, 0), Why: "10 of 12 fail"},
			{Name: "p2", Zone: "b", Silent: time.Hour, Gone: true},
		}}
		w.seeing(b)
		r, err := w.admin.ListProbers(w.ctx, connect.NewRequest(&fairleadv1.ListProbersRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		all := r.Msg.GetProbers()
		if len(all) != 2 || !r.Msg.GetObserving() || r.Msg.GetUnwatched() != 4 {
			t.Fatalf("told is %v", r.Msg)
		}
		if p := all[0]; !p.GetSuspect() || p.GetSuspectSince().AsTime().Unix() != 8 || p.GetWhy() != "10 of 12 fail" || p.GetTargets() != 12 || p.GetBorrowed() != 2 || p.GetLooked().AsDuration() < time.Minute {
			t.Errorf("p1 is %v", p)
		}
		if p := all[1]; p.GetSuspect() || p.GetLooked() != nil || !p.GetGone() || p.GetSilent().AsDuration() != time.Hour {
			t.Errorf("p2 is %v", p)
		}
	})
}

func TestTheDifferenceOfAuthoritiesAndRegistrySaysWhoDoesNotAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		b := &believed{
			observing: true,
			sources: []discovery.SourceState{
				{Source: registry.Host, Name: "h1", Listed: 3, Registered: 4, Heard: true, Lag: 2 * time.Second}, {Source: registry.Host, Name: "h2", Registered: 1},
			},
			differ: []discovery.Difference{{Source: registry.Host, Name: "h1", Service: "hello", Instance: "i4", What: discovery.Missing, Authority: "-", Registry: "registered"}},
		}
		client := w.seeing(b)
		r, err := client.DiffRuntime(w.ctx, connect.NewRequest(&fairleadv1.DiffRuntimeRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		s := r.Msg.GetSources()
		if len(s) != 2 || !s[0].GetAnswers() || s[0].GetLag().AsDuration() != 2*time.Second || s[1].GetAnswers() || s[1].GetLag() != nil {
			t.Errorf("sources are %v", s)
		}
		if d := r.Msg.GetDifferences(); len(d) != 1 || d[0].GetInstance() != "i4" || d[0].GetWhat() != "missing" || d[0].GetRegistry() != "registered" {
			t.Errorf("differences are %v", d)
		}
		w.api.Runtime = nil
		if r, err := client.DiffRuntime(w.ctx, connect.NewRequest(&fairleadv1.DiffRuntimeRequest{})); err != nil || r.Msg.GetObserving() {
			t.Errorf("where nothing is observed: %v, %v", r, err)
		}
	})
}

func TestStatusShowsTheServicesAlarmsAndOfEachInstanceItsVerdict(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		b := &believed{observing: true, standings: []discovery.Standing{standingOf("i1", view.Degraded, eligibility.FailingSome, 400)}}
		w.seeing(b)
		w.alarms = []string{"callers of zone b fail everywhere", "a person must decide"}
		w.put(service.KindCatalog, "hello", service.Catalog{Service: "hello", NeedsOperator: "a person must decide"})
		w.put(service.KindRevision, "hello-00001", service.Revision{Name: "hello-00001", Service: "hello", State: service.RevisionServing})
		w.hosts = []service.HostState{{Host: service.Host{Name: "h1", Zone: "a"}, Connected: true, Reported: true, Instances: []service.Instance{
			{ID: "i1", Slot: "hello-00001.0", Service: "hello", Revision: "hello-00001", State: service.InstanceLive},
			{ID: "i2", Slot: "hello-00001.1", Service: "hello", Revision: "hello-00001", State: service.InstanceLive},
		}}}
		s := w.status()
		if want := []string{"disk is nearly full", "callers of zone b fail everywhere"}; !slices.Equal(s.GetAlarms(), want) {
			t.Errorf("alarms are %q, want %q: what is said as its own line is not said twice", s.GetAlarms(), want)
		}
		if s.GetNeedsOperator() != "a person must decide" {
			t.Errorf("needs operator: %q", s.GetNeedsOperator())
		}
		verdicts := map[string]string{}
		for _, i := range s.GetInstances() {
			verdicts[i.GetId()] = i.GetEligibility()
		}
		if len(verdicts) != 2 || verdicts["i1"] != "degraded" || verdicts["i2"] != "unknown" {
			t.Errorf("verdicts are %v", verdicts)
		}
	})
}

func TestFlapsSayWhoIsQuarantinedAndWhatEarnedIt(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		s := standingOf("i1", view.Ineligible, eligibility.Quarantined, 0)
		s.Until = 160
		client := w.seeing(&believed{observing: true, standings: []discovery.Standing{s}})
		at := time.Now().Add(-time.Hour).UTC()
		for n := range int64(5) {
			r := discovery.Record{
				Service: "hello", Instance: "i1", Tick: 96 + n, At: at.Add(time.Duration(n) * time.Second),
				From: eligibility.Eligible, To: eligibility.Ineligible, Rule: eligibility.FailingProbes, Why: "most of the looks fail",
			}
			if n%2 == 1 {
				r.From, r.To, r.Rule = eligibility.Ineligible, eligibility.Eligible, eligibility.Serving
			}
			if r.FromRule = eligibility.Serving; n == 4 {
				r.Rule, r.Quarantined = eligibility.Quarantined, true
				r.State.Quarantine.Until = 160
			}
			w.put(service.KindTransition, fmt.Sprintf("hello.%012d.1", r.Tick), r)
		}
		r, err := client.ListFlaps(w.ctx, connect.NewRequest(&fairleadv1.ListFlapsRequest{Service: "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		q := r.Msg.GetQuarantines()
		if len(q) != 1 || q[0].GetInstance() != "i1" || !q[0].GetInForce() || len(q[0].GetEarnedBy()) != 5 || r.Msg.GetChanges() != 2 || q[0].GetLength().AsDuration() != time.Minute {
			t.Errorf("told is %v", r.Msg)
		}
	})
}
