package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// fleet knows n instances of one service, looked at by the probers 1 and 2.
func fleet(n int) *Ingest {
	in := New(0, 5)
	for h := range uint32(n) {
		in.Know(Instance{Handle: h + 1, ID: fmt.Sprintf("i%d", h+1), Service: "s", Profile: eligibility.Profile{Probe: true, Self: true, Outcomes: true}, Probers: []uint32{1, 2}})
	}
	return in
}

// row finds what a tick holds of an instance.
func (t Tick) row(h uint32) (eligibility.Evidence, bool) {
	for _, r := range t.Rows {
		if r.Instance == h {
			return r.Evidence, true
		}
	}
	return eligibility.Evidence{}, false
}

func TestAReportersVolumeBuysNoWeight(t *testing.T) {
	in := fleet(2)
	loud := NewReporter("loud")
	in.Outcomes(loud, Batch{Number: 1, Rows: []Row{{Instance: 1, Failed: 10_000}, {Instance: 2, OK: 10}}})
	for i := range 5 {
		in.Outcomes(NewReporter(fmt.Sprint("quiet", i)), Batch{Number: 1, Rows: []Row{{Instance: 1, OK: 4}, {Instance: 2, OK: 4}}})
	}
	e, ok := in.Seal().row(1)
	if !ok || len(e.Outcomes) != 1 {
		t.Fatalf("got %+v", e)
	}
	o := e.Outcomes[0]
	if o.Failed != Cap || o.OK != 20 || o.Reporters.Count() != 6 || o.Hurt.Count() != 1 {
		t.Errorf("%d failed, %d ok, %d reporters, %d of them hurt; want %d, 20, 6, 1", o.Failed, o.OK, o.Reporters.Count(), o.Hurt.Count(), Cap)
	}
}

func TestAReporterThatFailsEverywhereExpectsItsFailures(t *testing.T) {
	in := fleet(3)
	in.Outcomes(NewReporter("broken"), Batch{Number: 1, Rows: []Row{{Instance: 1, Failed: 10}, {Instance: 2, Failed: 10}, {Instance: 3, Failed: 10}}})
	e, _ := in.Seal().row(2)
	o := e.Outcomes[0]
	if o.Expected != uint64(o.Failed)*1000 || o.Hurt.Count() != 0 {
		t.Errorf("of %d failures %d thousandths are expected, %d are hurt; want all of them, and nobody", o.Failed, o.Expected, o.Hurt.Count())
	}
}

func TestWhoCalledNoSiblingIsComparedWithWhatAllSawOfThemInTheSameSecond(t *testing.T) {
	in := fleet(3)
	in.Outcomes(NewReporter("one call at a time"), Batch{Number: 1, Rows: []Row{{Instance: 1, Failed: 10}}})
	in.Outcomes(NewReporter("another"), Batch{Number: 1, Rows: []Row{{Instance: 2, OK: 3, Failed: 1}}})
	e, _ := in.Seal().row(1)
	if o := e.Outcomes[0]; o.Compared != 10 || o.Expected != 10*250 || o.Hurt.Count() != 1 {
		t.Errorf("got %+v; want a quarter of ten expected", o)
	}
	in.Outcomes(NewReporter("the only one"), Batch{Number: 1, Rows: []Row{{Instance: 1, Failed: 1}}})
	e, _ = in.Seal().row(1)
	if o := e.Outcomes[0]; o.Compared != 0 {
		t.Errorf("nobody called a sibling, and %d are compared", o.Compared)
	}
}

func TestWhatCannotBeAttributedIsDiscardedAndCounted(t *testing.T) {
	in := fleet(2)
	in.Know(Instance{Handle: 3, ID: "external", Service: "x", Profile: eligibility.Profile{Outcomes: true}, Probers: []uint32{1}})
	r := NewReporter("r")
	in.Outcomes(r, Batch{Number: 5, Rows: []Row{{Instance: 99, OK: 1}, {Instance: 1, OK: 1 << 31}, {Instance: 1, OK: 1, Refused: 4}}})
	in.Outcomes(r, Batch{Number: 5, Rows: []Row{{Instance: 1, OK: 1}}})
	in.Outcomes(r, Batch{Number: 6, Rows: make([]Row, MaxRows+1)})
	in.Probes(3, []Look{{Instance: 1}})
	in.Probes(1, []Look{{Instance: 3}, {Instance: 1, Result: 77}})
	in.Self(1, 2, eligibility.Self{})
	in.Self(2, 2, eligibility.Self{Dependencies: []eligibility.Permille{2000}})
	in.Self(3, 3, eligibility.Self{})
	want := map[Reason]uint64{UnknownInstance: 1, OutOfRange: 4, Repeated: 1, TooLarge: MaxRows + 1, NotAssigned: 1, Undeclared: 2, NotItself: 1}
	if d := cmp.Diff(want, in.Discarded()); d != "" {
		t.Errorf("discarded: %s", d)
	}
	if tick := in.Seal(); len(tick.Rows) != 0 {
		t.Errorf("something of it was sealed: %+v", tick)
	}
}

func TestThePrecedingAssignmentIsAccepted(t *testing.T) {
	in := fleet(1)
	in.Know(Instance{Handle: 1, Service: "s", Profile: eligibility.Profile{Probe: true}, Probers: []uint32{2}, Before: []uint32{1}})
	in.Probes(1, []Look{{Instance: 1, Result: eligibility.Failed}})
	if e, ok := in.Seal().row(1); !ok || len(e.Probes) != 1 {
		t.Errorf("got %+v", e)
	}
}

