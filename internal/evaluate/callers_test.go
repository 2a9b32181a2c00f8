package evaluate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

// crowd are callers of which each makes few calls, and which are of zones and
// revisions.
type crowd struct {
	*plane
	callers []crowdling
	number  uint64
}

type crowdling struct {
	*evidence.Reporter
	from evidence.Caller
	// calls are the zones in whose instances it calls, one call in a second each.
	calls []string
}

// newCrowd has per callers in each of the zones, half of each of two revisions.
// Callers prefer their own zone: every third also calls elsewhere.
func newCrowd(p *plane, per int, zones ...string) *crowd {
	c := &crowd{plane: p}
	for _, zone := range zones {
		for i := range per {
			x := crowdling{evidence.NewReporter(fmt.Sprint("caller/", zone, i)), evidence.Caller{Zone: zone, Revision: fmt.Sprint("shop-0000", i%2+1)}, []string{zone}}
			if i%3 == 0 {
				x.calls = zones
			}
			c.callers = append(c.callers, x)
		}
	}
	return c
}

// call has n seconds pass, in which each caller makes one call in each zone that
// it calls in, to whatever instance is its turn.
func (c *crowd) call(n int, fails func(evidence.Caller, registry.Instance) bool) {
	for i := range n {
		if i%5 == 0 {
			c.looks(good)
		}
		c.number++
		in := map[string][]registry.Instance{} // :: zone → in rotation
		for _, x := range c.Standings("s") {
			if x.Verdict != view.Ineligible {
				in[x.Zone] = append(in[x.Zone], x.Instance)
			}
		}
		for r, who := range c.callers {
			b := evidence.Batch{Number: c.number, Caller: who.from}
			for _, zone := range who.calls {
				if len(in[zone]) == 0 {
					continue
				}
				x := in[zone][(int(c.number)+r/3)%len(in[zone])]
				row := evidence.Row{Instance: x.Handle, OK: 1}
				if fails(who.from, x) {
					row.OK, row.Failed = 0, 1
				}
				b.Rows = append(b.Rows, row)
			}
			c.ingest.Outcomes(who.Reporter, b)
		}
		c.second()
	}
}

func ofZone(zone string) func(evidence.Caller, registry.Instance) bool {
	return func(c evidence.Caller, _ registry.Instance) bool { return c.Zone == zone }
}

func TestOneCallerZoneThatFailsEverywhereIsChargedToThoseCallers(t *testing.T) {
	p := newPlane(4, "a", "b", "c")
	c := newCrowd(p, 48, "a", "b", "c")
	c.call(60, func(evidence.Caller, registry.Instance) bool { return false })
	c.call(60, ofZone("b"))
	p.everWithdrawn(t)
	for _, tr := range p.history {
		if tr.From != eligibility.Unknown {
			t.Errorf("%s became %s: %s", tr.Instance, tr.To, tr.Account().Why)
		}
	}
	if charges := p.ingest.Charges(); len(charges) != 1 || charges[0].Caller != "b" || charges[0].Revision {
		t.Fatalf("charged are %+v", charges)
	}
	told := 0
	for _, x := range p.Standings("s") {
		for _, line := range x.Account.Classes {
			if strings.Contains(line, "callers of zone b fail everywhere, others do not: charged to them") {
				told++
			}
		}
	}
	if told != 12 {
		t.Errorf("%d of 12 instances are explained by it", told)
	}
	c.call(30, func(evidence.Caller, registry.Instance) bool { return false })
	if charges := p.ingest.Charges(); len(charges) != 0 {
		t.Errorf("they do well again, and charged are %+v", charges)
	}
}

func TestOneCallerRevisionThatFailsEverywhereIsChargedToThoseCallers(t *testing.T) {
	p := newPlane(4, "a", "b", "c")
	c := newCrowd(p, 48, "a", "b", "c")
	c.call(60, func(evidence.Caller, registry.Instance) bool { return false })
	c.call(60, func(from evidence.Caller, _ registry.Instance) bool { return from.Revision == "shop-00002" })
	p.everWithdrawn(t)
	if charges := p.ingest.Charges(); len(charges) != 1 || charges[0].Caller != "shop-00002" || !charges[0].Revision {
		t.Fatalf("charged are %+v", charges)
	}
}

