package resolver

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// failing has these endpoints fail by an outcome.
func failing(o Outcome, ids ...string) func(string) Outcome {
	return func(id string) Outcome {
		for _, x := range ids {
			if x == id {
				return o
			}
		}
		return Good
	}
}

func four() []view.Endpoint {
	return []view.Endpoint{in("a", "", 1000), in("b", "", 1000), in("c", "", 1000), in("d", "", 1000)}
}

func (r *rig) isOut() string {
	out := ""
	for _, e := range r.pool().ejected() {
		out += e.ID
	}
	return out
}

func TestFiveFailuresInARowSetAnEndpointAside(t *testing.T) {
	r := newRig("", four()...)
	got := r.picks(t, 2000, failing(Failed, "a"))
	if got["a"] != 5 || r.isOut() != "a" {
		t.Errorf("picked %v, out are %q", got, r.isOut())
	}
	if e := r.pool().ejected(); e[0].Why != EjectedConsecutive || e[0].For != 5*time.Second {
		t.Errorf("out are %+v", e)
	}
}

func TestASuccessBetweenThemBeginsTheRowAnew(t *testing.T) {
	r := newRig("", four()...)
	n := 0
	r.picks(t, 2000, func(id string) Outcome {
		if id != "a" {
			return Good
		}
		if n++; n%5 == 0 { // a rate of 0.8, if it was looked at
			return Good
		}
		return Failed
	})
	if r.isOut() != "" {
		t.Errorf("out are %q", r.isOut())
	}
}

func TestARateOfFailureSetsAnEndpointAside(t *testing.T) {
	r := newRig("", four()...)
	n := 0
	for range 10 {
		r.picks(t, 100, func(id string) Outcome {
			if n++; id == "a" && n%3 != 0 {
				return Failed
			}
			return Good
		})
		r.second()
	}
	if e := r.pool().ejected(); len(e) != 1 || e[0].ID != "a" {
		t.Errorf("out are %+v", e)
	}
}

func TestWhatFailsForAllSetsNobodyAside(t *testing.T) {
	r := newRig("", four()...)
	for range 20 {
		r.picks(t, 100, failing(Failed, "a", "b", "c", "d"))
		r.second()
	}
	if n := r.pool().ejections.Load(); n > 1 { // the very first to fail five times may have had no sibling that did
		t.Errorf("%d were set aside", n)
	}
}

func TestTwoRefusedConnectionsSetAnEndpointAsideWhateverTheOthersDo(t *testing.T) {
	r := newRig("", four()...)
	got := r.picks(t, 2000, func(id string) Outcome {
		if id == "a" {
			return Refused
		}
		return Failed
	})
	if got["a"] != 2 || r.pool().ejected()[0].Why != EjectedRefused {
		t.Errorf("picked %v, out are %+v", got, r.pool().ejected())
	}
}

func TestAnotherInstanceAtTheAddressSetsAnEndpointAsideAndChargesNobody(t *testing.T) {
	r := newRig("", four()...)
	got := r.picks(t, 2000, failing(Stale, "a"))
	if got["a"] != 1 || r.isOut() != "a" {
		t.Errorf("picked %v, out are %q", got, r.isOut())
	}
	for _, row := range r.pool().tick(r.now) {
		if row.GetInstance() == "a" || row.GetFailed() != 0 {
			t.Errorf("reported %v", row)
		}
	}
}

func TestAtMostAShareIsSetAsideAndNeverTheLast(t *testing.T) {
	for n, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2, 9: 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig("", many(n)...)
			r.picks(t, 400*n, func(string) Outcome { return Refused })
			if got := len(r.pool().ejected()); got != want {
				t.Errorf("%d of %d are out, want %d", got, n, want)
			}
		})
	}
}

