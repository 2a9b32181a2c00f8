package evaluate

import (
	"fmt"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

// callers are reporters that call every instance each second.
type callers struct {
	*plane
	reporters []*evidence.Reporter
	number    uint64
}

func (p *plane) callers(n int) *callers {
	c := &callers{plane: p}
	for i := range n {
		c.reporters = append(c.reporters, evidence.NewReporter(fmt.Sprint("caller ", i)))
	}
	return c
}

// call has n seconds pass in which each caller makes per calls to each
// instance, of which the share says how many in a hundred fail.
func (c *callers) call(n, per int, share func(caller int, x registry.Instance) int) {
	for i := range n {
		if i%5 == 0 {
			c.looks(good)
		}
		c.number++
		for r, reporter := range c.reporters {
			b := evidence.Batch{Number: c.number}
			for _, x := range c.in() {
				failed := 0
				for k := range per { // spread evenly over the seconds
					if at := (int(c.number)*per + k + r*37 + int(x.Handle)*11) * 61; at%100 < share(r, x) {
						failed++
					}
				}
				b.Rows = append(b.Rows, evidence.Row{Instance: x.Handle, OK: uint32(per - failed), Failed: uint32(failed)})
			}
			c.ingest.Outcomes(reporter, b)
		}
		c.second()
	}
}

// in are the instances that are called: out of rotation nobody is.
func (c *callers) in() (rows []registry.Instance) {
	for _, x := range c.Standings("s") {
		if x.Verdict != view.Ineligible {
			rows = append(rows, x.Instance)
		}
	}
	return rows
}

func none(int, registry.Instance) int { return 0 }

// out names who was withdrawn.
func (p *plane) out() (ids []string) {
	for _, x := range p.Standings("s") {
		if x.Verdict == view.Ineligible {
			ids = append(ids, x.ID)
		}
	}
	return ids
}

func (p *plane) everWithdrawn(t *testing.T) {
	t.Helper()
	for _, tr := range p.history {
		if tr.To == eligibility.Ineligible {
			t.Errorf("%s was withdrawn at %d: %s", tr.Instance, tr.Tick, tr.Account().Why)
		}
	}
}

func TestAGreyFailureIsDegradedThenOutByOutcomesAlone(t *testing.T) {
	for _, reporters := range []int{1, 40} {
		t.Run(fmt.Sprint(reporters, " reporters"), func(t *testing.T) {
			p := newPlane(3, "a", "b")
			c := p.callers(reporters)
			c.call(60, 10, none)
			c.call(30, 10, func(_ int, x registry.Instance) int {
				if x.ID == "a-001" {
					return 33
				}
				return 0
			})
			seen := []eligibility.Verdict{}
			for _, tr := range p.history {
				if tr.Instance == "a-001" {
					seen = append(seen, tr.To)
				} else if tr.To != eligibility.Eligible {
					t.Errorf("%s became %s: %s", tr.Instance, tr.To, tr.Account().Why)
				}
			}
			if len(seen) != 3 || seen[1] != eligibility.Degraded || seen[2] != eligibility.Ineligible {
				t.Errorf("it was %v; want eligible, degraded, ineligible", seen)
			}
		})
	}
}

func TestAnErrorRateEverywhereFlapsNobody(t *testing.T) {
	for _, share := range []int{5, 40, 100} {
		p := newPlane(4, "a", "b", "c")
		c := p.callers(20)
		c.call(30, 5, none)
		c.call(120, 5, func(int, registry.Instance) int { return share })
		p.everWithdrawn(t)
		for _, tr := range p.history {
			if tr.From != eligibility.Unknown {
				t.Errorf("%d%% everywhere: %s became %s: %s", share, tr.Instance, tr.To, tr.Account().Why)
			}
		}
	}
}

func TestACallerThatSendsTenThousandTimesAsManyFailuresRemovesNobody(t *testing.T) {
	p := newPlane(3, "a")
	c := p.callers(20)
	c.call(30, 1, none)
	liar := evidence.NewReporter("liar")
	for i := range uint64(60) {
		p.ingest.Outcomes(liar, evidence.Batch{Number: i + 1, Rows: []evidence.Row{{Instance: 1, Failed: 200_000}, {Instance: 2, OK: 10}, {Instance: 3, OK: 10}}})
		c.call(1, 1, none)
	}
	p.everWithdrawn(t)
}

func TestACallerZoneThatFailsEverywhereIsChargedToThoseCallers(t *testing.T) {
	p := newPlane(3, "a", "b")
	c := p.callers(30)
	c.call(30, 3, none)
	c.call(120, 3, func(caller int, _ registry.Instance) int {
		if caller < 10 { // the zone that is cut off
			return 100
		}
		return 0
	})
	p.everWithdrawn(t)
}

func TestACallerZoneThatReachesHalfOfTheFleetIsNotBelievedAboutTheOtherHalfAlone(t *testing.T) {
	p := newPlane(3, "a", "b")
	c := p.callers(30)
	c.call(30, 3, none)
	c.call(60, 3, func(caller int, x registry.Instance) int {
		if caller < 3 && x.Zone == "b" { // a broken way, seen by a tenth of the callers
			return 100
		}
		return 0
	})
	p.everWithdrawn(t)
}

func TestABadHealthCheckForTheWholeFleetTripsTheGuardInEachZoneAndDrainsNobody(t *testing.T) {
	p := newPlane(4, "a", "b", "c")
	p.run(60, good)
	p.published(t)
	for _, x := range p.reg.Of("s") { // each says of itself that it is not ready
		p.ingest.Self(x.Handle, x.Handle, eligibility.Self{})
	}
	p.second()
	out := p.Publish("s", false)
	if !out.Changed || len(out.Tripped) != 3 || out.View.InRotation() != 12 || !out.Lost {
		t.Errorf("%d trips, %d endpoints, lost %v; want three, twelve, true", len(out.Tripped), out.View.InRotation(), out.Lost)
	}
	for _, e := range out.View.Endpoints {
		if e.Verdict != view.Ineligible {
			t.Errorf("%s is told to be %s: verdicts are not rewritten", e.ID, e.Verdict)
		}
	}
}

func TestAllOscillateTheGuardComesAfterQuarantineAndNothingIsDrained(t *testing.T) {
	p := newPlane(4, "a")
	p.run(60, good)
	quarantined := 0
	for range 12 {
		for _, ready := range []bool{false, true} {
			for i := range 50 {
				for _, x := range p.reg.Of("s") {
					p.ingest.Self(x.Handle, x.Handle, eligibility.Self{Ready: ready})
				}
				if i%5 == 0 {
					p.looks(good)
				}
				for _, tr := range p.second() {
					if tr.Quarantined {
						quarantined++
					}
				}
				if n := p.published(t).InRotation(); n != 4 {
					t.Fatalf("%d of 4 endpoints are left", n)
				}
				if ready && i == 40 {
					break
				}
			}
		}
	}
	if quarantined < 4 {
		t.Errorf("%d quarantines; want each of the four in one", quarantined)
	}
}

func TestTheFirstStartWithNoEvidenceAtAllWithdrawsNothing(t *testing.T) {
	p := newPlane(0)
	for i := range 6 { // known from before, and ready then
		p.enter(registry.Instance{ID: fmt.Sprint("old-", i), Service: "s", Revision: "r", Zone: "a", Address: "127.0.0.1:1", Source: registry.Host, EverReady: true})
	}
	for range 300 {
		p.second()
		if n := p.published(t).InRotation(); n != 6 {
			t.Fatalf("%d of 6 endpoints without any evidence", n)
		}
	}
	p.everWithdrawn(t)
}

func TestAServiceOfOneInstanceIsServedThroughTheGuardAndTheAlarmIsTheGravest(t *testing.T) {
	p := newPlane(1, "a")
	p.run(60, good)
	p.published(t)
	p.run(10, func(registry.Instance) eligibility.Result { return eligibility.Refused })
	out := p.Publish("s", true)
	if out.View.InRotation() != 1 || !out.View.Marks[0].DegradedConfidence || !out.Lost {
		t.Errorf("got %+v, lost %v", out.View, out.Lost)
	}
}

func TestAThirdPartyEndpointLeavesByOutcomesAloneAndStaysWithoutTraffic(t *testing.T) {
	p := newPlane(0)
	only := contract
	only.Profile = eligibility.Profile{Outcomes: true}
	p.SetService("s", only, view.GuardPolicy{})
	for i := range 3 {
		row, _ := p.reg.Put(registry.Instance{ID: fmt.Sprint("api-", i), Service: "s", Revision: "r", Address: "https://api.example", Source: registry.External, EverReady: true})
		p.Enter(row, nil)
		p.ingest.Know(evidence.Instance{Handle: row.Handle, ID: row.ID, Service: "s", Profile: only.Profile})
	}
	p.run(300, nil)
	v := p.published(t)
	if len(v.Endpoints) != 3 || v.Endpoints[0].Verdict != view.Eligible || !v.Endpoints[0].HealthUnknown {
		t.Fatalf("without traffic: %+v", v.Endpoints)
	}
	c := p.callers(5)
	c.call(20, 5, func(_ int, x registry.Instance) int {
		if x.ID == "api-0" {
			return 100
		}
		return 0
	})
	if out := p.out(); len(out) != 1 || out[0] != "api-0" {
		t.Errorf("out: %v; want api-0 alone", out)
	}
}

func TestASharedDatabaseThatFaltersLowersWeightsAndNobodyLeaves(t *testing.T) {
	p := newPlane(3, "a", "b")
	with := contract
	with.Dependencies = []eligibility.Dependency{{Name: "db"}}
	p.SetService("s", with, view.GuardPolicy{})
	p.run(60, good)
	for range 60 {
		for _, x := range p.reg.Of("s") {
			p.ingest.Self(x.Handle, x.Handle, eligibility.Self{Ready: true, Dependencies: []eligibility.Permille{1000}})
		}
		p.run(1, good)
	}
	p.everWithdrawn(t)
	for _, x := range p.published(t).Endpoints {
		if x.Weight != 100 {
			t.Errorf("%s has weight %d; want the least, 100", x.ID, x.Weight)
		}
	}
}

func TestAMisdeclaredDependencyCannotDrainTheService(t *testing.T) {
	p := newPlane(3, "a", "b")
	no, with := false, contract
	with.Dependencies = []eligibility.Dependency{{Name: "db", Authority: eligibility.Unready, Shared: &no}}
	p.SetService("s", with, view.GuardPolicy{})
	p.run(60, good)
	p.published(t)
	for _, x := range p.reg.Of("s") {
		p.ingest.Self(x.Handle, x.Handle, eligibility.Self{Ready: true, Dependencies: []eligibility.Permille{1000}})
	}
	p.second()
	if n := p.published(t).InRotation(); n != 6 {
		t.Errorf("%d of 6 endpoints are left", n)
	}
}

func TestAnAuthorityThatAnswersWithAnEmptyListTakesNobodyAndARealScaleDownDoes(t *testing.T) {
	p := newPlane(5, "a")
	p.run(60, good)
	list := func(rows []registry.Instance, explained bool) {
		out := p.reg.Sync(registry.Listing{Source: registry.Host, Rows: rows}, func(registry.Instance) bool { return explained })
		for _, x := range append(append(out.Changed, out.Gone...), out.Held...) {
			p.Enter(x, nil)
		}
	}
	all := p.reg.Of("s")
	list(nil, false)
	p.run(5, good)
	if n := p.published(t).InRotation(); n != 5 {
		t.Fatalf("an empty list: %d of 5 endpoints are left", n)
	}
	list(all, false)
	p.run(5, good)
	list(all[:2], true)
	p.run(5, good)
	if n := p.published(t).InRotation(); n != 2 {
		t.Errorf("scaled down to 2: %d endpoints", n)
	}
}

func TestAFailedTrialAfterRemovalByOutcomesCounts(t *testing.T) {
	p := newPlane(4, "a")
	c := p.callers(10)
	c.call(30, 5, none)
	quarantined := false
	for range 400 {
		c.call(1, 5, func(_ int, x registry.Instance) int {
			if x.ID == "a-000" {
				return 100
			}
			return 0
		})
		for _, tr := range p.history {
			quarantined = quarantined || tr.Quarantined && tr.Instance == "a-000"
		}
	}
	if !quarantined {
		t.Error("it failed every trial for 400 s, and was never quarantined")
	}
	for _, x := range p.out() {
		if x != "a-000" {
			t.Errorf("%s is out as well", x)
		}
	}
}
