package lease_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
	"pgregory.net/rapid"
)

// fleet is a queue with so many instances of one allowed revision.
func fleet(n int) *lease.Queue {
	q := lease.NewQueue()
	q.Govern(&lease.Rules{Open: true, Splits: []view.Split{{Group: "g", Percent: 100, Allowed: []string{"r"}}}, MaxWaiting: 10})
	for i := range n {
		q.Offer(fmt.Sprintf("i%d", i), "r", "", 4)
	}
	return q
}

func open(q *lease.Queue) (ids []string) {
	for _, in := range q.Instances() {
		if in.Open() {
			ids = append(ids, in.ID)
		}
	}
	return ids
}

func TestWhoFailsInARowIsSetAsideWhileNobodyElseJudgesAndComesBackInItsTime(t *testing.T) {
	q := fleet(3)
	bad := map[string]lease.Seen{"i1": {Failed: 5}, "i0": {OK: 5}}
	if aside, _ := q.Judge(bad, false, time.Second); len(aside) != 0 || len(open(q)) != 3 {
		t.Fatalf("the plane judges: %v", aside)
	}
	q = fleet(3)
	aside, _ := q.Judge(bad, true, time.Second)
	if len(aside) != 1 || aside[0].Instance != "i1" || aside[0].For != 5*time.Second || !slices.Equal(open(q), []string{"i0", "i2"}) {
		t.Fatalf("set aside: %v, open: %v", aside, open(q))
	}
	q.Judge(nil, true, 5*time.Second)
	if len(open(q)) != 2 {
		t.Error("it came back before its time")
	}
	if q.Judge(nil, false, 6*time.Second); len(open(q)) != 3 {
		t.Error("it did not come back")
	}
	if aside, _ := q.Judge(map[string]lease.Seen{"i1": {Failed: 1}}, true, 7*time.Second); len(aside) != 1 || aside[0].For != 10*time.Second {
		t.Errorf("its next failure sets it aside for twice as long: %v", aside)
	}
}

func TestHalfOfTwentyRequestsAreEnoughAndOneGoodAnswerEndsARow(t *testing.T) {
	q := fleet(2)
	if aside, _ := q.Judge(map[string]lease.Seen{"i0": {OK: 1, Failed: 9}}, true, time.Second); len(aside) != 0 {
		t.Errorf("ten requests are too few: %v", aside)
	}
	q = fleet(2)
	if aside, _ := q.Judge(map[string]lease.Seen{"i0": {OK: 9, Failed: 11}, "i1": {OK: 20}}, true, time.Second); len(aside) != 1 {
		t.Errorf("eleven of twenty failed: %v", aside)
	}
}

func TestWhatFailsForAllSetsNobodyAsideAndNeverMoreThanHalf(t *testing.T) {
	q := fleet(4)
	all := map[string]lease.Seen{}
	for i := range 4 {
		all[fmt.Sprintf("i%d", i)] = lease.Seen{OK: 10, Failed: 30}
	}
	if aside, _ := q.Judge(all, true, time.Second); len(aside) != 0 {
		t.Errorf("a shared fault set aside %v", aside)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "instances")
		q := fleet(n)
		for second := range rapid.IntRange(1, 40).Draw(t, "seconds") {
			seen := map[string]lease.Seen{}
			for i := range n {
				seen[fmt.Sprintf("i%d", i)] = lease.Seen{OK: rapid.Uint32Range(0, 30).Draw(t, "ok"), Failed: rapid.Uint32Range(0, 30).Draw(t, "failed")}
			}
			q.Judge(seen, true, time.Duration(second)*time.Second)
			if left := len(open(q)); left < n-max(1, n/2) || left < 1 {
				t.Fatalf("%d of %d are left", left, n)
			}
		}
	})
}
