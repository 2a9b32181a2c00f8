// Package drill exercises on a running system what is claimed of it. A [Drill]
// knows who was there before control went away, who came back, and what each
// says of the time between; from that it makes a verdict. It has no clock and
// ends nothing by itself: whoever drives it says what time it is.
package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// Shortest and Longest that control may be away, and Default where nobody says.
	Shortest = 5 * time.Second
	Default  = 30 * time.Second
	Longest  = time.Hour
	// returnWithin is how long is waited for those who were there: the silence
	// after which a stream is given up, and the admission of a fleet.
	returnWithin = 4 * time.Minute
)

// RouteTable stands for a gateway's stream of routes, beside that of its views.
const RouteTable = "routes"

// State of a drill.
type State string

// States, in order.
const (
	Outage State = "outage" // control answers no stream
	Return State = "return" // it does again, and those who were there come back
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

	began, answered, ended time.Duration
}

// Begin a drill with those who are connected.
func Begin(id string, length time.Duration, there []Seen, now time.Duration) *Drill {
	d := &Drill{ID: id, Length: length, State: Outage, began: now}
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

// See takes in who is connected. It is over once everybody is back, or has had
// the time to be.
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
	missing := false
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
			missing = true
			continue
		}
		p.Back, p.BackAfter = true, now-d.answered
	}
	if !missing || now-d.answered >= returnWithin {
		d.State, d.ended = Over, now
	}
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
}

// Verdict of a drill that is over.
func (d *Drill) Verdict() (v Verdict) {
	var gone, silent, anew []string
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
		if p.Said == nil {
			if routes(p.Role) {
				silent = append(silent, who)
			}
			continue
		}
		v.Calls, v.Failed, v.Unroutable = v.Calls+p.Said.Calls, v.Failed+p.Said.Failed, v.Unroutable+p.Said.Unroutable
		v.Oldest = max(v.Oldest, p.Said.Away)
		if p.Said.Unroutable > 0 {
			v.Against = append(v.Against, fmt.Sprintf("%d of %d calls had nowhere to go at %s", p.Said.Unroutable, p.Said.Calls, who))
		}
	}
	if len(gone) > 0 {
		v.Against = append(v.Against, fmt.Sprintf("%d of %d did not come back: %s", len(gone), len(d.Parties), list(gone)))
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
	if v.Calls == 0 {
		v.Notes = append(v.Notes, "no call was made while control was away: it shows only that everybody came back")
	}
	v.Held = len(v.Against) == 0 && !d.Aborted
	if d.Aborted {
		v.Notes = append(v.Notes, "it was ended early, and shows nothing of the time that it did not last")
	}
	return v
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
