package view

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func route(revisions ...string) Route {
	r := Route{Service: "s"}
	for _, x := range revisions {
		r.Splits = append(r.Splits, Split{Revision: x, Group: x, Allowed: []string{x}})
	}
	return r
}

// fleet makes n members of a revision in a zone, all well.
func fleet(revision, zone string, n int) (all []Member) {
	for i := range n {
		all = append(all, Member{
			Endpoint: Endpoint{ID: fmt.Sprintf("%s-%s-%04d", revision, zone, i), Revision: revision, Zone: zone, Address: "127.0.0.1:1", Weight: 1000, Verdict: Eligible},
			Ramp:     1000, Settled: true, EverReady: true,
		})
	}
	return all
}

func sick(members []Member, n int) []Member {
	for i := range n {
		members[i].Verdict, members[i].Weight = Ineligible, 0
	}
	return members
}

func marked(s Service) (zones []string) {
	for _, m := range s.Marks {
		if m.DegradedConfidence {
			zones = append(zones, m.Group+"/"+m.Zone)
		}
	}
	return zones
}

func TestTheGuardReturnsAllThatCountWhereHealthWouldLeaveTooLittle(t *testing.T) {
	for _, x := range []struct {
		name    string
		members []Member
		left    int
		marks   int
	}{
		{"three zones of one, one hung: withdrawn, no trip", sick(append(append(fleet("r", "a", 1), fleet("r", "b", 1)...), fleet("r", "c", 1)...), 1), 2, 0},
		{"one of one hung: trip, marked", sick(fleet("r", "a", 1), 1), 1, 1},
		{"one of two hung: half is not below half", sick(fleet("r", "a", 2), 1), 1, 0},
		{"two of three hung: trip", sick(fleet("r", "a", 3), 2), 3, 1},
		{"of 3,000, 1,500 hung: half is not below half", sick(fleet("r", "a", 3000), 1500), 1500, 0},
		{"of 3,000, 1,501 hung: trip", sick(fleet("r", "a", 3000), 1501), 3000, 1},
		{"a whole zone of three hung beside another: that zone trips", append(sick(fleet("r", "a", 3), 3), fleet("r", "b", 3)...), 6, 1},
		{"a whole zone of two hung beside another of two: pooled, half is left", append(sick(fleet("r", "a", 2), 2), fleet("r", "b", 2)...), 2, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := Assembler{}
			out := a.Assemble(route("r"), x.members)
			if out.View.InRotation() != x.left || len(marked(out.View)) != x.marks {
				t.Errorf("%d endpoints, marked %v; want %d, %d marks", out.View.InRotation(), marked(out.View), x.left, x.marks)
			}
		})
	}
}

func TestAMarkIsTruthfulAndVerdictsAreNotRewritten(t *testing.T) {
	a := Assembler{}
	out := a.Assemble(route("r"), sick(fleet("r", "a", 4), 3))
	ineligible := 0
	for _, e := range out.View.Endpoints {
		if e.Verdict == Ineligible {
			ineligible++
		}
		if e.Weight != FullWeight {
			t.Errorf("weight %d: under the guard all are equal", e.Weight)
		}
	}
	if ineligible != 3 || len(out.Tripped) != 1 {
		t.Errorf("%d endpoints say that they are ineligible, %d trips are told", ineligible, len(out.Tripped))
	}
}

func TestWhoWasNeverReadyOrIsTerminatingNeitherComesBackThroughTheGuardNorTripsIt(t *testing.T) {
	members := fleet("r", "a", 6)
	for i := range 3 { // a rollout: three new ones that were never ready, of six
		members[i].EverReady, members[i].Verdict = false, Unknown
	}
	a := Assembler{}
	if out := a.Assemble(route("r"), members); len(out.Tripped) != 0 || out.View.InRotation() != 3 {
		t.Errorf("never ready: %d trips, %d endpoints; want none, 3", len(out.Tripped), out.View.InRotation())
	}
	members = sick(fleet("r", "a", 6), 6)
	members[0].Terminating, members[1].EverReady = true, false
	if out := a.Assemble(route("r"), members); out.View.InRotation() != 4 {
		t.Errorf("tripped: %d endpoints; want the 4 that count", out.View.InRotation())
	}
}

