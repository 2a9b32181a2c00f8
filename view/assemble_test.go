package view

import (
	"fmt"
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
			if len(out.View.Endpoints) != x.left || len(marked(out.View)) != x.marks {
				t.Errorf("%d endpoints, marked %v; want %d, %d marks", len(out.View.Endpoints), marked(out.View), x.left, x.marks)
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
	if out := a.Assemble(route("r"), members); len(out.Tripped) != 0 || len(out.View.Endpoints) != 3 {
		t.Errorf("never ready: %d trips, %d endpoints; want none, 3", len(out.Tripped), len(out.View.Endpoints))
	}
	members = sick(fleet("r", "a", 6), 6)
	members[0].Terminating, members[1].EverReady = true, false
	if out := a.Assemble(route("r"), members); len(out.View.Endpoints) != 4 {
		t.Errorf("tripped: %d endpoints; want the 4 that count", len(out.View.Endpoints))
	}
}

func TestATripEndsWithAMarginAndByARealScaleDown(t *testing.T) {
	a := Assembler{}
	members := sick(fleet("r", "a", 20), 11)
	if out := a.Assemble(route("r"), members); len(out.Tripped) != 1 {
		t.Fatal("11 of 20 hung: no trip")
	}
	members = sick(fleet("r", "a", 20), 9)
	if out := a.Assemble(route("r"), members); len(out.Untripped) != 0 || len(out.View.Endpoints) != 20 {
		t.Error("55 per cent in rotation: the trip ended without its margin")
	}
	members = sick(fleet("r", "a", 20), 8)
	if out := a.Assemble(route("r"), members); len(out.Untripped) != 1 || len(out.View.Endpoints) != 12 {
		t.Error("60 per cent in rotation: the trip did not end")
	}
	a.Assemble(route("r"), sick(fleet("r", "a", 20), 15))
	members = sick(fleet("r", "a", 20), 15)
	for i := range 15 {
		members[i].Removed = true
	}
	if out := a.Assemble(route("r"), members); len(out.Untripped) != 1 || len(out.View.Endpoints) != 5 {
		t.Error("the hung ones were removed by their authority: the trip did not end")
	}
}

func TestTheGuardHasThreeModes(t *testing.T) {
	hold := Assembler{Policy: GuardPolicy{Mode: HoldForPerson}}
	hold.Assemble(route("r"), sick(fleet("r", "a", 10), 2))
	if out := hold.Assemble(route("r"), sick(fleet("r", "a", 10), 7)); len(out.View.Endpoints) != 8 {
		t.Errorf("hold: %d endpoints; want the 8 that were in rotation before", len(out.View.Endpoints))
	}
	honour := Assembler{Policy: GuardPolicy{Mode: Honour}}
	if out := honour.Assemble(route("r"), sick(fleet("r", "a", 10), 10)); len(out.View.Endpoints) != 0 || len(out.Tripped) != 1 || !out.Lost {
		t.Errorf("honour: %d endpoints, %d trips, lost %v; want none, one, true", len(out.View.Endpoints), len(out.Tripped), out.Lost)
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
	if len(out.View.Endpoints) != 4 || out.View.Endpoints[0].Weight != 300 || len(out.Tripped) != 0 {
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
				s.Marks = []ZoneMark{{Group: "r", Counted: 2}}
			}
			views = append(views, s)
		}
		one, two := views[1].ChangeFrom(views[0]), views[2].ChangeFrom(views[1])
		at, err := views[0].Apply(one)
		if err != nil || at.Digest() != views[1].Digest() {
			t.Fatalf("one change: %v", err)
		}
		both, err := Compose(one, two)
		if err != nil {
			t.Fatal(err)
		}
		if at, err = views[0].Apply(both); err != nil || at.Digest() != views[2].Digest() {
			t.Fatalf("two changes in one: %v", err)
		}
		whole, err := Compose(views[1].ChangeFrom(nil), two)
		if err != nil {
			t.Fatal(err)
		}
		if at, err = (*Service)(nil).Apply(whole); err != nil || at.Digest() != views[2].Digest() {
			t.Fatalf("a change after a whole view: %v", err)
		}
		if _, err = views[1].Apply(one); err == nil {
			t.Fatal("a change was applied to another base than its own")
		}
	})
}

func TestTroubleIsUrgentAndARemovalByPlanNeverPassesAnAddition(t *testing.T) {
	a := Assembler{}
	before := a.Assemble(route("r"), fleet("r", "a", 4)).View
	members := append(sick(fleet("r", "a", 4), 1), fleet("r", "b", 1)...)
	members[1].Terminating = true
	members[2].Verdict, members[2].Weight = Degraded, 500
	target := a.Assemble(route("r"), members).View
	planned := func(id string) bool { return id == members[1].ID }
	at, urgent := Urgent(&before, &target, planned)
	if !urgent {
		t.Fatal("nothing is urgent")
	}
	if _, in := at.Endpoint(members[0].ID); in {
		t.Error("the hung one is still in the view")
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
	if _, urgent := Urgent(&before, &before, planned); urgent {
		t.Error("nothing changed, and it is urgent")
	}
	tripped := a.Assemble(route("r"), sick(fleet("r", "a", 4), 3)).View
	if at, urgent := Urgent(&before, &tripped, planned); !urgent || len(marked(*at)) != 1 {
		t.Error("a trip of the guard is urgent, with its mark")
	}
}
