package budget

import (
	"fmt"
	"time"
)

const (
	// Steady is how long what takes no traffic from trouble waits to be
	// gathered, and Longest how long under any load.
	Steady  = time.Second
	Longest = 25 * time.Second
	// late is a wait for the processor that says that there is too much to send.
	late = 250 * time.Millisecond
	// few subscribers that cannot be sent to say something of themselves.
	few = 8
	// calmFor so many seconds the window is shortened again.
	calmFor = 3
)

// Load is what the publisher had to do in the last second.
type Load struct {
	// Turn is how long its own work took.
	Turn time.Duration
	// Delay is how long senders that could have sent waited for their turn: nine
	// in ten waited less.
	Delay time.Duration
	// Subscribers that are connected, and those of them that have taken nothing
	// for a second though there is something to send.
	Subscribers, Stuck int
}

// Saturated says why there is more to send than can be sent; empty where there
// is not. Subscribers that do not read are their own trouble, unless a quarter
// of many does not.
func (l Load) Saturated() string {
	switch {
	case l.Turn > Steady/2:
		return fmt.Sprintf("a second's work takes %s", l.Turn.Round(time.Millisecond))
	case l.Delay > late:
		return fmt.Sprintf("what is to be sent waits %s for its turn", l.Delay.Round(time.Millisecond))
	case l.Stuck >= few && 4*l.Stuck >= l.Subscribers:
		return fmt.Sprintf("%d of %d subscribers take nothing", l.Stuck, l.Subscribers)
	}
	return ""
}

// Pace says how long what takes no traffic from trouble waits. It is driven
// once a second. The zero Pace is ready.
type Pace struct {
	longer   time.Duration // beyond Steady
	calm     int           // seconds without saturation
	why      string
	episodes uint64
}

// Step takes in the load of the last second.
func (p *Pace) Step(l Load) {
	why := l.Saturated()
	switch {
	case why != "":
		if p.calm, p.why = 0, why; p.longer == 0 {
			p.episodes++
		}
		p.longer = min(2*p.Window(), Longest) - Steady
	case p.longer > 0:
		if p.calm++; p.calm >= calmFor {
			p.calm, p.longer = 0, max(p.Window()/2, Steady)-Steady
		}
	}
}

// Window is how long the rest waits at most.
func (p *Pace) Window() time.Duration { return Steady + p.longer }

// Sheds says that the rest waits longer than it should, and why.
func (p *Pace) Sheds() (why string, sheds bool) {
	if p.longer == 0 {
		return "", false
	}
	return p.why, true
}

// Episodes is how often the rest began to wait longer.
func (p *Pace) Episodes() uint64 { return p.episodes }
