package evaluate

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

// plane is a registry, an ingest and an evaluator, as the leader has them.
type plane struct {
	reg    *registry.Registry
	ingest *evidence.Ingest
	*Evaluator
	ticks   []evidence.Tick
	history []Transition
}

var contract = func() eligibility.Contract {
	c := eligibility.Default()
	c.Ramp = 0
	return c
}()

// newPlane has n instances of one service in each zone, looked at by the
// probers 1 and 2.
func newPlane(n int, zones ...string) *plane {
	p := &plane{reg: registry.New(0), ingest: evidence.New(0, 5), Evaluator: New(view.Version{Incarnation: "i", Epoch: 1}, view.Epoch{Incarnation: "i", Number: 1}, 0)}
	p.SetService("s", contract, view.GuardPolicy{})
	p.SetRoute(view.Route{Service: "s", Splits: []view.Split{{Revision: "r", Percent: 100, Group: "r", Allowed: []string{"r"}}}})
	for _, zone := range zones {
		for i := range n {
			p.enter(registry.Instance{ID: fmt.Sprintf("%s-%03d", zone, i), Service: "s", Revision: "r", Zone: zone, Address: "127.0.0.1:1", Source: registry.Host})
		}
	}
	return p
}

func (p *plane) enter(row registry.Instance) registry.Instance {
	row, _ = p.reg.Put(row)
	p.Enter(row, nil)
	p.ingest.Know(evidence.Instance{Handle: row.Handle, ID: row.ID, Service: row.Service, Profile: contract.Profile, Probers: []uint32{1, 2}})
	return row
}

// second ends a second: it is sealed, folded and kept.
func (p *plane) second() []Transition {
	t := p.ingest.Seal()
	p.ticks = append(p.ticks, t)
	ts := p.Fold(t)
	p.history = append(p.history, ts...)
	return ts
}

// looks has both probers look at every instance once, with one result.
func (p *plane) looks(r func(registry.Instance) eligibility.Result) {
	for _, x := range p.reg.Of("s") {
		for prober := range uint32(2) {
			p.ingest.Probes(prober+1, []evidence.Look{{Instance: x.Handle, Result: r(x)}})
		}
	}
}

// early folds what is hard of a second before its end.
func (p *plane) early() (left []Transition) {
	p.ingest.SealEarly(func(r evidence.TickRow) bool {
		t, is := p.Early(r)
		if is {
			left = append(left, t)
		}
		return is
	})
	p.history = append(p.history, left...)
	return left
}

func good(registry.Instance) eligibility.Result { return eligibility.Good }

// run lets n seconds pass with a look every five.
func (p *plane) run(n int, r func(registry.Instance) eligibility.Result) {
	for i := range n {
		if i%5 == 0 && r != nil {
			p.looks(r)
		}
		p.second()
	}
}

func (p *plane) published(t *testing.T) *view.Service {
	t.Helper()
	out := p.Publish("s", true)
	if out.View == nil {
		t.Fatal("nothing is published")
	}
	return out.View
}

func TestEveryProberCutOffFromAFleetInThreeZonesWithdrawsNobody(t *testing.T) {
	for _, x := range []struct {
		name string
		then func(registry.Instance) eligibility.Result
	}{
		{"silent", nil},
		{"timing out on everything", func(registry.Instance) eligibility.Result { return eligibility.TimedOut }},
		{"refused everywhere", func(registry.Instance) eligibility.Result { return eligibility.Refused }},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := newPlane(10, "a", "b", "c")
			p.run(60, good)
			if n := p.published(t).InRotation(); n != 30 {
				t.Fatalf("%d endpoints to begin with", n)
			}
			p.run(600, x.then)
			if n := p.published(t).InRotation(); n != 30 {
				t.Errorf("%d of 30 endpoints are left", n)
			}
			for _, tr := range p.history {
				if tr.To == eligibility.Ineligible {
					t.Fatalf("withdrawn: %+v", tr)
				}
			}
			if n := p.Counts("s")[view.Unknown]; n != 30 {
				t.Errorf("%d unknown; want all 30 that were lost from sight", n)
			}
			if x.then != nil {
				if s := p.ingest.Suspects(); len(s) != 2 {
					t.Errorf("suspect probers: %v; want both", s)
				}
			}
		})
	}
}

