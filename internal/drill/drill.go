// Package drill exercises on a running system what is claimed of it. A [Drill]
// knows who was there before control went away, who came back, what each says of
// the time between, and how the table of who may route by what stands before and
// after; from that it makes a verdict. It has no clock and ends nothing by itself:
// whoever drives it says what time it is.
package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/admission"
	"github.com/fairlead-platform/fairlead/internal/routing"
)

const (
	// Shortest and Longest that control may be away, and Default where nobody says.
	Shortest = 5 * time.Second
	Default  = 30 * time.Second
	Longest  = time.Hour
	// returnWithin is how long is waited for those who were there: the silence
	// after which a stream is given up, and the admission of a fleet.
	returnWithin = 4 * time.Minute
	// askEvery is how often the table is looked at, and askMeanwhile while streams
	// are missing: to ask relays takes its time.
	askEvery     = 500 * time.Millisecond
	askMeanwhile = 10 * time.Second
	// explained is how long a stream may take to come back, beside admission: what
	// is refused waits up to a second each time, and a silent end is noticed late.
	explained = 10 * time.Second
)

// RouteTable stands for a gateway's stream of routes, beside that of its views.
const RouteTable = "routes"

// State of a drill.
type State string

// States, in order.
const (
	Outage State = "outage" // control answers no stream
	Return State = "return" // it does again; those who were there come back, and the table is asked for them
	Over   State = "over"
)

// Party is one of those who were connected when the drill began.
type Party struct {
	Role, Name string
	// Back says that it is connected again, so long after control answered again.
	Back      bool
	BackAfter time.Duration
	// Said is what it reports of the time without control; nil is nothing: hosts
	// and relays route no calls, and who started anew does not know.
	Said *Said
	// Session of its process; another one after the drill says that it started anew.
	Session string
	Anew    bool
	// Elsewhere says that it came back by another door: it is in the table, by a relay.
	Elsewhere bool
}

// Said is what a caller says of its calls while it heard nobody.
type Said struct {
	Away                      time.Duration
	Calls, Failed, Unroutable uint64
}

// Seen is somebody who is connected now.
type Seen struct {
	Role, Name, Session string
	Said                *Said
}

// Drill is one, from its beginning on.
type Drill struct {
	ID      string
	Length  time.Duration
	State   State
	Parties []Party // by role and name
	Aborted bool
	// Doubts were named when it began, see [Doubts].
	Doubts []string
	// Routers are those of the table before, by role and name, as they stood when
	// they were asked for last.
	Routers []Router

	table                         []routing.Standing // before
	relayed                       bool               // somebody of it follows a relay
	short                         []string           // what is missing, and of whom it cannot be told
	began, answered, asked, ended time.Duration
}

// Begin a drill with those who are connected, and the table of who may route by
// what.
func Begin(id string, length time.Duration, there []Seen, table []routing.Standing, now time.Duration) *Drill {
	d := &Drill{ID: id, Length: length, State: Outage, began: now, table: table, Doubts: Doubts(table)}
	for _, s := range there {
		d.Parties = append(d.Parties, Party{Role: s.Role, Name: s.Name, Session: s.Session})
	}
	slices.SortFunc(d.Parties, func(a, b Party) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name)) })
	return d
}

// Elapsed since it began, until it was over.
func (d *Drill) Elapsed(now time.Duration) time.Duration {
	if d.State == Over {
		now = d.ended
	}
	return now - d.began
}

// Due says that control has been away for as long as it was to be.
func (d *Drill) Due(now time.Duration) bool { return d.State == Outage && now-d.began >= d.Length }

// Answered says that control answers again.
func (d *Drill) Answered(now time.Duration) {
	if d.State == Outage {
		d.State, d.answered = Return, now
	}
}

// See takes in who is connected.
func (d *Drill) See(now time.Duration, there []Seen) {
	if d.State != Return {
		return
	}
	before := make(map[Seen]bool, len(d.Parties))
	for _, p := range d.Parties {
		before[Seen{Role: p.Role, Name: p.Name, Session: p.Session}] = true
	}
	same := make(map[Seen]*Said, len(there)) // :: who was there before → what it says
	fresh := map[[2]string]bool{}            // :: role, name → a process that was not there before
	for _, s := range there {
		who := Seen{Role: s.Role, Name: s.Name, Session: s.Session}
		if before[who] {
			same[who] = s.Said
		} else {
			fresh[[2]string{s.Role, s.Name}] = true
		}
	}
	for i := range d.Parties {
		p := &d.Parties[i]
		if p.Back {
			continue
		}
		said, here := same[Seen{Role: p.Role, Name: p.Name, Session: p.Session}]
		switch {
		case here:
			p.Said = said
		case fresh[[2]string{p.Role, p.Name}]:
			p.Anew = true
		default:
			continue
		}
		p.Back, p.BackAfter = true, now-d.answered
	}
}

// whole says that everybody is back who was connected.
func (d *Drill) whole() bool {
	return !slices.ContainsFunc(d.Parties, func(p Party) bool { return !p.Back })
}