func TestATripEndsWithAMarginAndByARealScaleDown(t *testing.T) {
	a := Assembler{}
	members := sick(fleet("r", "a", 20), 11)
	if out := a.Assemble(route("r"), members); len(out.Tripped) != 1 {
		t.Fatal("11 of 20 hung: no trip")
	}
	members = sick(fleet("r", "a", 20), 9)
	if out := a.Assemble(route("r"), members); len(out.Untripped) != 0 || out.View.InRotation() != 20 {
		t.Error("55 per cent in rotation: the trip ended without its margin")
	}
	members = sick(fleet("r", "a", 20), 8)
	if out := a.Assemble(route("r"), members); len(out.Untripped) != 1 || out.View.InRotation() != 12 {
		t.Error("60 per cent in rotation: the trip did not end")
	}
	a.Assemble(route("r"), sick(fleet("r", "a", 20), 15))
	members = sick(fleet("r", "a", 20), 15)
	for i := range 15 {
		members[i].Removed = true
	}
	if out := a.Assemble(route("r"), members); len(out.Untripped) != 1 || out.View.InRotation() != 5 {
		t.Error("the hung ones were removed by their authority: the trip did not end")
	}
}

func TestTheGuardHasThreeModes(t *testing.T) {
	hold := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}}
	hold.Assemble(route("r"), sick(fleet("r", "a", 10), 2))
	if out := hold.Assemble(route("r"), sick(fleet("r", "a", 10), 7)); out.View.InRotation() != 8 {
		t.Errorf("hold: %d endpoints; want the 8 that were in rotation before", out.View.InRotation())
	}
	honour := Assembler{Policy: GuardPolicy{Mode: Honour}}
	if out := honour.Assemble(route("r"), sick(fleet("r", "a", 10), 10)); out.View.InRotation() != 0 || len(out.Tripped) != 1 || !out.Lost {
		t.Errorf("honour: %d endpoints, %d trips, lost %v; want none, one, true", out.View.InRotation(), len(out.Tripped), out.Lost)
	}
}

func TestUnknownAndDegradedStayInRotation(t *testing.T) {
	members := fleet("r", "a", 4)
	for i := range members {
		members[i].Verdict = Unknown
	}
	members[0].Verdict, members[0].Weight = Degraded, 300
	a := Assembler{}
	out := a.Assemble(route("r"), members)
	if out.View.InRotation() != 4 || out.View.Endpoints[0].Weight != 300 || len(out.Tripped) != 0 {
		t.Errorf("got %+v", out.View)
	}
}

func TestASetInWhichAllAreNewHasItsWholeCapacity(t *testing.T) {
	a := Assembler{}
	fresh := fleet("r", "a", 3)
	for i := range fresh {
		fresh[i].Ramp, fresh[i].Settled = 100, false
	}
	for _, e := range a.Assemble(route("r"), fresh).View.Endpoints {
		if e.Weight != FullWeight {
			t.Errorf("all are new, and %s has weight %d", e.ID, e.Weight)
		}
	}
	fresh[0].Ramp, fresh[0].Settled = 1000, true
	out := a.Assemble(route("r"), fresh)
	if w := []int{out.View.Endpoints[0].Weight, out.View.Endpoints[1].Weight}; w[0] != 1000 || w[1] != 100 {
		t.Errorf("beside a settled one: weights %v; want 1000 and 100", w)
	}
}

func TestTheLastInstanceLostUnplannedIsTheGravestAlarm(t *testing.T) {
	a := Assembler{}
	if out := a.Assemble(route("r"), sick(fleet("r", "a", 1), 1)); !out.Lost {
		t.Error("the last one is hung, and nothing is said")
	}
	gone := fleet("r", "a", 1)
	gone[0].Terminating = true
	if out := a.Assemble(route("r"), gone); out.Lost {
		t.Error("it leaves by plan")
	}
}

func TestADeltaLeadsToTheSameContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		views := []*Service{}
		for i := range 3 {
			s := &Service{Name: "s", Version: Version{Incarnation: "i", Counter: uint64(i + 1)}}
			for id := range 6 {
				if rapid.Bool().Draw(t, "in") {
					s.Endpoints = append(s.Endpoints, Endpoint{ID: fmt.Sprint(id), Weight: rapid.IntRange(1, 3).Draw(t, "weight"), Verdict: Eligible})
				}
			}
			if rapid.Bool().Draw(t, "marked") {
				s.Marks = []ZoneMark{{Group: "r", Counted: rapid.IntRange(1, 2).Draw(t, "counted")}}
			}
			views = append(views, s)
		}
		one, two := views[1].ChangeFrom(views[0]), views[2].ChangeFrom(views[1])
		at, err := views[0].Apply(one)
		if err != nil || at.Digest() != views[1].Digest() {
			t.Fatalf("one change: %v", err)
		}
		if at, err = at.Apply(two); err != nil || at.Digest() != views[2].Digest() {
			t.Fatalf("a second change: %v", err)
		}
		if _, err = views[1].Apply(one); err == nil {
			t.Fatal("a change was applied to another base than its own")
		}
	})
}

func TestEveryFieldIsPartOfAViewsDigest(t *testing.T) {
	full := Service{
		Name: "s", Endpoints: []Endpoint{{ID: "i", Revision: "r", Address: "a", Zone: "z", Weight: 1, Verdict: Eligible}},
		Marks: []ZoneMark{{Group: "g", Zone: "z", Counted: 1, In: 1}},
	}
	seen := map[Digest]string{full.Digest(): "unchanged"}
	for name, change := range map[string]func(*Service, *Endpoint, *ZoneMark){
		"name": func(s *Service, _ *Endpoint, _ *ZoneMark) { s.Name = "t" }, "deleted": func(s *Service, _ *Endpoint, _ *ZoneMark) { s.Deleted = true },
		"empty": func(s *Service, _ *Endpoint, _ *ZoneMark) { s.Empty = true }, "id": func(_ *Service, e *Endpoint, _ *ZoneMark) { e.ID = "x" },
		"revision": func(_ *Service, e *Endpoint, _ *ZoneMark) { e.Revision = "x" }, "address": func(_ *Service, e *Endpoint, _ *ZoneMark) { e.Address = "x" },
		"zone": func(_ *Service, e *Endpoint, _ *ZoneMark) { e.Zone = "x" }, "weight": func(_ *Service, e *Endpoint, _ *ZoneMark) { e.Weight = 2 },
		"verdict": func(_ *Service, e *Endpoint, _ *ZoneMark) { e.Verdict = Unknown }, "health": func(_ *Service, e *Endpoint, _ *ZoneMark) { e.HealthUnknown = true },
		"a name moved into the next field": func(_ *Service, e *Endpoint, _ *ZoneMark) { e.ID, e.Revision = "ir", "" },
		"group":                            func(_ *Service, _ *Endpoint, m *ZoneMark) { m.Group = "x" }, "mark's zone": func(_ *Service, _ *Endpoint, m *ZoneMark) { m.Zone = "x" },
		"counted": func(_ *Service, _ *Endpoint, m *ZoneMark) { m.Counted = 2 }, "in": func(_ *Service, _ *Endpoint, m *ZoneMark) { m.In = 2 },
		"mark": func(_ *Service, _ *Endpoint, m *ZoneMark) { m.DegradedConfidence = true },
	} {
		s := full
		s.Endpoints, s.Marks = slices.Clone(full.Endpoints), slices.Clone(full.Marks)
		change(&s, &s.Endpoints[0], &s.Marks[0])
		if other, same := seen[s.Digest()]; same {
			t.Errorf("the digest does not tell %q from %q", name, other)
		}
		seen[s.Digest()] = name
	}
	full.Version, full.Epoch = Version{Incarnation: "i"}, Epoch{Incarnation: "i"}
	if seen[full.Digest()] != "unchanged" {
		t.Error("the version is part of the digest")
	}
}