func TestAClosedPortIsWithdrawnAndItsReturnIsSlower(t *testing.T) {
	p := newPlane(4, "a", "b", "c")
	p.run(60, good)
	p.published(t)
	closed := func(x registry.Instance) eligibility.Result {
		if x.ID == "a-000" {
			return eligibility.Refused
		}
		return eligibility.Good
	}
	p.run(5, closed)
	if e, _ := p.published(t).Endpoint("a-000"); e.In() {
		t.Error("its port is closed, and it is in the view after an interval")
	}
	p.run(20, good)
	if e, _ := p.published(t).Endpoint("a-000"); e.In() {
		t.Error("it came back within 20 s")
	}
	p.run(30, good)
	if e, _ := p.published(t).Endpoint("a-000"); !e.In() {
		t.Error("it did not come back")
	}
}

func TestAServiceThatIsMadeAgainIsNumberedOn(t *testing.T) {
	p := newPlane(2, "a")
	p.run(60, good)
	last := p.published(t).Version
	p.Forget("s")
	p.SetRoute(view.Route{Service: "s", Splits: []view.Split{{Revision: "r", Percent: 100, Group: "r", Allowed: []string{"r"}}}})
	if nothing := p.Publish("s", true); nothing.View != nil {
		t.Errorf("nothing is known of it, and this is published: %+v", nothing.View)
	}
	p.enter(registry.Instance{ID: "b-000", Service: "s", Revision: "r", Zone: "a", Address: "127.0.0.1:9", Source: registry.Host, EverReady: true})
	if again := p.Publish("s", true); !again.Changed || again.View.Version.Against(last) != view.Newer {
		t.Errorf("it was %s before it was made again, and is %s", last, again.View.Version)
	}
}

func TestUrgentChangesGoFirstAndTheRestWithinTheNextPublication(t *testing.T) {
	p := newPlane(4, "a")
	p.run(60, good)
	before := p.published(t)
	p.enter(registry.Instance{ID: "a-900", Service: "s", Revision: "r", Zone: "a", Address: "127.0.0.1:9", Source: registry.Host})
	p.run(5, func(x registry.Instance) eligibility.Result {
		if x.ID == "a-000" {
			return eligibility.Refused
		}
		return eligibility.Good
	})
	out := p.Publish("s", false)
	if !out.Changed || !out.Rest || out.View.Version.Counter != before.Version.Counter+1 {
		t.Fatalf("got %+v", out)
	}
	if e, _ := out.View.Endpoint("a-000"); e.In() {
		t.Error("the closed one is in the urgent version")
	}
	if e, _ := out.View.Endpoint("a-900"); e.In() {
		t.Error("an addition was urgent")
	}
	if e, _ := p.published(t).Endpoint("a-900"); !e.In() {
		t.Error("the addition did not follow")
	}
}

func TestAViewThatDidNotChangeKeepsItsVersion(t *testing.T) {
	p := newPlane(2, "a")
	p.run(60, good)
	one := p.published(t)
	p.run(60, good)
	if two := p.Publish("s", true); two.Changed || two.View.Version != one.Version {
		t.Errorf("version %s became %s", one.Version, two.View.Version)
	}
}

func TestADeployedInstanceIsReadyOnceAndItsTransitionSaysSo(t *testing.T) {
	p := newPlane(1, "a")
	p.run(30, good)
	ready := 0
	for _, tr := range p.history {
		if tr.Ready {
			ready++
		}
	}
	if ready != 1 {
		t.Errorf("%d transitions say that it was ready for the first time; want one", ready)
	}
}

