package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
)

// spread grants so many leases one after the other, with so many held at a
// time, and counts those of each instance.
func spread(q *lease.Queue, leases, held int) map[string]int {
	got := map[string]int{} // :: instance → leases
	var open []*lease.Instance
	for range leases {
		if len(open) == held {
			q.End(open[0])
			open = open[1:]
		}
		in := q.Arrive(&lease.Request{Deadline: time.Hour}, 0)[0].Instance
		got[in.ID]++
		open = append(open, in)
	}
	return got
}

func TestWeightsSpreadLeasesInProportionHoweverFewAreHeld(t *testing.T) {
	for _, held := range []int{1, 2, 5, 40} {
		for _, c := range []struct {
			weights []int
			want    []int // of 2,100
		}{
			{[]int{1000, 1000, 1000}, []int{700, 700, 700}},
			{[]int{1000, 1000, 100}, []int{1000, 1000, 100}},
			{[]int{1000, 500, 600}, []int{1000, 500, 600}},
			{[]int{300, 300, 100}, []int{900, 900, 300}},
		} {
			t.Run(fmt.Sprint(held, c.weights), func(t *testing.T) {
				q := benchQueue(3, 100)
				standings := map[string]lease.Standing{}
				for i, w := range c.weights {
					standings[fmt.Sprintf("i%03d", i)] = lease.Standing{Weight: w}
				}
				q.Consider(standings)
				got := spread(q, 2100, held)
				for i, want := range c.want {
					if n := got[fmt.Sprintf("i%03d", i)]; n < want*9/10-3 || n > want*11/10+3 {
						t.Errorf("of 2,100 leases %v, want about %v", got, c.want)
					}
				}
			})
		}
	}
}

func TestAViewSaysWhichInstancesOfAGroupAreOutAndWhichAreMarked(t *testing.T) {
	s := &view.Service{
		Name: "s", Endpoints: []view.Endpoint{
			{ID: "a", Zone: "x", Weight: 1000}, {ID: "b", Zone: "y", Weight: 300}, {ID: "c", Zone: "y", Verdict: view.Ineligible},
		},
		Marks: []view.ZoneMark{{Group: "g", Zone: "x", DegradedConfidence: true}, {Group: "g", Zone: ""}, {Group: "h", Zone: "", DegradedConfidence: true}},
	}
	if got := fmt.Sprint(lease.StandingsOf(s, "g", "")); got != "map[a:{1000 true false} b:{300 false false} c:{0 false false}]" {
		t.Errorf("g: %s", got)
	}
	if got := fmt.Sprint(lease.StandingsOf(s, "h", "")); got != "map[a:{1000 true false} b:{300 true false} c:{0 false false}]" {
		t.Errorf("h, whose zones are pooled: %s", got)
	}
	if lease.StandingsOf(nil, "g", "") != nil {
		t.Error("no view says something")
	}
}

func TestAGatewaysZoneIsPreferredWhereItHasItsShareAndThePolicyDoesNotSayAny(t *testing.T) {
	s := &view.Service{Name: "s", Endpoints: []view.Endpoint{
		{ID: "a", Zone: "x", Weight: 1000}, {ID: "b", Zone: "x", Weight: 1000}, {ID: "c", Zone: "y", Weight: 1000}, {ID: "d", Zone: "z", Verdict: view.Ineligible},
	}}
	away := func(zone string) (ids string) {
		for _, e := range s.Endpoints {
			if lease.StandingsOf(s, "g", zone)[e.ID].Away {
				ids += e.ID
			}
		}
		return ids
	}
	for zone, want := range map[string]string{"": "", "x": "cd", "y": "", "z": "", "nowhere": ""} {
		if got := away(zone); got != want {
			t.Errorf("to one in zone %q, away are %q, want %q", zone, got, want)
		}
	}
	s.AnyZone = true
	if got := away("x"); got != "" {
		t.Errorf("from any zone alike, and away are %q", got)
	}
	s.AnyZone, s.Marks = false, []view.ZoneMark{{Group: "g", Zone: "x", DegradedConfidence: true}, {Group: "g", Zone: "y"}}
	if x, y := away("x"), away("y"); x != "" || y != "abd" {
		t.Errorf("x is marked: away from it are %q, and from y %q", x, y)
	}
}
