// Package admission is the rule by which subscribers are let in after many lost
// their streams at once: at most 5% of the known population in any ten seconds,
// and never fewer than 50 of a region, so that a small installation is back at
// once. Who holds nothing, and gateways and hosts, go first. It is pure: the
// time is passed in, and it knows nothing of streams. Read [Gate] first.
package admission

import (
	"slices"
	"sort"
	"time"
)

const (
	// Window is the time over which admissions are counted: any, not one that
	// begins at a full ten seconds.
	Window = 10 * time.Second
	// Floor is how many a region admits in a window, however small it is.
	Floor = 50
	// percent of the known population that a window admits.
	percent = 5
	// longest a refused one is told to stay away: a population that grew, or
	// was taken for too small, is not kept out by a line that nobody stands in.
	longest = 5 * time.Minute
	// missed is how long after its time one that was refused is still expected:
	// it adds its own jitter.
	missed = 3 * time.Second
)

// Limit is how many of a population a region admits in a window.
func Limit(population int) int { return max(Floor, population*percent/100) }

// Share is how many one of several doors admits in a window, so that all
// together keep the limit of the region. Where the floor is above the whole
// population there is nothing to be shared out: every door has the floor.
func Share(population, doors int) int {
	if population <= Floor || doors <= 1 {
		return Limit(population)
	}
	return max(1, Limit(population)/doors)
}

// Class says who goes first.
type Class int

// The classes, in their order.
const (
	// First are gateways, hosts, relays, and callers without any view: these
	// have nothing to route by.
	First Class = iota
	// Rest hold views: for them an hour more is only age.
	Rest
)

// classes in all.
const classes = Rest + 1

// Gate is one door. It admits at most its limit in any window, the first class
// before the rest, and tells each that it refuses when to come back, so that
// these come as fast as they can be admitted. A fifth of a window is the rest's
// where the rest waits: who claims to hold nothing keeps nobody out for ever. It
// is used by one goroutine at a time, with times of one monotonic clock that do
// not fall.
type Gate struct {
	limit    int
	all      []time.Duration          // admissions of the last window, in order
	admitted [classes][]time.Duration // the same, by class
	expected [classes][]time.Duration // when those who were refused are to be back
	line     [classes]time.Duration   // when the next one who is refused is to be back
}

// New makes a gate that admits so many in a window.
func New(limit int) *Gate { return &Gate{limit: max(1, limit)} }

// SetLimit changes how many are admitted in a window, from now on.
func (g *Gate) SetLimit(limit int) { g.limit = max(1, limit) }

// Limit is how many are admitted in a window.
func (g *Gate) Limit() int { return g.limit }

// Ask admits one, or says after how long it is to ask again at the earliest.
func (g *Gate) Ask(now time.Duration, c Class) (admitted bool, retry time.Duration) {
	g.forget(now)
	if g.free(c) > now {
		return false, g.book(now, c)
	}
	g.all = append(g.all, now)
	g.admitted[c] = append(g.admitted[c], now)
	if len(g.expected[c]) > 0 {
		g.expected[c] = g.expected[c][1:]
	}
	return true, 0
}

// forget drops what counts no more.
func (g *Gate) forget(now time.Duration) {
	g.all = drop(g.all, now-Window)
	for c := range classes {
		g.admitted[c] = drop(g.admitted[c], now-Window)
		g.expected[c] = drop(g.expected[c], now-missed)
	}
}

// drop leaves out what is no later than at, and keeps no room where nothing is
// left.
func drop(times []time.Duration, at time.Duration) []time.Duration {
	n := sort.Search(len(times), func(i int) bool { return times[i] > at })
	if n > 0 && n == len(times) {
		return nil
	}
	return times[n:]
}

// free is when one more of the class can be admitted; what is over needs no
// waiting. The rest is spread over the window, so that the first class finds
// room soon whenever it comes.
func (g *Gate) free(c Class) time.Duration {
	at := after(g.all, g.limit, Window)
	rest := max(1, g.limit/5)
	if c == First {
		return max(at, after(g.admitted[First], max(1, g.limit-min(rest, len(g.expected[Rest]))), Window))
	}
	room := g.limit - len(g.admitted[First]) - len(g.expected[First])
	return max(at, after(g.admitted[Rest], max(rest, room), Window), after(g.admitted[Rest], g.pace(), Window/10))
}

// after is when fewer than most of the times are within the span before.
func after(times []time.Duration, most int, span time.Duration) time.Duration {
	if len(times) < most {
		return 0
	}
	return times[len(times)-most] + span
}

// pace is how many of the rest a tenth of a window admits: a tenth of the
// limit and a little more, since jitter does not come evenly.
func (g *Gate) pace() int { return max(min(Floor, g.limit), g.limit/10+g.limit/50) }

// book gives one that is refused its place in the line of its class.
func (g *Gate) book(now time.Duration, c Class) time.Duration {
	at := max(g.free(c), g.line[c])
	if c == Rest {
		at = max(at, min(g.line[First], now+Window))
	}
	if at > now+longest {
		return longest
	}
	g.line[c] = at + Window/time.Duration(g.limit)
	i, _ := slices.BinarySearch(g.expected[c], at)
	g.expected[c] = slices.Insert(g.expected[c], i, at)
	return at - now
}
