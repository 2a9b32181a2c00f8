package evidence

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// services knows n instances of each service; those of "silent" declare no
// outcomes.
func services(n int, names ...string) (in *Ingest, handles map[string]uint32, of map[string]string) {
	in, handles, of = New(0, 5), map[string]uint32{}, map[string]string{}
	h := uint32(0)
	for _, s := range names {
		for i := range n {
			h++
			id := fmt.Sprint(s, i)
			handles[id], of[id] = h, s
			in.Know(Instance{Handle: h, ID: id, Service: s, Profile: eligibility.Profile{Outcomes: s != "silent"}})
		}
	}
	return in, handles, of
}

// merger of a relay that knows what of says.
func merger(of map[string]string) *Merger {
	return NewMerger(func(id string) (string, bool) { s, ok := of[id]; return s, ok })
}

// forward hands a relay's second to control.
func forward(in *Ingest, r *Relay, m *Merger, number uint64, handles map[string]uint32) {
	second := m.Seal()
	b := MergedBatch{Number: number, Reports: uint32(second.Reports), Callers: second.Callers, Groups: second.Groups}
	for _, x := range second.Rows {
		b.Rows = append(b.Rows, MergedRow{handles[x.Instance], x.Outcomes, x.Apart})
	}
	in.Merged(r, b)
}

func TestWhatRelaysMergeIsSealedAsIfTheirReportersHadToldItThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		direct, handles, of := services(4, "a", "b", "silent")
		merged, _, _ := services(4, "a", "b", "silent")
		ids := []string{"unknown"}
		for id := range of {
			ids = append(ids, id)
		}
		reporters := rapid.IntRange(1, 8).Draw(t, "reporters")
		relays := rapid.IntRange(1, 3).Draw(t, "relays")
		told, tellers := map[int]*Reporter{}, map[int]*Teller{}
		var mergers []*Merger
		var streams []*Relay
		for range relays {
			mergers, streams = append(mergers, merger(of)), append(streams, &Relay{})
		}
		zones, revisions := []string{""}, []string{""}
		for i := range rapid.SampledFrom([]int{1, 3, 20}).Draw(t, "names") { // also more than are told apart
			zones, revisions = append(zones, fmt.Sprint("zone-", i)), append(revisions, fmt.Sprint("shop-0000", i))
		}
		count := rapid.SampledFrom([]uint32{0, 0, 1, 3, 19, 20, 21, 400, maxCount, maxCount + 1})
		for second := range uint64(rapid.IntRange(1, 12).Draw(t, "seconds")) {
			for who := range reporters {
				if told[who] == nil {
					name := fmt.Sprint("gateway/", who)
					told[who], tellers[who] = NewReporter(name), NewTeller(name)
				}
				from := Caller{rapid.SampledFrom(zones).Draw(t, "zone"), rapid.SampledFrom(revisions).Draw(t, "revision")}
				tellers[who].From(from)
				b, seen := Batch{Number: second + 1, Caller: from}, []Seen(nil)
				for range rapid.IntRange(0, 8).Draw(t, "rows") {
					s := Seen{Instance: rapid.SampledFrom(ids).Draw(t, "id"), OK: count.Draw(t, "ok"), Failed: count.Draw(t, "failed"), Refused: rapid.Uint32Range(0, 2).Draw(t, "refused")}
					seen = append(seen, s)
					b.Rows = append(b.Rows, Row{handles[s.Instance], s.OK, s.Failed, s.Refused, 0})
				}
				direct.Outcomes(told[who], b)
				mergers[who%relays].Take(tellers[who], b.Number, seen)
			}
			for i, m := range mergers {
				forward(merged, streams[i], m, second+1, handles)
			}
			if diff := cmp.Diff(direct.Seal(), merged.Seal()); diff != "" {
				t.Fatalf("second %d (-from the reporters, +from relays):\n%s", second, diff)
			}
		}
	})
}

func TestAtARelayAReportersVolumeBuysNoWeight(t *testing.T) {
	in, handles, of := services(2, "a")
	m := merger(of)
	loud := NewTeller("loud")
	same := make([]Seen, 500) // the same row again and again
	for i := range same {
		same[i] = Seen{Instance: "a0", Failed: 10_000}
	}
	for n := range uint64(100) { // and batch after batch
		m.Take(loud, n+1, same)
	}
	for i := range 5 {
		m.Take(NewTeller(fmt.Sprint("quiet", i)), 1, []Seen{{Instance: "a0", OK: 4}, {Instance: "a1", OK: 4}})
	}
	forward(in, &Relay{}, m, 1, handles)
	e, _ := in.Seal().row(handles["a0"])
	if o := e.Outcomes[0]; o.Failed > mostBatches*Cap || o.OK != 20 || o.Reporters.Count() != 6 || o.Hurt.Count() != 1 {
		t.Errorf("%d failed, %d ok, %d reporters, %d hurt", o.Failed, o.OK, o.Reporters.Count(), o.Hurt.Count())
	}
	if m.Discarded()[TooMany] < 99*500 {
		t.Errorf("discarded: %v", m.Discarded())
	}
}