func TestMarksThatDidNotChangeAreNotSentAgain(t *testing.T) {
	marks := []ZoneMark{{Group: "r", Counted: 2, In: 2}}
	before := &Service{Name: "s", Version: Version{Incarnation: "i", Counter: 1}, Marks: marks}
	after := &Service{Name: "s", Version: Version{Incarnation: "i", Counter: 2}, Marks: slices.Clone(marks)}
	if c := after.ChangeFrom(before); len(c.Marks) != 0 || !c.SameMarks {
		t.Errorf("the change holds %+v", c)
	}
	if c := after.ChangeFrom(nil); len(c.Marks) != 1 || c.SameMarks {
		t.Errorf("the whole view holds %+v", c)
	}
}

func TestWhatHealthKeepsOutIsListedWithoutWeightAndWhatEndedIsNot(t *testing.T) {
	a := Assembler{}
	members := fleet("r", "a", 6)
	members[0].Verdict, members[0].Weight = Ineligible, 0
	members[1].Verdict, members[1].Weight, members[1].Removed = Ineligible, 0, true
	members[2].Verdict, members[2].Weight, members[2].Terminating = Ineligible, 0, true
	members[3].Verdict, members[3].EverReady = Unknown, false
	s := a.Assemble(route("r"), members).View
	if e, listed := s.Endpoint(members[0].ID); !listed || e.In() || e.Verdict != Ineligible {
		t.Errorf("what health keeps out is %+v, listed %v", e, listed)
	}
	for _, m := range members[1:4] {
		if e, listed := s.Endpoint(m.ID); listed {
			t.Errorf("listed: %+v", e)
		}
	}
	if s.InRotation() != 2 {
		t.Errorf("%d in rotation", s.InRotation())
	}
}

func TestTroubleIsUrgentAndARemovalByPlanNeverPassesAnAddition(t *testing.T) {
	a := Assembler{}
	before := a.Assemble(route("r"), fleet("r", "a", 4)).View
	members := append(sick(fleet("r", "a", 4), 1), fleet("r", "b", 1)...)
	members[1].Terminating = true
	members[2].Verdict, members[2].Weight = Degraded, 500
	target := a.Assemble(route("r"), members).View
	planned := func(id string) bool { return id == members[1].ID }
	at, urgent := urgentOf(&before, &target, planned)
	if !urgent {
		t.Fatal("nothing is urgent")
	}
	if e, listed := at.Endpoint(members[0].ID); e.In() || !listed {
		t.Error("the hung one is still in rotation, or is not said to be out")
	}
	if _, in := at.Endpoint(members[1].ID); !in {
		t.Error("the planned removal passed the addition that it waits for")
	}
	if e, _ := at.Endpoint(members[2].ID); e.Weight != 500 {
		t.Errorf("the degraded one has weight %d", e.Weight)
	}
	if _, in := at.Endpoint(members[4].ID); in {
		t.Error("an addition was urgent")
	}
	ended := a.Assemble(route("r"), append(sick(fleet("r", "a", 4), 1)[1:], fleet("r", "b", 1)...)).View
	if left, urgent := urgentOf(at, &ended, planned); urgent {
		t.Errorf("the end of one that was out already is urgent: %+v", left)
	}
	if _, urgent := urgentOf(&before, &before, planned); urgent {
		t.Error("nothing changed, and it is urgent")
	}
	tripped := a.Assemble(route("r"), sick(fleet("r", "a", 4), 3)).View
	if at, urgent := urgentOf(&before, &tripped, planned); !urgent || len(marked(*at)) != 1 {
		t.Error("a trip of the guard is urgent, with its mark")
	}
}

func urgentOf(published, target *Service, planned Planned) (*Service, bool) {
	w := Between(published, target)
	t := w.Trouble(planned)
	return t.View(), t.Any()
}