func TestWhatFailsForAllCallersOrAtOneInstanceIsChargedToNoZone(t *testing.T) {
	for name, fails := range map[string]func(evidence.Caller, registry.Instance) bool{
		"one instance":               func(_ evidence.Caller, x registry.Instance) bool { return x.ID == "b-001" },
		"one instance, for one zone": func(c evidence.Caller, x registry.Instance) bool { return c.Zone == "b" && x.ID == "b-001" },
		"everything for all":         func(evidence.Caller, registry.Instance) bool { return true },
		"all instances of a zone":    func(_ evidence.Caller, x registry.Instance) bool { return x.Zone == "b" },
	} {
		p := newPlane(4, "a", "b", "c")
		c := newCrowd(p, 48, "a", "b", "c")
		c.call(60, func(evidence.Caller, registry.Instance) bool { return false })
		c.call(20, fails)
		if charges := p.ingest.Charges(); len(charges) != 0 {
			t.Errorf("%s: charged are %+v", name, charges)
		}
		if out := p.out(); name == "one instance" && len(out) != 1 {
			t.Errorf("%s: out are %v", name, out)
		}
	}
}

func TestAZoneOfCallersThatIsRefusedEverywhereTakesNobodyOutBeforeItsSecondIsOver(t *testing.T) {
	p := newPlane(4, "a", "b", "c")
	c := newCrowd(p, 48, "a", "b", "c")
	c.call(60, func(evidence.Caller, registry.Instance) bool { return false })
	for range 20 {
		c.number++
		if c.number%5 == 0 {
			p.looks(good)
		}
		for _, zone := range []string{"b", "a", "c"} { // what b's callers saw comes first
			for r, who := range c.callers {
				if who.from.Zone != zone {
					continue
				}
				b := evidence.Batch{Number: c.number, Caller: who.from}
				x := p.reg.Of("s")[(r+int(c.number))%12]
				b.Rows = []evidence.Row{{Instance: x.Handle, OK: 1}}
				if zone == "b" {
					b.Rows[0] = evidence.Row{Instance: x.Handle, Failed: 1, Refused: 1}
				}
				c.ingest.Outcomes(who.Reporter, b)
			}
			if left := p.early(); len(left) != 0 {
				t.Fatalf("left early: %+v", left)
			}
		}
		p.second()
	}
	p.everWithdrawn(t)
	if charges := p.ingest.Charges(); len(charges) != 1 || charges[0].Caller != "b" {
		t.Errorf("charged are %+v", charges)
	}
}

func TestWhatIsChargedToCallersIsFoldedFromSealedTicksToTheBit(t *testing.T) {
	p := newPlane(4, "a", "b", "c")
	c := newCrowd(p, 48, "a", "b", "c")
	c.call(40, func(evidence.Caller, registry.Instance) bool { return false })
	c.call(40, ofZone("b"))
	again := newPlane(4, "a", "b", "c")
	for _, tick := range stored(t, p.ticks) {
		again.history = append(again.history, again.Fold(tick)...)
	}
	charged := 0
	for _, row := range p.reg.Of("s") {
		live := p.instances.get(row.Handle).state
		if d := cmp.Diff(live, again.instances.get(row.Handle).state); d != "" {
			t.Errorf("(-as it was, +from what is kept):\n%s", d)
		}
		if live.Outcomes.Charged != nil {
			charged++
		}
	}
	if charged != 12 {
		t.Errorf("%d of 12 instances had something charged to callers", charged)
	}
}

// stored is what is read back of ticks that were kept.
func stored(t *testing.T, ticks []evidence.Tick) []evidence.Tick {
	t.Helper()
	var b bytes.Buffer
	if err := (&evidence.Segment{Incarnation: "i", Ticks: ticks}).Encode(&b); err != nil {
		t.Fatal(err)
	}
	s, err := evidence.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return s.Ticks
}
