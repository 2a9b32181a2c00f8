package evidence

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// zones lets n seconds pass in which one caller of each zone calls every
// instance; those of bad zones fail.
func zones(in *Ingest, instances uint32, from, n int, bad string, names ...string) (ticks []Tick) {
	reporters := map[string]*Reporter{}
	for i := range n {
		for _, zone := range names {
			if reporters[zone] == nil {
				reporters[zone] = NewReporter(zone)
			}
			b := Batch{Number: uint64(from + i), Caller: Caller{Zone: zone}}
			for h := range instances {
				row := Row{Instance: h + 1, OK: 3}
				if zone == bad {
					row = Row{Instance: h + 1, Failed: 3}
				}
				b.Rows = append(b.Rows, row)
			}
			in.Outcomes(reporters[zone], b)
		}
		ticks = append(ticks, in.Seal())
	}
	return ticks
}

func TestWhatACallerZoneThatFailsEverywhereSawIsLeftOutAndSaidApart(t *testing.T) {
	in := fleet(5)
	zones(in, 5, 1, 10, "", "a", "b", "c")
	for _, tick := range zones(in, 5, 11, 3, "b", "a", "b", "c") {
		for h := range uint32(5) {
			e, _ := tick.row(h + 1)
			if d := cmp.Diff(&eligibility.Charged{Caller: "b", Results: 3, Failed: 3}, e.Charged); d != "" {
				t.Errorf("tick %d: %s", tick.Number, d)
			}
			for _, o := range e.Outcomes {
				if o.Failed != 0 || o.Expected != 0 || o.Hurt != 0 || o.Compared != o.OK {
					t.Errorf("tick %d: what is left of it is %+v", tick.Number, o)
				}
			}
		}
	}
	if d := cmp.Diff([]Charge{{Service: "s", Caller: "b", Since: 11}}, in.Charges()); d != "" {
		t.Error(d)
	}
}

func TestThousandsOfCallersZonesAreBoundedAndCounted(t *testing.T) {
	in := fleet(2)
	r := NewReporter("liar")
	for i := range 4 * mostBatches {
		for k := range 1000 {
			in.Outcomes(NewReporter("liar"), Batch{Number: 1, Caller: Caller{fmt.Sprint("zone", i, k), fmt.Sprint("revision", k)}, Rows: []Row{{1, 1, 1, 0, 0}, {2, 1, 1, 0, 0}}})
		}
		for _, o := range in.instances {
			for k := range kinds {
				if n := len(o.parts[k]); n != MostCallers+1 {
					t.Fatalf("of an instance %d parts are kept", n)
				}
			}
		}
		in.Seal()
		for k := range kinds {
			if n := len(in.services["s"].groups[k]); n > MostCallers {
				t.Fatalf("of a service %d groups of callers are kept", n)
			}
		}
	}
	if n := in.Crowded(); n < 10_000 {
		t.Errorf("callers were not told apart %d times", n)
	}
	for i, name := range []string{strings.Repeat("x", MaxName+1), "a\nb", "\xff"} {
		in.Outcomes(r, Batch{Number: uint64(i + 1), Caller: Caller{Zone: name}, Rows: []Row{{1, 1, 0, 0, 0}}})
	}
	if n := in.Discarded()[Misnamed]; n != 3 {
		t.Errorf("%d names that cannot be one are counted", n)
	}
	if n := whole(in.instances[1].row, &in.instances[1].parts).OK; n != 3 {
		t.Errorf("%d of 3 results count of those who told such names", n)
	}
}

func TestASegmentWithoutChargesIsOfTheEarlierFormatAndOneWithThemIsReadBack(t *testing.T) {
	in := fleet(3)
	s := &Segment{Incarnation: "i", Ticks: zones(in, 3, 1, 10, "", "a", "b", "c")}
	for _, want := range []string{format, withCharges} {
		var b bytes.Buffer
		if err := s.Encode(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String()[:60], want) {
			t.Errorf("its first line is %.60q; want %q", b.String(), want)
		}
		back, err := Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s, back); d != "" {
			t.Error(d)
		}
		s.Ticks = append(s.Ticks, zones(in, 3, 11, 3, "b", "a", "b", "c")...)
	}
}