func TestTimeAsideDoublesAndFallsBackAfterAsLongInGoodHealth(t *testing.T) {
	r := newRig("", four()...)
	aside := func() (for_ time.Duration) {
		t.Helper()
		r.picks(t, 200, failing(Refused, "a"))
		e := r.pool().ejected()
		if len(e) != 1 {
			t.Fatalf("out are %+v", e)
		}
		return e[0].For
	}
	wait := func(d time.Duration, o Outcome) {
		for end := r.now + d; r.now < end; {
			r.second()
			r.picks(t, 20, failing(o, "a"))
		}
	}
	var got []time.Duration
	for range 4 {
		d := aside()
		got = append(got, d)
		for end := r.now + d; r.now < end; {
			r.second()
		}
		if r.isOut() != "" {
			t.Fatalf("it is not back after %s", d)
		}
	}
	if fmt.Sprint(got) != "[5s 10s 20s 40s]" {
		t.Errorf("aside for %v", got)
	}
	wait(90*time.Second, Good)
	if d := aside(); d != 5*time.Second {
		t.Errorf("aside for %s after it did well", d)
	}
}

func TestTheFirstFailureAfterItsReturnSetsAnEndpointAsideAgain(t *testing.T) {
	r := newRig("", four()...)
	r.picks(t, 200, failing(Failed, "a"))
	for range 6 {
		r.second()
	}
	if got := r.picks(t, 200, failing(Failed, "a")); got["a"] != 1 || r.isOut() != "a" {
		t.Errorf("picked %v, out are %q", got, r.isOut())
	}
}

func TestAZoneWhoseEndpointsAreSetAsideSpills(t *testing.T) {
	r := newRig("z1", in("a", "z1", 1000), in("b", "z1", 1000), in("c", "z2", 1000), in("d", "z2", 1000))
	r.picks(t, 200, failing(Refused, "a"))
	// Of the three that are left one is in z1, which should have a half: two thirds stay.
	wantShares(t, r.picks(t, 20_000, good), map[string]float64{"b": 2. / 3, "c": 1. / 6, "d": 1. / 6})
}

func TestAnEndpointThatIsSetAsideStaysSoInTheNextView(t *testing.T) {
	r := newRig("", four()...)
	r.picks(t, 200, failing(Refused, "a"))
	r.set(four()...)
	if got := r.picks(t, 200, good); got["a"] != 0 {
		t.Errorf("picked %v", got)
	}
	r.set(four()[1:]...)
	r.second()
	r.set(four()...)
	if got := r.picks(t, 200, good); got["a"] != 0 {
		t.Errorf("after it was away: picked %v", got)
	}
}

func TestWhereAllAreSetAsideAllArePicked(t *testing.T) {
	r := newRig("", four()...)
	r.picks(t, 400, failing(Refused, "a", "b"))
	r.set(four()[:2]...)
	wantShares(t, r.picks(t, 1000, good), map[string]float64{"a": .5, "b": .5})
}

func TestWithEjectionOffNobodyIsSetAside(t *testing.T) {
	r := newRig("", four()...)
	r.pool().ejection.Off = true
	r.picks(t, 400, failing(Refused, "a"))
	for range 10 {
		r.second()
	}
	if r.isOut() != "" {
		t.Errorf("out are %q", r.isOut())
	}
}

func TestRetriesAreAFifthOfTheRequestsOfASecondAndTen(t *testing.T) {
	b := newBudget(RetryBudget{Share: 0.2, Floor: 10})
	spend := func() (n int) {
		for b.take() {
			n++
		}
		return n
	}
	if n := spend(); n != 100 {
		t.Errorf("%d at first, want ten seconds of the floor", n)
	}
	for _, c := range []struct{ requests, want int }{{0, 10}, {100, 30}, {10_000, 2010}, {1, 10}} {
		b.earn(uint64(c.requests))
		if n := spend(); n != c.want {
			t.Errorf("%d after %d requests, want %d", n, c.requests, c.want)
		}
	}
	for range 100 {
		b.earn(100)
	}
	if n := spend(); n != 300 {
		t.Errorf("%d were saved, want those of ten seconds", n)
	}
}
