// Package crashpoints wraps the three ports through which a controller reaches
// the world, so that every call is a point at which it can be made to die, to
// fail, or to be late. Points have names that are the same in each run, so that
// a case can be run again by its name. Production code holds no fault points:
// nothing but tests imports this package, and the daemon when it is built with
// the tag crashpoints, for the tests that kill processes (see [Rules]).
// Read [Points] first.
package crashpoints

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Fault is what happens at a point.
type Fault string

const (
	// CrashBefore: the controller dies, and the call is not made.
	CrashBefore Fault = "crash before"
	// CrashAfter: the call is made, and the controller dies before its answer.
	CrashAfter Fault = "crash after"
	// NotLanded: an error, and the call was not made.
	NotLanded Fault = "error that did not land"
	// Landed: an error, and the call was made.
	Landed Fault = "error that landed"
	// Unknown: the store cannot say, and the call was made.
	Unknown Fault = "unknown that landed"
	// Twice: the call is made twice.
	Twice Fault = "done twice"
	// Late: the call takes effect after every grace has passed. The store's
	// answer comes then; a host's caller has given up by then. What a host is
	// told of one slot stays in order, as on a stream.
	Late Fault = "late"
	// Disordered: a host's command is late, and what it is told later of the
	// same slot overtakes it.
	Disordered Fault = "late and out of order"
	// Swapped: a report is seen, and after it the one before it.
	Swapped Fault = "out of order"
)

// Delay of what is Late: longer than the grace of collection, the time of a
// publication, and a host's own lease.
const Delay = 65 * time.Second

// Errors that the wrapped ports give.
var (
	ErrDead  = errors.New("the controller is dead")
	ErrFault = errors.New("it failed, as the case asks for")
)

// Point is one call: what is called, and the how manieth of its kind in one life
// of a controller.
type Point struct {
	// Life counts the controllers: 0 is the one that the operation was asked of.
	Life int
	Call string
	N    int
	// Faults that the call can have.
	Faults []Fault
}

// Name is the same in each run that reaches the point.
func (p Point) Name() string { return fmt.Sprintf("%d:%s#%d", p.Life, p.Call, p.N) }

// Plan is which faults happen where. Each happens once.
type Plan map[string]Fault // :: name of a point → fault

// Points numbers the calls of the controllers of one world, and has the planned
// faults happen. Its methods are safe for concurrent use.
type Points struct {
	mu    sync.Mutex
	on    bool
	plan  Plan
	life  int
	count map[string]int // :: call → how often in this life
	seen  []Point
	hit   []string
	over  chan struct{} // closed: what is late comes no more
}

// New returns points at which nothing is counted yet.
func New(plan Plan) *Points {
	return &Points{plan: plan, count: map[string]int{}, over: make(chan struct{})}
}

// Begin has calls counted from now on.
func (p *Points) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = true
}

// End has nothing counted, and nothing fail, from now on.
func (p *Points) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = false
}

// Close ends the waits of what is late; it is not made any more.
func (p *Points) Close() { close(p.over) }

// late waits until every grace has passed; false means that the world has ended.
func (p *Points) late(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.over:
		return false
	}
}

// Seen are the points in the order in which they were first reached.
func (p *Points) Seen() []Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[:len(p.seen):len(p.seen)]
}

// Hit are the names of the points at which a fault has happened.
func (p *Points) Hit() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hit[:len(p.hit):len(p.hit)]
}

// names an Apply; empty is no point.
func (p *Points) names(a store.Apply) string { return applied(a) }

// reach counts a call, and returns the fault that is to happen; "" is none.
func (p *Points) reach(life int, call string, faults []Fault) (Fault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on || life != p.life {
		return "", 0
	}
	p.count[call]++
	at := Point{Life: life, Call: call, N: p.count[call], Faults: faults}
	p.seen = append(p.seen, at)
	f, planned := p.plan[at.Name()]
	if !planned {
		return "", 0
	}
	p.hit = append(p.hit, at.Name()+" "+string(f))
	return f, Delay
}

// next begins the life of another controller.
func (p *Points) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	p.count = map[string]int{}
	return p.life
}

// chooser says what happens at a call.
type chooser interface {
	// names an Apply; empty is no point.
	names(a store.Apply) string
	// reach returns the fault of a call, and by how much it is late.
	reach(life int, call string, faults []Fault) (Fault, time.Duration)
	// late waits; false means that there is nobody to make the call for.
	late(d time.Duration) bool
}

// Life is one controller's: its ports refuse everything once it is dead.
type Life struct {
	points chooser
	number int
	kill   func()
	// reports: commits of the watch and reports are points too.
	reports bool

	mu   sync.Mutex
	dead bool
	last map[string]chan struct{} // :: slot → closed when the newest command for it has been made
}

// turn returns what a command for the slot has to wait for, nil for nothing,
// and what to call once it was made, or may be overtaken.
func (l *Life) turn(slot string) (before <-chan struct{}, made func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[string]chan struct{}{}
	}
	before = l.last[slot]
	ch := make(chan struct{})
	l.last[slot] = ch
	return before, sync.OnceFunc(func() { close(ch) })
}

// Life begins one; kill is called once when it dies, and must not block.
// The first is number 0.
func (p *Points) Life(first bool, kill func()) *Life {
	n := 0
	if !first {
		n = p.next()
	}
	return &Life{points: p, number: n, kill: kill, reports: true}
}

// Dead says that the controller is.
func (l *Life) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Die ends it.
func (l *Life) Die() {
	l.mu.Lock()
	was := l.dead
	l.dead = true
	l.mu.Unlock()
	if !was {
		l.kill()
	}
}

// normal takes out of a name what differs from run to run: the ULIDs.
func normal(name string) string {
	var out []string
	for _, part := range strings.Split(name, ".") {
		if len(part) != 26 {
			out = append(out, part)
		}
	}
	return strings.Join(out, ".")
}
