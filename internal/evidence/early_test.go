package evidence

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

func TestARowThatIsSealedEarlyIsOfItsSecondAndWhatComesAfterIsOfTheNext(t *testing.T) {
	in := fleet(3)
	refuse := func(prober, h uint32) { in.Probes(prober, []Look{{Instance: h, Result: eligibility.Refused}}) }
	x := NewReporter("x")
	in.Outcomes(x, Batch{Number: 1, Rows: []Row{{Instance: 1, OK: 2, Failed: 3}, {Instance: 2, OK: 5}}})
	refuse(1, 1)
	refuse(1, 3)
	var sealed []TickRow
	in.SealEarly(func(r TickRow) bool {
		if r.Instance == 1 {
			sealed = append(sealed, r)
		}
		return r.Instance == 1
	})
	if len(sealed) != 1 || len(sealed[0].Probes) != 1 || sealed[0].Outcomes[0].Failed != 3 {
		t.Fatalf("sealed early: %+v", sealed)
	}
	in.Outcomes(x, Batch{Number: 2, Rows: []Row{{Instance: 1, Failed: 4}, {Instance: 2, OK: 5}}})
	refuse(2, 1)
	in.SealEarly(func(r TickRow) bool { t.Errorf("a row of a second is sealed twice: %+v", r); return true })
	first, next := in.Seal(), in.Seal()
	got, _ := first.row(1)
	if d := cmp.Diff(sealed[0].Evidence, got); d != "" {
		t.Errorf("the second is not what was sealed of it:\n%s", d)
	}
	if e, there := first.row(3); !there || len(e.Probes) != 1 {
		t.Errorf("what was not accepted early is not in its second: %+v", e)
	}
	late, there := next.row(1)
	if !there || len(late.Probes) != 1 || late.Probes[0].Prober != 2 || len(late.Outcomes) != 1 || late.Outcomes[0].Failed != 4 {
		t.Errorf("what came after: %+v", late)
	}
	if late.Outcomes[0].Compared != 4 || late.Outcomes[0].Expected != 0 {
		t.Errorf("what came after is compared with %d results, of which %d thousandths are expected", late.Outcomes[0].Compared, late.Outcomes[0].Expected)
	}
	if n := len(in.Seal().Rows); n != 0 {
		t.Errorf("%d rows of a second in which nothing came", n)
	}
}

func TestAnInstanceThatIsForgottenIsNotSealedEarly(t *testing.T) {
	in := fleet(2)
	in.Probes(1, []Look{{Instance: 1, Result: eligibility.Refused}})
	in.Forget(1)
	in.SealEarly(func(r TickRow) bool { t.Errorf("sealed: %+v", r); return true })
}