func TestManyRowsOrBatchesOfOneSecondBuyNoWeight(t *testing.T) {
	in := fleet(2)
	loud := NewReporter("loud")
	same := make([]Row, 500)
	for i := range same {
		same[i] = Row{Instance: 1, Failed: 10_000}
	}
	for n := range uint64(100) {
		in.Outcomes(loud, Batch{Number: n + 1, Rows: same})
	}
	e, _ := in.Seal().row(1)
	if o := e.Outcomes[0]; o.Failed > mostBatches*Cap {
		t.Errorf("%d failures of one reporter count in a second", o.Failed)
	}
	in.Outcomes(loud, Batch{Number: 101, Rows: same})
	if e, _ := in.Seal().row(1); e.Outcomes[0].Failed != Cap {
		t.Errorf("in the next second %d count", e.Outcomes[0].Failed)
	}
}

func TestWhatARelaysReportersCannotHaveSaidIsDiscarded(t *testing.T) {
	one := eligibility.Sketch(0).With(1)
	for name, x := range map[string]eligibility.Outcomes{
		"more than so many count":               {OK: 2*Cap + 1, Reporters: one},
		"by nobody":                             {OK: 1},
		"somebody saw nothing":                  {Reporters: one},
		"more reporters than reports":           {OK: 3, Reporters: 0b111},
		"more compared than seen":               {OK: 1, Reporters: one, Compared: 2},
		"more expected than compared":           {OK: 1, Reporters: one, Compared: 1, Expected: 1001},
		"hurt without reporting":                {Failed: 1, Reporters: one, Hurt: one << 1},
		"refused without reporting":             {Failed: 1, Reporters: one, Refusing: one << 1},
		"hurt without a failure":                {OK: 1, Reporters: one, Hurt: one},
		"sums that would wrap around to little": {OK: 1<<32 - 1, Failed: 2, Reporters: one},
	} {
		in := fleet(1)
		in.Merged(&Relay{}, MergedBatch{Number: 1, Reports: 2, Rows: []MergedRow{{Instance: 1, Outcomes: x}}})
		if rows := in.Seal().Rows; len(rows) > 0 || in.Discarded()[OutOfRange] != 1 {
			t.Errorf("%s: %+v is sealed, discarded %v", name, rows, in.Discarded())
		}
	}
	lying := fleet(1)
	lying.Merged(&Relay{}, MergedBatch{Number: 1, Reports: 1<<32 - 1, Rows: []MergedRow{{Instance: 1, Outcomes: eligibility.Outcomes{OK: 1<<32 - 1, Failed: 7, Reporters: one}}}})
	if rows := lying.Seal().Rows; len(rows) > 0 || lying.Discarded()[OutOfRange] != 1 {
		t.Errorf("of more reporters than there can be: %+v is sealed, discarded %v", rows, lying.Discarded())
	}
	in, r := fleet(1), &Relay{}
	good := []MergedRow{{Instance: 1, Outcomes: eligibility.Outcomes{Failed: 1, Reporters: one, Hurt: one}}, {Instance: 9, Outcomes: eligibility.Outcomes{OK: 1, Reporters: one}}}
	in.Merged(r, MergedBatch{Number: 7, Reports: 1, Rows: good})
	in.Merged(r, MergedBatch{Number: 7, Reports: 1, Rows: good})
	in.Merged(r, MergedBatch{Number: 8, Reports: 1, Rows: make([]MergedRow, MaxMerged+1)})
	if d := in.Discarded(); d[UnknownInstance] != 1 || d[Repeated] != 2 || d[TooLarge] != MaxMerged+1 {
		t.Errorf("discarded: %v", d)
	}
	if e, ok := in.Seal().row(1); !ok || e.Outcomes[0].Failed != 1 {
		t.Errorf("sealed: %+v", e)
	}
}

func TestWhatIsChargedToCallersIsTheSameThroughRelays(t *testing.T) {
	direct, handles, of := services(3, "a")
	merged, _, _ := services(3, "a")
	mergers, streams := []*Merger{merger(of), merger(of)}, []*Relay{{}, {}}
	charged := 0
	told, tellers := map[string]*Reporter{}, map[string]*Teller{}
	for second := uint64(1); second <= 12; second++ {
		for i := range 12 {
			who := fmt.Sprint("caller/", i)
			if told[who] == nil {
				told[who], tellers[who] = NewReporter(who), NewTeller(who)
			}
			from := Caller{fmt.Sprint("zone-", i%3), fmt.Sprint("shop-0000", i%2)}
			b, seen := Batch{Number: second, Caller: from}, []Seen(nil)
			for id := range of {
				s := Seen{Instance: id, OK: 2}
				if second > 6 && from.Zone == "zone-1" {
					s = Seen{Instance: id, Failed: 2, Refused: 1}
				}
				seen = append(seen, s)
				b.Rows = append(b.Rows, Row{handles[id], s.OK, s.Failed, s.Refused, 0})
			}
			tellers[who].From(from)
			direct.Outcomes(told[who], b)
			mergers[i%2].Take(tellers[who], second, seen)
		}
		for i, m := range mergers {
			forward(merged, streams[i], m, second, handles)
		}
		want := direct.Seal()
		if d := cmp.Diff(want, merged.Seal()); d != "" {
			t.Fatalf("second %d (-from the reporters, +from relays):\n%s", second, d)
		}
		for _, row := range want.Rows {
			if row.Charged != nil {
				charged++
			}
		}
	}
	if charged != 6*3 {
		t.Errorf("%d rows have something charged to callers, want those of 3 instances in 6 seconds", charged)
	}
}