func TestTicksAreExactWhereAnythingFailedAndOneRowInTenSecondsOtherwise(t *testing.T) {
	in := fleet(1)
	r := NewReporter("r")
	rows, results := 0, uint32(0)
	for i := range 40 {
		in.Outcomes(r, Batch{Number: uint64(i + 1), Rows: []Row{{Instance: 1, OK: 10}}})
		if e, ok := in.Seal().row(1); ok {
			rows++
			results += e.Outcomes[0].OK
		}
	}
	if rows != 4 || results != 390 && results != 400 {
		t.Errorf("40 clean seconds of 10 results: %d rows with %d results", rows, results)
	}
	for i := range 3 {
		in.Outcomes(r, Batch{Number: uint64(i + 50), Rows: []Row{{Instance: 1, OK: 9, Failed: 1}}})
		e, ok := in.Seal().row(1)
		last := len(e.Outcomes) - 1
		if !ok || e.Outcomes[last].Failed != 1 || e.Outcomes[last].Span != 1 {
			t.Errorf("a second with a failure: %+v", e)
		}
	}
}

func TestASuspectProbersNegativesAreMarkedInTheSameTick(t *testing.T) {
	in := fleet(10)
	looks := []Look{}
	for h := range uint32(10) {
		looks = append(looks, Look{Instance: h + 1, Result: eligibility.Refused})
	}
	in.Probes(1, looks)
	in.Probes(2, []Look{{Instance: 1}})
	for _, r := range in.Seal().Rows {
		for _, p := range r.Probes {
			if p.Suspect != (p.Prober == 1) {
				t.Errorf("instance %d: %+v", r.Instance, p)
			}
		}
	}
	if s := in.Suspects(); len(s) != 1 || s[0] != 1 {
		t.Errorf("suspects: %v", s)
	}
}

func TestForgottenInstancesAreNotSealed(t *testing.T) {
	in := fleet(1)
	in.Probes(1, []Look{{Instance: 1, Result: eligibility.Failed}})
	in.Forget(1)
	if tick := in.Seal(); len(tick.Rows) != 0 {
		t.Errorf("got %+v", tick)
	}
}

func sample() *Segment {
	in := fleet(3)
	s := &Segment{Incarnation: "i", Instances: []Named{{1, "i1", "s"}, {2, "i2", "s"}, {3, "i3", "s"}}}
	r := NewReporter("r")
	for i := range 30 {
		in.Outcomes(r, Batch{Number: uint64(i + 1), Rows: []Row{{Instance: 1, OK: 9, Failed: uint32(i % 2), Refused: uint32(i % 2)}, {Instance: 2, OK: 3}}})
		in.Probes(1, []Look{{Instance: uint32(i%3 + 1), Result: eligibility.Result(i % 4)}})
		in.Self(3, 3, eligibility.Self{Ready: i%5 > 0, Dependencies: []eligibility.Permille{eligibility.Permille(i)}})
		s.Ticks = append(s.Ticks, in.Seal())
	}
	return s
}

func TestASegmentIsReadBackAsItWasSealed(t *testing.T) {
	s := sample()
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	back, err := Decode(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s, back); d != "" {
		t.Error(d)
	}
	for at := range b.Len() {
		if _, err := Decode(bytes.NewReader(b.Bytes()[:at])); !errors.Is(err, ErrSegment) {
			t.Fatalf("torn at byte %d of %d: %v", at, b.Len(), err)
		}
	}
	for at := range b.Len() {
		bad := bytes.Clone(b.Bytes())
		bad[at] ^= 0x40
		if back, err := Decode(bytes.NewReader(bad)); err == nil && !cmp.Equal(s.Ticks, back.Ticks) {
			t.Fatalf("a bit of byte %d turned: read as something else", at)
		}
	}
}

func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Encode(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := Decode(bytes.NewReader(text)); err == nil {
			var again bytes.Buffer
			if err := s.Encode(&again); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkOutcomes has as many reporters as instances, each of which calls
// twenty of them in a second.
func BenchmarkOutcomes(b *testing.B) {
	for _, n := range []int{10_000, 60_000, 240_000} {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) { benchOutcomes(b, n) })
	}
}

func benchOutcomes(b *testing.B, instances int) {
	const perBatch = 20
	in := New(0, 5)
	for h := range uint32(instances) {
		in.Know(Instance{Handle: h + 1, Service: fmt.Sprint(h % 450), Profile: eligibility.Profile{Outcomes: true}})
	}
	reporters := make([]*Reporter, instances)
	rows := make([]Row, instances*perBatch)
	for i := range rows {
		rows[i] = Row{Instance: uint32((i/perBatch*7919+i%perBatch*450)%instances) + 1, OK: 10, Failed: uint32(i%100) / 99}
	}
	for i := range reporters {
		reporters[i] = NewReporter(fmt.Sprint("reporter", i))
	}
	from := []Caller{} // three zones, two revisions of each of three callers
	for i := range 18 {
		from = append(from, Caller{fmt.Sprint("zone-", i%3), fmt.Sprint("shop-0000", i/3)})
	}
	n := 0
	report := func() {
		i := n % len(reporters)
		n++
		in.Outcomes(reporters[i], Batch{Number: uint64(n), Caller: from[i%len(from)], Rows: rows[i*perBatch : (i+1)*perBatch]})
		if i == len(reporters)-1 {
			in.Seal()
		}
	}
	for range reporters { // each stream has begun
		report()
	}
	b.ReportAllocs()
	for b.Loop() {
		report()
	}
	b.ReportMetric(float64(b.N)*perBatch/b.Elapsed().Seconds(), "rows/s")
}