func TestAPersonDecidesAboutAGuardThatHoldsAndIsAskedAgainAtTheNextTrip(t *testing.T) {
	a := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}}
	a.Assemble(route("r"), sick(fleet("r", "a", 10), 2))
	if a.Decide("r", "a", Accepted) {
		t.Error("a decision is taken where nothing waits")
	}

	served := func(n int) int {
		out := a.Assemble(route("r"), sick(fleet("r", "a", 10), n))
		return out.View.InRotation()
	}
	if got := served(7); got != 8 {
		t.Errorf("held: %d are served", got)
	}
	g := a.Guarded()
	if len(g) != 1 || g[0].In != 3 || g[0].Counted != 10 || g[0].Served != 8 || g[0].Decision != Undecided || len(g[0].Kept) != 8 || !g[0].DegradedConfidence {
		t.Errorf("what waits is %+v", g)
	}
	if !a.Decide("r", "a", Declined) || served(8) != 8 || a.Guarded()[0].Decision != Declined {
		t.Errorf("declined: %+v", a.Guarded())
	}
	if !a.Decide("r", "a", Accepted) || served(8) != 2 {
		t.Errorf("accepted: %+v", a.Guarded())
	}
	out := a.Assemble(route("r"), sick(fleet("r", "a", 10), 8))
	if len(marked(out.View)) != 0 {
		t.Error("health is followed, and the zone is marked as if it were not")
	}
	if served(0) != 10 || len(a.Guarded()) != 0 {
		t.Errorf("the trip is not over: %+v", a.Guarded())
	}
	if served(9) != 10 || a.Guarded()[0].Decision != Undecided {
		t.Errorf("the decision about the trip before is in force: %+v", a.Guarded())
	}
}

func TestAGuardThatHoldsAndDoesNotKnowWhoWasInRotationWithdrawsNobody(t *testing.T) {
	a := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}}
	if out := a.Assemble(route("r"), sick(fleet("r", "a", 10), 7)); out.View.InRotation() != 10 {
		t.Errorf("%d are served", out.View.InRotation())
	}
	b, told := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}}, Guarded{ZoneMark: ZoneMark{Group: "r", Zone: "a"}, Kept: []string{"r-a-0000", "r-a-0009"}}
	b.Restore(told)
	if out := b.Assemble(route("r"), sick(fleet("r", "a", 10), 9)); out.View.InRotation() != 2 || len(out.Tripped) != 0 {
		t.Errorf("restored: %d are served, %d trips", out.View.InRotation(), len(out.Tripped))
	}
	told.Decision = Accepted
	b.Restore(told)
	if out := b.Assemble(route("r"), sick(fleet("r", "a", 10), 9)); out.View.InRotation() != 1 {
		t.Errorf("restored as accepted: %d are served", out.View.InRotation())
	}
}

// The zones of a guard that holds grow and shrink around the three below which
// they are pooled.
func TestWhatAPersonAcceptedGoesWithAZoneIntoThePoolOfSmallOnesAndOut(t *testing.T) {
	a := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}}
	see := func(inB, outB, inC int) (served int, g []Guarded) {
		members := append(sick(fleet("r", "b", inB+outB), outB), fleet("r", "c", inC)...)
		out := a.Assemble(route("r"), append(fleet("r", "a", 5), members...))
		return out.View.InRotation() - 5, a.Guarded()
	}
	see(3, 0, 2)
	if served, g := see(1, 2, 2); served != 5 || len(g) != 1 || g[0].Zone != "b" || !a.Decide("r", "b", Accepted) {
		t.Fatalf("%d are served of b and c; %+v", served, g)
	}
	if served, _ := see(1, 2, 2); served != 3 {
		t.Fatalf("accepted, and %d are served of b and c", served)
	}
	// b shrinks into the pool, which trips by whom it brings: nobody is asked.
	if served, g := see(0, 2, 1); served != 1 || len(g) != 1 || g[0].Zone != "" || g[0].Decision != Accepted || len(g[0].Covers) != 2 || g[0].DegradedConfidence {
		t.Errorf("in the pool %d are served of b and c; %+v", served, g)
	}
	// and out of it again.
	if served, g := see(1, 2, 1); served != 2 || len(g) != 1 || g[0].Zone != "b" || g[0].Decision != Accepted {
		t.Errorf("by itself again %d are served of b and c; %+v", served, g)
	}
	// One that was not accepted fails: it stays, and a person is asked.
	if served, g := see(0, 3, 1); served != 2 || len(g) != 1 || g[0].Decision != Undecided {
		t.Errorf("another failed: %d are served of b and c; %+v", served, g)
	}
}