// shake is a history of looks, results and words, at random.
func shake(t *rapid.T, p *plane) {
	reporters := []*evidence.Reporter{evidence.NewReporter("x"), evidence.NewReporter("y"), evidence.NewReporter("z")}
	rows := p.reg.Of("s")
	for i := range rapid.IntRange(1, 60).Draw(t, "seconds") {
		for range rapid.IntRange(0, 4).Draw(t, "events") {
			x := rows[rapid.IntRange(0, len(rows)-1).Draw(t, "instance")]
			switch rapid.IntRange(0, 4).Draw(t, "class") {
			case 0:
				p.ingest.Probes(rapid.Uint32Range(1, 2).Draw(t, "prober"), []evidence.Look{{Instance: x.Handle, Result: eligibility.Result(rapid.Uint8Range(0, 3).Draw(t, "result"))}})
			case 1:
				r := reporters[rapid.IntRange(0, 2).Draw(t, "reporter")]
				failed := rapid.Uint32Range(0, 30).Draw(t, "failed")
				row := evidence.Row{Instance: x.Handle, OK: rapid.Uint32Range(0, 30).Draw(t, "ok"), Failed: failed, Refused: rapid.Uint32Range(0, failed).Draw(t, "refused")}
				p.ingest.Outcomes(r, evidence.Batch{
					Number: uint64(i*10 + rapid.IntRange(1, 9).Draw(t, "number")), Rows: []evidence.Row{row},
					Caller: evidence.Caller{Zone: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"), Revision: rapid.SampledFrom([]string{"", "v1", "v2"}).Draw(t, "revision")},
				})
			case 3:
				p.early()
			case 4: // its port is closed, which does not wait for the end of the second
				for prober := range uint32(2) {
					p.ingest.Probes(prober+1, []evidence.Look{{Instance: x.Handle, Result: eligibility.Refused}})
				}
				p.early()
			case 2:
				p.ingest.Self(x.Handle, x.Handle, eligibility.Self{Ready: rapid.Bool().Draw(t, "ready")})
			}
		}
		p.second()
	}
}

func TestTheEvaluatorKilledAtAnyPointIsRebuiltWithTheSameVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlane(2, "a", "b")
		shake(t, p)
		// The registry, each instance's last transition, and every sealed tick
		// are what a new leader has.
		last := map[uint32]*eligibility.State{}
		for _, tr := range p.history {
			last[tr.Handle] = &tr.State
		}
		rebuilt := New(p.Version, p.Epoch, 0)
		rebuilt.SetService("s", contract, view.GuardPolicy{})
		Rebuild(rebuilt, p.reg.Of("s"), last, p.ticks)
		for _, live := range p.Standings("s") {
			for _, again := range rebuilt.Standings("s") {
				if live.ID == again.ID && (live.Verdict != again.Verdict || live.Rule != again.Rule || live.Weight != again.Weight || live.Account.Why != again.Account.Why) {
					t.Fatalf("%s: live and rebuilt differ:\n%s", live.ID, cmp.Diff(live, again))
				}
			}
		}
	})
}

func TestTwoEvaluatorsOnTheSameTicksAgreeToTheBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlane(3, "a")
		shake(t, p)
		other := New(p.Version, p.Epoch, 0)
		rows := p.reg.Of("s")
		for i := range rows { // entered in another order
			rows[len(rows)-1-i].EverReady = false
			other.Enter(rows[len(rows)-1-i], nil)
		}
		other.SetService("s", contract, view.GuardPolicy{})
		for _, tick := range p.ticks {
			other.Fold(tick)
		}
		for _, row := range rows {
			if d := cmp.Diff(p.instances.get(row.Handle).state, other.instances.get(row.Handle).state); d != "" {
				t.Fatal(d)
			}
		}
	})
}
