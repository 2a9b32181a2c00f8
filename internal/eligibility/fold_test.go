package eligibility

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// draw makes any evidence at all, also such as no honest witness would give.
func draw(t *rapid.T) Evidence {
	e := Evidence{}
	for range rapid.IntRange(0, 3).Draw(t, "looks") {
		e.Probes = append(e.Probes, Probe{
			Prober: rapid.Uint32Range(0, 4).Draw(t, "prober"), Result: Result(rapid.Uint8Range(0, 5).Draw(t, "result")),
			Count: rapid.Uint16().Draw(t, "count"), Suspect: rapid.Bool().Draw(t, "suspect"),
		})
	}
	if rapid.Bool().Draw(t, "self") {
		e.Self = &Self{Ready: rapid.Bool().Draw(t, "ready"), Draining: rapid.Uint8Range(0, 9).Draw(t, "draining") == 0}
		for range rapid.IntRange(0, 4).Draw(t, "dependencies") {
			e.Self.Dependencies = append(e.Self.Dependencies, Permille(rapid.Uint16().Draw(t, "degraded")))
		}
	}
	if rapid.Bool().Draw(t, "calls") {
		count := rapid.OneOf(rapid.Uint32Range(0, 100), rapid.Uint32())
		sketch := rapid.OneOf(rapid.Uint64Range(0, 7), rapid.Uint64())
		e.Outcomes = []Outcomes{{
			Span: rapid.Uint8().Draw(t, "span"), OK: count.Draw(t, "ok"), Failed: count.Draw(t, "failed"), Compared: count.Draw(t, "compared"),
			Expected: rapid.Uint64().Draw(t, "expected"), Reporters: Sketch(sketch.Draw(t, "reporters")), Hurt: Sketch(sketch.Draw(t, "hurt")), Refusing: Sketch(sketch.Draw(t, "refusing")),
		}}
	}
	return e
}

func drawFacts(t *rapid.T) Facts {
	f := Facts{}
	switch rapid.IntRange(0, 30).Draw(t, "fact") {
	case 0:
		f.LeaseEnded = true
	case 1:
		f.HeldOut = true
	}
	return f
}

type moment struct {
	e     Evidence
	f     Facts
	empty bool
}

func drawLife(t *rapid.T) (*Terms, []moment) {
	c := Default()
	c.Ramp = rapid.SampledFrom([]int{0, 60, 120}).Draw(t, "ramp")
	c.SilenceFails = rapid.IntRange(0, 4).Draw(t, "silence fails") == 0
	c.Profile = rapid.SampledFrom([]Profile{{true, true, true}, {true, false, true}, {false, false, true}, {false, true, true}, {true, false, false}}).Draw(t, "profile")
	c.Dependencies = []Dependency{{Name: "db"}, {Name: "cache", Authority: Unready, Shared: new(bool)}}
	life, f := []moment{}, Facts{}
	for range rapid.IntRange(1, 40).Draw(t, "moments") {
		m := moment{f: f, e: draw(t)}
		life = append(life, m)
		for range rapid.IntRange(0, 30).Draw(t, "quiet") {
			life = append(life, moment{f: f, empty: true})
		}
		f = drawFacts(t)
	}
	return Prepare(c), life
}

// invariant checks what must hold of any state.
func invariant(t *rapid.T, s *State) {
	switch {
	case s.Weight > 1000:
		t.Fatalf("weight %d", s.Weight)
	case s.Verdict == Ineligible && s.Weight != 0:
		t.Fatalf("out of rotation with weight %d", s.Weight)
	case s.Verdict != Ineligible && s.Rule != Starting && s.Weight == 0:
		t.Fatalf("%s by %s without weight: evidence never leaves an instance in rotation with nothing", s.Verdict, s.Rule)
	case s.Ready && s.Rule == Starting:
		t.Fatal("once ready, and starting")
	case s.Outcomes.Bad > s.Outcomes.Results:
		t.Fatal("more failures than results")
	}
}

func TestNoEvidenceHoweverHostileBreaksTheFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, life := drawLife(t)
		s := State{Born: 1}
		for i, m := range life {
			s.Fold(c, m.e, m.f, int64(i)+1)
			invariant(t, &s)
			s.Explain(c, int64(i)+1)
		}
	})
}

