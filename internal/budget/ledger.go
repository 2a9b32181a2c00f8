package budget

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

const (
	// Kept publications of a service; who acknowledges an older one is counted
	// in no histogram.
	Kept = 256
	// Window over which a promise is judged: between one and two of these.
	Window = 5 * time.Minute
)

// Ledger has the publications of one service's view, and how soon those who
// route by it acknowledged them. Each caller that held the version before owes
// an acknowledgement of the next, until it gives one or leaves. One that comes
// later owes none of what was published before it came. The zero Ledger is
// ready.
type Ledger struct {
	// Latency by kind, since the ledger began.
	Latency [kinds]Histogram

	all    []publication // by number
	past   [2]sums       // of publications that are judged: this half of the window and the one before
	turned time.Duration // when the present half began
}

type publication struct {
	number      Number
	at          time.Duration
	nature      view.Nature
	owed, acked int
	in          [len(promises)]int // acknowledged in time for the promise
	judged      bool               // it is in past
}

// sums of one half of the window, by promise.
type sums struct{ due, in [len(promises)]int }

// Publish enters a version that so many callers are to acknowledge.
func (l *Ledger) Publish(n Number, nature view.Nature, owed int, now time.Duration) {
	if len(l.all) >= Kept {
		l.judge(&l.all[0], now)
		l.all = slices.Delete(l.all, 0, 1)
	}
	l.all = append(l.all, publication{number: n, at: now, nature: nature, owed: owed})
}

// Acknowledge says that so many callers who owed all that came after one number
// have acknowledged another.
func (l *Ledger) Acknowledge(after, to Number, callers int, now time.Duration) {
	for i := l.from(after); i < len(l.all) && !to.Before(l.all[i].number); i++ {
		l.all[i].acknowledge(callers, now, &l.Latency)
	}
}

// Reached says how many of a group of callers are at each number or beyond it:
// for who tells only sums. Before is what it told last, and of how many
// callers; what is counted already is not counted again.
func (l *Ledger) Reached(before, now func(Number) int, left int, at time.Duration) {
	for i := range l.all {
		p := &l.all[i]
		if more := now(p.number) - before(p.number); more > 0 {
			p.acknowledge(more, at, &l.Latency)
		}
	}
	if left > 0 {
		l.leave(0, left)
	}
}

func (p *publication) acknowledge(callers int, now time.Duration, latency *[kinds]Histogram) {
	callers = min(callers, p.owed-p.acked)
	if callers <= 0 {
		return
	}
	p.acked += callers
	took := now - p.at
	for _, k := range Kinds() {
		if k.of(p.nature) {
			latency[k].Add(took, uint64(callers))
		}
	}
	for i, promise := range promises {
		if promise.Kind.of(p.nature) && took <= promise.Within {
			p.in[i] += callers
		}
	}
}

// Leave says that a caller who owed all that came after a number owes nothing
// any more: it is gone, and no caller.
func (l *Ledger) Leave(after Number) { l.leave(l.from(after), 1) }

func (l *Ledger) leave(from, callers int) {
	for i := from; i < len(l.all); i++ {
		if p := &l.all[i]; !p.judged {
			p.owed = max(p.acked, p.owed-callers)
		}
	}
}

// from is the place of the first publication after a number.
func (l *Ledger) from(after Number) int {
	i, found := slices.BinarySearchFunc(l.all, after, func(p publication, n Number) int {
		switch {
		case p.number.Before(n):
			return -1
		case n.Before(p.number):
			return 1
		}
		return 0
	})
	if found {
		i++
	}
	return i
}

// Since is when the first version after a number was published. False: there is
// none, or it is long ago.
func (l *Ledger) Since(after Number) (at time.Duration, behind bool) {
	if i := l.from(after); i < len(l.all) {
		return l.all[i].at, true
	}
	return 0, false
}

// Last is the newest version of a kind; false where none is kept.
func (l *Ledger) Last(k Kind) (n Number, ok bool) {
	for _, p := range slices.Backward(l.all) {
		if k.of(p.nature) {
			return p.number, true
		}
	}
	return Number{}, false
}

// Standing is how a promise was kept over the window.
type Standing struct {
	Promise
	// Due acknowledgements: those that were given, and those whose time has
	// passed. In time are so many of them.
	Due, InTime int
}

// Missed says that fewer were in time than is promised.
func (s Standing) Missed() bool { return float64(s.InTime) < s.Share*float64(s.Due) }

// Judge says how each promise is kept.
func (l *Ledger) Judge(now time.Duration) []Standing {
	if now-l.turned >= Window {
		l.past[1], l.past[0], l.turned = l.past[0], sums{}, now
	}
	live := sums{}
	for i := range l.all {
		p := &l.all[i]
		if p.judged {
			continue
		}
		if p.acked == p.owed || now-p.at > longest {
			l.judge(p, now)
			continue
		}
		live.add(p, now)
	}
	out := make([]Standing, len(promises))
	for i, promise := range promises {
		out[i] = Standing{promise, live.due[i] + l.past[0].due[i] + l.past[1].due[i], live.in[i] + l.past[0].in[i] + l.past[1].in[i]}
	}
	return out
}

// longest time that is promised.
var longest = slices.MaxFunc(promises[:], func(a, b Promise) int { return int(a.Within - b.Within) }).Within

// judge has a publication count as it is now, and no further.
func (l *Ledger) judge(p *publication, now time.Duration) {
	if !p.judged {
		p.judged = true
		l.past[0].add(p, now)
	}
}

func (s *sums) add(p *publication, now time.Duration) {
	for i, promise := range promises {
		if !promise.Kind.of(p.nature) {
			continue
		}
		if s.in[i] += p.in[i]; now-p.at > promise.Within {
			s.due[i] += p.owed
		} else {
			s.due[i] += p.acked
		}
	}
}

// Report is how soon those who route by a service's view acknowledged its
// versions.
type Report struct {
	Service string
	// Published is the newest version; zero is none.
	Published view.Version
	// Callers who route by it and are connected, here or at a relay.
	Callers int
	// Latency by [Kind], since this control leads.
	Latency []Histogram
	// Promises, as they were kept in the last minutes.
	Promises []Standing
}
