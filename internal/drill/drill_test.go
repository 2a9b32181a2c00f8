package drill

import (
	"strings"
	"testing"
	"time"
)

const sec = time.Second

func there(names ...string) (all []Seen) {
	for _, n := range names {
		role, name, _ := strings.Cut(n, "/")
		all = append(all, Seen{Role: role, Name: name, Session: "s"})
	}
	return all
}

// done is a drill of a minute after which these are back, a second after control.
func done(before, after []Seen) *Drill {
	d := Begin("x", time.Minute, before, nil, 0)
	d.Answered(time.Minute)
	d.See(time.Minute+sec, after)
	d.Ask(time.Minute+sec, nil)
	d.See(time.Minute+returnWithin, after)
	d.Ask(time.Minute+returnWithin, nil)
	return d
}

func TestTheClaimHoldsWhereNoCallHadNowhereToGoAndEverybodyCameBack(t *testing.T) {
	after := there("gateway/g", "host/h", "service/web")
	after[0].Said = &Said{Away: 61 * sec, Calls: 5000, Failed: 3}
	after[2].Said = &Said{Away: 60 * sec, Calls: 70}
	d := done(there("gateway/g", "host/h", "service/web"), after)
	v := d.Verdict()
	if !v.Held || v.Calls != 5070 || v.Failed != 3 || v.Oldest != 61*sec || v.Returned != sec || d.Elapsed(time.Hour) != 61*sec {
		t.Errorf("%+v after %s", v, d.Elapsed(time.Hour))
	}
	if len(v.Notes) != 2 || v.Notes[0] != "nobody was in the table of who may route by what" || !strings.HasPrefix(v.Notes[1], "3 calls were answered with a failure by an instance") {
		t.Errorf("notes: %q", v.Notes)
	}
}

func TestTheClaimDoesNotHoldWhereACallHadNowhereToGoOrSomebodyStaysAway(t *testing.T) {
	after := there("gateway/g")
	after[0].Said = &Said{Away: 61 * sec, Calls: 5000, Unroutable: 2}
	v := done(there("gateway/g", "gateway/h"), after).Verdict()
	if v.Held || strings.Join(v.Against, "; ") != "2 of 5000 calls had nowhere to go at gateway/g; 1 of 2 did not come back: gateway/h" {
		t.Errorf("%+v", v)
	}
}

func TestADrillThatShowsLittleSaysSo(t *testing.T) {
	after := there("gateway/g", "gateway/old")
	after[0].Session = "another"
	d := Begin("x", time.Minute, there("gateway/g", "gateway/old"), nil, 0)
	d.Aborted = true
	d.Answered(10 * sec)
	d.See(11*sec, after)
	d.Ask(11*sec, nil)
	v := d.Verdict()
	text := strings.Join(v.Notes, "; ")
	for _, want := range []string{"started anew meanwhile, and do not know of their calls before: gateway/g", "did not say what became of their calls: gateway/g, gateway/old", "no call was made", "ended early"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q: %s", want, text)
		}
	}
	if v.Held || d.State != Over {
		t.Errorf("%+v, %s", v, d.State)
	}
}

func TestADrillEndsWhenItsTimeHasPassedWhateverElse(t *testing.T) {
	d := Begin("x", Shortest, there("gateway/g"), nil, 7*sec)
	if d.Due(11*sec) || !d.Due(12*sec) {
		t.Error("it is due at another time")
	}
	d.See(20*sec, there("gateway/g"))
	if d.State != Outage {
		t.Error("it is over before control answers")
	}
	d.Answered(13 * sec)
	d.Ask(13*sec+returnWithin-1, nil)
	if d.State != Return {
		t.Errorf("it is %s", d.State)
	}
	d.Ask(13*sec+returnWithin, nil)
	if d.State != Over || d.Verdict().Held {
		t.Errorf("it is %s, %+v", d.State, d.Verdict())
	}
}