func TestASegmentInWhichNobodyGaveUpIsOfAnEarlierFormatAndOneWithThoseIsReadBack(t *testing.T) {
	in := fleet(2)
	r := NewReporter("gateway/g1")
	var ticks []Tick
	for n := range uint64(12) {
		in.Outcomes(r, Batch{Number: n + 1, Rows: []Row{{Instance: 1, OK: 2, Failed: 3, Unanswered: 2}, {Instance: 2, OK: 9}}})
		ticks = append(ticks, in.Seal())
	}
	if o := ticks[0].Rows[0].Outcomes[0]; o.Failed != 3 || o.Unanswered != 2 {
		t.Fatalf("sealed is %+v", o)
	}
	s := &Segment{Incarnation: "i", Ticks: ticks}
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String()[:60], withUnanswered) {
		t.Errorf("its first line is %.60q", b.String())
	}
	back, err := Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s, back); d != "" {
		t.Error(d)
	}
}

func TestPartsOfARelaysRowThatAreNotTheWholeOfItAreDiscarded(t *testing.T) {
	one := eligibility.Sketch(0).With(1)
	x := eligibility.Outcomes{OK: 2, Failed: 1, Reporters: one}
	part := func(caller int, o eligibility.Outcomes) Part { return Part{Caller: caller, Outcomes: o} }
	cases := map[string][]Part{
		"less":            {part(1, eligibility.Outcomes{OK: 1, Failed: 1, Reporters: one})},
		"more":            {part(1, x), part(2, x)},
		"wrapped around":  {part(1, eligibility.Outcomes{OK: 1<<32 - 1, Failed: 1, Reporters: one}), part(2, eligibility.Outcomes{OK: 3, Reporters: one})},
		"other reporters": {part(1, eligibility.Outcomes{OK: 2, Failed: 1, Reporters: one << 1})},
		"too many":        append(make([]Part, MostCallers+1), part(1, x)),
		"none by zones":   nil,
	}
	for name, parts := range cases {
		in := fleet(1)
		apart := Apart{Zones: parts, Revisions: []Part{part(1, x)}}
		in.Merged(&Relay{}, MergedBatch{Number: 1, Reports: 2, Callers: []string{"a", "b"}, Rows: []MergedRow{{Instance: 1, Outcomes: x, Apart: apart}}})
		if rows := in.Seal().Rows; len(rows) > 0 || in.Discarded()[OutOfRange] != 1 {
			t.Errorf("%s: %+v is sealed, discarded %v", name, rows, in.Discarded())
		}
	}
	in := fleet(1) // a name that is none, and one that is not there
	in.Merged(&Relay{}, MergedBatch{Number: 1, Reports: 2, Callers: []string{"a\x00"}, Rows: []MergedRow{{Instance: 1, Outcomes: x, Apart: Apart{Zones: []Part{part(1, x)}, Revisions: []Part{part(77, x)}}}}})
	if e, ok := in.Seal().row(1); !ok || e.Outcomes[0].Failed != 1 || in.Discarded()[Misnamed] != 1 {
		t.Errorf("sealed is %+v, discarded %v", e, in.Discarded())
	}
}

// FuzzCallers feeds what callers may say of where they are, and checks that parts
// stay whole and bounded, and that what is left out was there.
func FuzzCallers(f *testing.F) {
	f.Add([]byte("aaaabbbbccccddddaaaabbbbccccdddd"), "zone")
	f.Add([]byte("\x00\x01\x02\x03\x10\x11\x12\x13"), strings.Repeat("é", 70))
	f.Fuzz(func(t *testing.T, text []byte, stem string) {
		in := fleet(4)
		for number := uint64(1); len(text) >= 4; text, number = text[4:], number+1 {
			c := Caller{fmt.Sprint(stem, text[0]%16), stem + string(text[:1])}
			in.Outcomes(NewReporter(string(text[1:2])), Batch{Number: number, Caller: c, Rows: []Row{
				{uint32(text[2]%4) + 1, uint32(text[3] & 7), uint32(text[3] >> 3), 0, 0}, {uint32(text[3]%4) + 1, 0, uint32(text[1] & 7), 0, 0},
			}})
			sums := map[uint32]eligibility.Outcomes{}
			for h, o := range in.instances {
				sums[h] = whole(o.row, &o.parts)
				byRevisions := whole(o.row, &[kinds]parts{o.parts[byRevision]})
				if sums[h] != byRevisions || len(o.parts[byZone]) > MostCallers+1 || len(o.parts[byRevision]) > MostCallers+1 {
					t.Fatalf("by %d zones it is %+v, by %d revisions %+v", len(o.parts[byZone]), sums[h], len(o.parts[byRevision]), byRevisions)
				}
			}
			if text[0]%4 != 0 {
				continue
			}
			for _, row := range in.Seal().Rows {
				if c := row.Charged; c != nil {
					if c.Failed == 0 || c.Results < c.Failed || c.Failed > sums[row.Instance].Failed || c.Caller == "" {
						t.Fatalf("charged of %+v is %+v", sums[row.Instance], c)
					}
				}
			}
		}
	})
}