func TestWhatAPersonAcceptedCoversNoOtherZoneOfThePoolAndOutlivesTheLeader(t *testing.T) {
	a := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}}
	members := func(sickB, sickC int) []Member {
		return append(sick(fleet("r", "b", 2), sickB), sick(fleet("r", "c", 2), sickC)...)
	}
	a.Assemble(route("r"), append(fleet("r", "b", 3), fleet("r", "c", 2)...))
	a.Assemble(route("r"), append(sick(fleet("r", "b", 3), 2), fleet("r", "c", 2)...))
	a.Decide("r", "b", Accepted)
	a.Assemble(route("r"), append(sick(fleet("r", "b", 3), 2), fleet("r", "c", 2)...))
	a.Assemble(route("r"), members(2, 1)) // c's has failed meanwhile: b's stay out, c's stays in
	if g := a.Guarded(); len(g) != 1 || g[0].Decision != Undecided || g[0].Served != 2 {
		t.Errorf("one that nobody decided about: %+v", g)
	}
	b := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}}
	for _, g := range a.Guarded() {
		b.Restore(g)
	}
	if out := b.Assemble(route("r"), members(2, 1)); out.View.InRotation() != 2 {
		t.Errorf("by another leader %d are served", out.View.InRotation())
	}
	c := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}} // one that takes over while the pool is accepted
	c.Restore(Guarded{ZoneMark: ZoneMark{Group: "r"}, Decision: Accepted, Kept: []string{"r-c-0000", "r-c-0001"}, Covers: []string{"r-b-0000", "r-b-0001"}})
	if out := c.Assemble(route("r"), members(2, 0)); out.View.InRotation() != 2 {
		t.Errorf("restored as accepted: %d are served", out.View.InRotation())
	}
	if out := c.Assemble(route("r"), append(members(2, 0), sick(fleet("r", "d", 4), 3)...)); out.View.InRotation() != 2+4 {
		t.Errorf("a zone that was never in the pool: %d are served", out.View.InRotation())
	}
}

func TestServedInOneGroupWinsOverOutInAnother(t *testing.T) {
	members := append(fleet("q", "a", 6), sick(fleet("r", "a", 3), 2)...)
	alone := Split{Revision: "r", Group: "alone", Allowed: []string{"r"}}
	mixed := Split{Revision: "q", Group: "mixed", Allowed: []string{"q", "r"}}
	for name, splits := range map[string][]Split{"the one that serves comes first": {alone, mixed}, "it comes last": {mixed, alone}} {
		a := Assembler{}
		out := a.Assemble(Route{Service: "s", Splits: splits}, members)
		if got := marked(out.View); len(got) != 1 || got[0] != "alone/a" {
			t.Fatalf("%s: health is disregarded in %v", name, got)
		}
		for _, m := range members {
			if e, listed := out.View.Endpoint(m.ID); !listed || !e.In() {
				t.Errorf("%s: %s is served in one group, and out of the view: %+v", name, m.ID, e)
			}
		}
	}
}

func TestADeadCanaryIsServedInItsOwnGroupAloneMarkedAndTouchesNoOther(t *testing.T) {
	members := append(sick(fleet("canary", "a", 1), 1), fleet("main", "a", 10)...)
	r := Route{Service: "s", Splits: []Split{{Revision: "canary", Percent: 5, Group: "canary", Allowed: []string{"canary"}}, {Revision: "main", Percent: 95, Group: "main", Allowed: []string{"main"}}}}
	a := Assembler{}
	out := a.Assemble(r, members)
	if got := marked(out.View); len(got) != 1 || got[0] != "canary/" || out.Lost {
		t.Errorf("marked are %v, lost %v", got, out.Lost)
	}
	if e, _ := out.View.Endpoint(members[0].ID); !e.In() || e.Verdict != Ineligible {
		t.Errorf("the canary is %+v", e)
	}
	out = a.Assemble(r, append(sick(fleet("canary", "a", 4), 1), fleet("main", "a", 10)...))
	if len(marked(out.View)) != 0 || out.View.InRotation() != 13 {
		t.Errorf("one of four canaries: marked %v, %d in rotation", marked(out.View), out.View.InRotation())
	}
}