// Verdict on the claim that callers keep routing without control.
type Verdict struct {
	// Held says that nothing speaks against it.
	Held bool
	// Against are the reasons where it was not held.
	Against []string
	// Notes are what else a person should know.
	Notes []string
	// Calls that were made without control, those that failed at an instance, and
	// those that had nowhere to go.
	Calls, Failed, Unroutable uint64
	// Oldest is the longest that somebody routed by what it held.
	Oldest time.Duration
	// Returned is how long it took until everybody was back.
	Returned time.Duration
	// Asked are those of the table before the drill, gateways and callers by name,
	// who were asked for after it; Silent is the longest that one was not heard then.
	Asked  int
	Silent time.Duration
}

// Verdict of a drill that is over.
func (d *Drill) Verdict() (v Verdict) {
	var gone, silent, anew, late, before, elsewhere []string
	may := d.mayTake()
	for _, p := range d.Parties {
		who := p.Role + "/" + p.Name
		if !p.Back {
			gone = append(gone, who)
			continue
		}
		v.Returned = max(v.Returned, p.BackAfter)
		if p.Anew {
			anew = append(anew, who)
		}
		if p.Elsewhere {
			elsewhere = append(elsewhere, who)
		} else if p.BackAfter > may {
			late = append(late, fmt.Sprintf("%s (%s)", who, p.BackAfter.Round(time.Second)))
		}
		if p.Said == nil {
			if routes(p.Role) {
				silent = append(silent, who)
			}
			continue
		}
		v.Calls, v.Failed, v.Unroutable = v.Calls+p.Said.Calls, v.Failed+p.Said.Failed, v.Unroutable+p.Said.Unroutable
		v.Oldest = max(v.Oldest, p.Said.Away)
		if past := p.Said.Away - p.BackAfter - (d.answered - d.began); past > explained {
			before = append(before, fmt.Sprintf("%s (%s before)", who, past.Round(time.Second)))
		}
		if p.Said.Unroutable > 0 {
			v.Against = append(v.Against, fmt.Sprintf("%d of %d calls had nowhere to go at %s", p.Said.Unroutable, p.Said.Calls, who))
		}
	}
	if len(gone) > 0 {
		v.Against = append(v.Against, fmt.Sprintf("%d of %d did not come back: %s", len(gone), len(d.Parties), list(gone)))
	}
	v.askedOf(d, gone)
	if len(d.Doubts) > 0 {
		v.Notes = append(v.Notes, "it was said before it began: "+strings.Join(d.Doubts, "; "))
	}
	if len(late) > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("were without a stream for longer than the drill explains (%s after it): %s", may.Round(time.Second), list(late)))
	}
	if len(before) > 0 {
		v.Notes = append(v.Notes, "had heard nobody since before the drill, though they seemed to be connected: "+list(before))
	}
	if len(elsewhere) > 0 {
		v.Notes = append(v.Notes, "went over to a relay meanwhile: "+list(elsewhere))
	}
	if len(anew) > 0 {
		v.Notes = append(v.Notes, "started anew meanwhile, and do not know of their calls before: "+list(anew))
	}
	if len(silent) > 0 {
		v.Notes = append(v.Notes, "did not say what became of their calls: "+list(silent))
	}
	if v.Failed > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d calls were answered with a failure by an instance, or broken off by it: those are not for want of control", v.Failed))
	}
	switch {
	case len(elsewhere) > 0 || d.relayed:
		v.Notes = append(v.Notes, "who follows a relay counts no call as made without control, but those before it found one")
	case v.Calls == 0:
		v.Notes = append(v.Notes, "no call was made while control was away: it shows only that everybody came back")
	}
	v.Held = len(v.Against) == 0 && !d.Aborted
	if d.Aborted {
		v.Notes = append(v.Notes, "it was ended early, and shows nothing of the time that it did not last")
	}
	return v
}

// askedOf says how those of the table stand who were in it before.
func (v *Verdict) askedOf(d *Drill, gone []string) {
	v.Asked = len(d.Routers)
	var against []string
	for _, r := range d.Routers {
		v.Silent = max(v.Silent, r.Silent)
		if len(r.Against) > 0 && !slices.Contains(gone, r.who()) {
			against = append(against, r.who()+" "+list(r.Against))
		}
	}
	if len(against) > 0 {
		v.Against = append(v.Against, fmt.Sprintf("%d of %d do not stand in the table of who may route as before: %s", len(against), len(d.Routers), strings.Join(against[:min(len(against), named)], "; ")))
	}
	v.Against = append(v.Against, d.short...)
	if len(d.table) == 0 {
		v.Notes = append(v.Notes, "nobody was in the table of who may route by what")
	}
}

// mayTake is how long after control answers again a stream may take to be back:
// many are let in again one after the other.
func (d *Drill) mayTake() time.Duration {
	n := len(d.Parties)
	return explained + time.Duration(n/admission.Limit(n))*admission.Window
}

// routes says that who has the role sends calls.
func routes(role string) bool {
	return role != "host" && role != "relay" && role != "prober" && role != RouteTable
}

const named = 10

func list(all []string) string {
	text := strings.Join(all[:min(len(all), named)], ", ")
	if more := len(all) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