func TestJudgedOnlyWhenDueTheVerdictsAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, life := drawLife(t)
		dense, sparse, due := State{Born: 1}, State{Born: 1}, int64(math.MaxInt64)
		for i, m := range life {
			now := int64(i) + 1
			dense.Fold(c, m.e, m.f, now)
			if fact := i > 0 && m.f != life[i-1].f; !m.empty || fact || now >= due || now == 1 {
				_, _, due = sparse.Fold(c, m.e, m.f, now)
			}
			if dense.Verdict != sparse.Verdict || dense.Rule != sparse.Rule || dense.Weight != sparse.Weight || dense.Step != sparse.Step {
				t.Fatalf("at %d: each second %s by %s weight %d step %d, when due %s by %s weight %d step %d", now,
					dense.Verdict, dense.Rule, dense.Weight, dense.Step, sparse.Verdict, sparse.Rule, sparse.Weight, sparse.Step)
			}
		}
	})
}

func TestARebuildFromARecordedTransitionEqualsTheLiveState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, life := drawLife(t)
		live, recorded, at := State{Born: 1}, []byte(nil), 0
		for i, m := range life {
			if _, changed, _ := live.Fold(c, m.e, m.f, int64(i)+1); changed {
				var err error
				if recorded, err = json.Marshal(live); err != nil {
					t.Fatal(err)
				}
				at = i + 1
			}
		}
		if recorded == nil {
			return
		}
		rebuilt := State{}
		if err := json.Unmarshal(recorded, &rebuilt); err != nil {
			t.Fatal(err)
		}
		for i := at; i < len(life); i++ {
			rebuilt.Fold(c, life[i].e, life[i].f, int64(i)+1)
		}
		if d := cmp.Diff(live, rebuilt); d != "" {
			t.Fatalf("live and rebuilt differ:\n%s", d)
		}
	})
}

func TestComingBackTakesLongerThanLeaving(t *testing.T) {
	c := Default()
	d := c.Damping()
	if d.Probes > maxDamping || d.Outcomes > maxDamping {
		t.Errorf("leaving is damped by %+v: at most %d s", d, maxDamping)
	}
	if half := c.DampingAt(500).Outcomes; half > maxDamping {
		t.Errorf("with half of the requests failing, leaving is damped by %d s by outcomes: at most %d", half, maxDamping)
	}
	if c.ReturnAfter <= max(d.Probes, d.Outcomes) {
		t.Errorf("back after %d s", c.ReturnAfter)
	}
}

func TestTheDampingTableOfTheDefaultContract(t *testing.T) {
	const want = `failing  by probes  by outcomes
100%     5 s        2 s
75%      15 s       3 s
50%      never      5 s
40%      never      7 s
30%      never      12 s
25%      never      24 s
20%      never      never
10%      never      never
5%       never      never
`
	if got := Default().DampingTable(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestHalvingHalves(t *testing.T) {
	for seconds := 1; seconds <= 60; seconds++ {
		d := halving(seconds)
		if left := d.after(1000*one, int64(seconds)); left > 500*one || left < 499*one {
			t.Errorf("after a half-life of %d s, %d of 1000 are left", seconds, left/one)
		}
	}
}

func TestACleanRunToldAtOnceWeighsAsMuchAsToldSecondBySecond(t *testing.T) {
	c := Prepare(Default())
	one, ten := Called{}, Called{}
	for now := int64(1); now <= 100; now++ {
		one.see(c, Outcomes{OK: 20, Span: 1}, now)
		if now%10 == 0 {
			ten.see(c, Outcomes{OK: 200, Span: 10}, now)
		}
	}
	if a, b := one.Results>>16, ten.Results>>16; a-b > a/100 {
		t.Errorf("told one by one: %d; at once: %d", a, b)
	}
}

func BenchmarkFold(b *testing.B) {
	c, s, now := Prepare(Default()), State{Born: 1}, int64(0)
	e := Evidence{Outcomes: []Outcomes{{OK: 100, Failed: 1, Compared: 101, Expected: 1010, Reporters: 7, Hurt: 1}}}
	b.ReportAllocs()
	for b.Loop() {
		now++
		s.Fold(c, e, Facts{}, now)
	}
}
