package lease

import (
	"slices"
	"time"
)

// Seen is what became of the requests to one instance in a second.
type Seen struct{ OK, Failed uint32 }

// Aside is an instance that is not leased for a while, by what this gateway saw
// of it itself.
type Aside struct {
	Instance string
	For      time.Duration
}

// The rules are those of the resolver's callers (resolver.Ejection): a row of
// failures, or half of twenty recent requests; always clearly worse than the
// siblings; at most half of the group, and never the last.
const (
	asideRow      = 5
	asideRequests = 20
	asideRate     = 0.5
	asideBase     = 5 * time.Second
	asideLongest  = 5 * time.Minute
	recentFade    = 0.9 // of what was seen, each second
)

// record is what was seen of one instance.
type record struct {
	ok, failed float64 // of the last seconds, the older the less
	row        uint32  // failures since the last success
	out        bool
	until      time.Duration
	times      int           // set aside one after the other
	back       time.Duration // when it came back last
}

func (r *record) rate() float64 {
	if r.failed == 0 {
		return 0
	}
	return r.failed / (r.ok + r.failed)
}

// bad says that it failed often enough to be judged.
func (r *record) bad() bool {
	return r.row >= asideRow || r.ok+r.failed >= asideRequests && r.rate() >= asideRate
}

// Judge ends a second, in which so much was seen of each instance. While nobody
// else judges them (alone), it sets those aside that do clearly worse than their
// siblings; otherwise it only has them come back in their time: who is set aside
// is seen by nobody, and so gives the plane nothing to judge by.
func (q *Queue) Judge(seen map[string]Seen, alone bool, now time.Duration) (aside []Aside, cs []Command) {
	q.begin()
	if len(seen) == 0 && len(q.records) == 0 {
		return nil, nil
	}
	changed := q.recordAll(seen, now)
	if alone {
		aside = q.condemn(now)
	}
	if len(aside) > 0 || changed {
		q.reopen()
	}
	return aside, q.settle()
}

// recordAll brings the records up to date, and says whether an instance came back.
func (q *Queue) recordAll(seen map[string]Seen, now time.Duration) (back bool) {
	for id, s := range seen {
		if q.instances[id] == nil {
			continue
		}
		if q.records == nil {
			q.records = map[string]*record{}
		}
		r := q.records[id]
		if r == nil {
			r = &record{}
			q.records[id] = r
		}
		r.ok, r.failed = r.ok+float64(s.OK)/recentFade, r.failed+float64(s.Failed)/recentFade
		if r.row += s.Failed; s.OK > 0 {
			r.row = 0
		}
	}
	for id, r := range q.records {
		r.ok, r.failed = r.ok*recentFade, r.failed*recentFade
		if r.out && now >= r.until {
			*r = record{row: asideRow - 1, times: r.times, back: now} // its next failure decides
			back = true
		}
		forgotten := r.ok+r.failed < 0.5 && r.row == 0 && now-r.back > asideFor(r.times)
		if q.instances[id] == nil || forgotten && !r.out {
			delete(q.records, id)
		}
	}
	return back
}

// condemn sets aside who does worse than the others, worst first.
func (q *Queue) condemn(now time.Duration) (aside []Aside) {
	in, out, sum := 0, 0, record{}
	var bad []string
	for _, x := range q.Instances() {
		r := q.records[x.ID]
		switch {
		case x.state != Live || q.rules == nil || !q.rules.Allows(x.Revision, x.Minted):
		case r != nil && r.out:
			out++
		case x.open:
			in++
			if r != nil {
				sum.ok, sum.failed = sum.ok+r.ok, sum.failed+r.failed
				if r.bad() {
					bad = append(bad, x.ID)
				}
			}
		}
	}
	slices.SortStableFunc(bad, func(a, b string) int { return int(1000 * (q.records[b].rate() - q.records[a].rate())) })
	most := max(1, (in+out)/2)
	for _, id := range bad {
		r := q.records[id]
		others := record{ok: max(0, sum.ok-r.ok), failed: max(0, sum.failed-r.failed)}
		if in <= 1 || out >= most || r.rate() <= 2*others.rate() {
			continue
		}
		if now-r.back > asideFor(r.times) {
			r.times = 0
		}
		r.out, r.until = true, now+asideFor(r.times)
		r.times++
		in, out, sum = in-1, out+1, others
		aside = append(aside, Aside{id, r.until - now})
	}
	return aside
}

// asideFor is how long the next time lasts, after so many.
func asideFor(times int) time.Duration {
	d := asideBase
	for range times {
		if d *= 2; d >= asideLongest {
			return asideLongest
		}
	}
	return d
}
