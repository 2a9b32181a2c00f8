package lease

import (
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Standing is what a view says of an instance. Of one that is not in the view
// nothing is known: it has full weight.
type Standing struct {
	// Weight in thousandths; 0 is out: not to be leased while any other of the
	// group may answer.
	Weight int
	// Marked says that health is disregarded where it stands: others are
	// leased first.
	Marked bool
	// Away says that it stands in another zone than the one that is preferred:
	// those of that zone are leased first, among the marked and among the others.
	Away bool
}

// rank in which it is leased: the lowest first.
func (s Standing) rank() (r rank) {
	if s.Marked {
		r += 2
	}
	if s.Away {
		r++
	}
	return r
}

type rank uint8

const ranks = 4

// StandingsOf is what a service's view says of the instances of one group to
// who stands in a zone; nil is no view, and the empty zone prefers none.
func StandingsOf(s *view.Service, group, zone string) map[string]Standing {
	if s == nil {
		return nil
	}
	prefer := prefers(s, group, zone)
	out := make(map[string]Standing, len(s.Endpoints)) // :: instance → standing
	for _, e := range s.Endpoints {
		out[e.ID] = Standing{Weight: e.Weight, Marked: e.In() && s.Disregarded(group, e.Zone), Away: prefer && e.Zone != zone}
	}
	return out
}

// prefers says whether the instances of a zone are leased first there: unless the
// service's policy has callers pick from any, where they weigh no less than the
// mean of all zones with instances in rotation. What less instances cannot take
// would be leased to them all the same, up to their last credit.
func prefers(s *view.Service, group, zone string) bool {
	if zone == "" || s.AnyZone || s.Disregarded(group, zone) {
		return false
	}
	total, all := 0, map[string]int{} // :: zone → its weight
	for _, e := range s.Endpoints {
		if e.In() && !s.Disregarded(group, e.Zone) {
			all[e.Zone] += e.Weight
			total += e.Weight
		}
	}
	return all[zone] > 0 && all[zone]*len(all) >= total
}

// Consider has instances leased by what a view says of them, from now on. The
// view chooses among those whom the rules allow, and never beyond.
func (q *Queue) Consider(standings map[string]Standing) []Command {
	q.begin()
	q.standings = standings
	q.reopen()
	return q.settle()
}

// Patience is how long a request waits for a credit of an instance that is not
// out, where none of them has any here, before one that is out will do.
const Patience = time.Second

// Relent leases instances that are out as well, if requests have waited for
// long and none of the others has a credit here: someone could answer. It ends
// when one of the others gets a credit.
func (q *Queue) Relent(now time.Duration) []Command {
	q.begin()
	if q.relented || q.waiting.n == 0 || now-q.waiting.head.Arrived < Patience {
		return nil
	}
	q.relented = true
	q.reopen() // which takes it back where one has
	return q.settle()
}

// reopen finds anew who may be leased: those that are live and allowed, without
// those that are out as long as there is another.
func (q *Queue) reopen() {
	q.open, q.free, q.turn, q.uneven = q.open[:0], 0, 0, false
	all := q.Instances()
	well, credits := 0, 0
	for _, in := range all {
		in.open = in.state == Live && q.rules != nil && q.rules.Allows(in.Revision, in.Minted)
		in.weight, in.rank = view.FullWeight, 0
		if s, known := q.standings[in.ID]; known {
			in.weight, in.rank = s.Weight, s.rank()
		}
		if r := q.records[in.ID]; r != nil && r.out {
			in.weight = 0
		}
		if in.open && in.weight > 0 {
			well, credits = well+1, credits+in.owned
		}
	}
	q.relented = q.relented && well > 0 && credits == 0
	for _, in := range all {
		if well == 0 || q.relented { // health is disregarded
			in.weight, in.rank = view.FullWeight, 0
		}
		in.open = in.open && in.weight > 0
		if in.open {
			q.open = append(q.open, in)
			q.free += in.idle()
			q.uneven = q.uneven || in.weight != q.open[0].weight || in.rank != q.open[0].rank
		}
	}
}

// share is what an instance counts: its weight multiplies its credits.
func (in *Instance) share() uint64 { return uint64(in.owned) * uint64(in.weight) }

// most leases that its weight leaves it while others have credits; never below one.
func (in *Instance) most() int { return max(1, in.owned*in.weight/view.FullWeight) }

// pickUneven is pick where weights or ranks differ: by rank, and each of less than
// the highest weight by its share of all leases.
func (q *Queue) pickUneven(avoid *Instance) *Instance {
	for r := range rank(ranks) {
		if in := q.pickWeighed(r, avoid); in != nil {
			return in
		}
	}
	if avoid != nil && avoid.open && avoid.idle() > 0 {
		return avoid
	}
	return nil
}

func (q *Queue) pickWeighed(r rank, avoid *Instance) *Instance {
	highest, all := 0, uint64(0)
	for _, in := range q.open {
		if in.rank == r {
			highest, all = max(highest, in.weight), all+in.share()
		}
	}
	var due, heavy, light *Instance
	n := len(q.open)
	for k := range n {
		in := q.open[(q.turn+k)%n]
		if in.rank != r {
			continue
		}
		if in.weight < highest { // it is its turn once in so many leases
			in.turn = min(in.turn+in.share(), 2*all) // what it cannot take is not owed for ever
		}
		switch {
		case in.idle() == 0 || in == avoid:
		case in.weight == highest:
			if heavy == nil || in.lessBusy(heavy) {
				heavy = in
			}
		case in.turn >= all && in.inUse < in.most():
			if due == nil || in.turn > due.turn {
				due = in
			}
		case light == nil || in.lessBusy(light):
			light = in
		}
	}
	switch {
	case due != nil:
		due.turn -= all
		return due
	case heavy != nil:
		q.turn = (q.at(heavy) + 1) % n
		return heavy
	}
	return light
}

func (q *Queue) at(in *Instance) int {
	for i := range q.open {
		if q.open[i] == in {
			return i
		}
	}
	return 0
}
