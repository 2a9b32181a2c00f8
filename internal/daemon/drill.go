package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/drill"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
)

// drills runs drills of this control, one at a time. It ends them by its own
// clock, whoever asked for them.
type drills struct {
	c     *controlRole
	began time.Time

	mu      sync.Mutex
	running bool
	ended   chan struct{} // closed with the process
	follows sync.WaitGroup
	last    *drill.Drill  // nil is none
	at      time.Time     // shown, never decided by
	end     chan struct{} // closed by who ends it early
}

func newDrills(c *controlRole) *drills {
	return &drills{c: c, began: time.Now(), ended: make(chan struct{})}
}

// close waits for nothing but its own goroutine.
func (d *drills) close() {
	close(d.ended)
	d.follows.Wait()
}

func (d *drills) now() time.Duration { return time.Since(d.began) }

// there is everybody who is connected.
func (d *drills) there() (all []drill.Seen) {
	for _, s := range d.c.views.Subscribers() {
		if s.Connected {
			x := drill.Seen{Role: s.Role, Name: s.Name, Session: s.Session}
			if s.Away != nil {
				x.Said = &drill.Said{Away: s.Away.For, Calls: s.Away.Calls, Failed: s.Away.Failed, Unroutable: s.Away.Unroutable}
			}
			all = append(all, x)
		}
	}
	for _, g := range d.c.gateways.States() {
		if g.Connected {
			all = append(all, drill.Seen{Role: drill.RouteTable, Name: g.Name, Session: g.Session})
		}
	}
	for _, h := range d.c.hosts.States() {
		if h.Connected {
			all = append(all, drill.Seen{Role: "host", Name: h.Name})
		}
	}
	return all
}

// tableWithin bounds how long relays are asked who subscribes there.
const tableWithin = 10 * time.Second

// table of who may route by what; nil where this control does not lead.
func (d *drills) table() []routing.Standing {
	ctx, cancel := context.WithTimeout(context.Background(), tableWithin)
	defer cancel()
	var published []string
	for _, r := range d.c.views.Propagations() {
		published = append(published, r.Service)
	}
	return d.c.leader.Standings(published, func(of string) service.Holding { return d.c.views.Holding(ctx, of, views.MostRows) })
}

// may says whether one may begin now.
func (d *drills) may(length time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mayLocked(length)
}

func (d *drills) mayLocked(length time.Duration) error {
	switch {
	case length < drill.Shortest || length > drill.Longest:
		return fault.New(fault.Invalid, fmt.Sprintf("give --for between %s and %s", drill.Shortest, drill.Longest), "a drill of %s is too short or too long", length)
	case d.running:
		return fault.New(fault.Conflict, "wait for it, or end it by: fairlead drill end", "a drill is under way")
	case !d.c.leader.Leading():
		return fault.New(fault.Unavailable, "", "this control does not lead")
	}
	return nil
}

// Prepare says how many are connected, and who would not route as they should.
func (d *drills) Prepare(length time.Duration) (parties int, doubts []string, err error) {
	if err := d.may(length); err != nil {
		return 0, nil, err
	}
	return len(d.there()), drill.Doubts(d.table()), nil
}

// Start one.
func (d *drills) Start(ctx context.Context, length time.Duration) error {
	if err := d.may(length); err != nil {
		return err
	}
	table := d.table()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mayLocked(length); err != nil { // another began meanwhile
		return err
	}
	next := drill.Begin(newID(), length, d.there(), table, d.now())
	at := time.Now().UTC()
	if err := d.record(ctx, next, at); err != nil {
		return fmt.Errorf("cannot record the drill, and it does not begin: %w", err)
	}
	if err := d.c.leader.Absent(length); err != nil {
		return err
	}
	d.last, d.at, d.running, d.end = next, at, true, make(chan struct{})
	d.c.p.log.Warn("a drill has begun: control answers no stream", "for", length, "id", next.ID)
	d.follows.Go(func() { d.run(next, at, d.end) })
	return nil
}

// run follows one to its end.
func (d *drills) run(last *drill.Drill, at time.Time, early <-chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select { // somebody ends it, or it is time to look
		case <-early:
			d.c.leader.Present()
			early = nil
		case <-tick.C:
		case <-d.ended:
			return
		}
		if d.look() {
			d.over(last, at)
			return
		}
	}
}

// over tells what came of it.
func (d *drills) over(last *drill.Drill, at time.Time) {
	d.mu.Lock()
	d.running = false
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := d.record(ctx, last, at); err != nil {
		d.c.p.log.Warn("the end of a drill is not recorded", "error", err)
	}
	v := last.Verdict()
	d.c.p.log.Info("a drill is over", "held", v.Held, "against", strings.Join(v.Against, "; "), "calls", v.Calls)
	d.tell(ctx, last, v)
}

// look reports that it is over.
func (d *drills) look() bool {
	over, asks := d.see()
	if !asks {
		return over
	}
	table := d.table() // without the lock: relays are asked
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last.Ask(d.now(), table)
	return d.last.State == drill.Over
}

// see looks at the streams; asks says that it is time to look at the table.
func (d *drills) see() (over, asks bool) {
	leads := d.c.leader.Leading()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last.State == drill.Outage && !d.c.leader.IsAbsent() && leads {
		d.last.Answered(d.now())
	}
	if d.last.State == drill.Return {
		d.last.See(d.now(), d.there())
	}
	return d.last.State == drill.Over, d.last.Asks(d.now())
}

// Last drill, by the time that it has taken; nil is none.
func (d *drills) Last() (last *drill.Drill, at time.Time, elapsed time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		return nil, time.Time{}, 0
	}
	x := *d.last
	x.Parties, x.Routers = slices.Clone(d.last.Parties), slices.Clone(d.last.Routers)
	return &x, d.at, d.last.Elapsed(d.now())
}

// End the one that is under way.
func (d *drills) End() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running || d.last.State != drill.Outage {
		return fault.New(fault.NotFound, "", "no drill keeps control away")
	}
	if !d.last.Aborted {
		d.last.Aborted = true
		close(d.end)
	}
	return nil
}

// recordedDrill is one as the store keeps it.
type recordedDrill struct {
	At      time.Time      `json:"at"`
	Length  string         `json:"length"`
	State   drill.State    `json:"state"`
	Aborted bool           `json:"aborted,omitempty"`
	Parties int            `json:"parties"`
	Doubts  []string       `json:"doubts,omitempty"`
	Verdict *drill.Verdict `json:"verdict,omitempty"`
}

// keptDrills are recorded; older ones are erased.
const keptDrills = 20

func (d *drills) record(ctx context.Context, x *drill.Drill, at time.Time) error {
	r := recordedDrill{At: at, Length: x.Length.String(), State: x.State, Aborted: x.Aborted, Parties: len(x.Parties), Doubts: x.Doubts}
	if x.State == drill.Over {
		v := x.Verdict()
		r.Verdict = &v
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("cannot encode a drill: %w", err)
	}
	writes := []store.Write{{Key: store.Key{Kind: service.KindDrill, Name: x.ID}, Any: true, Body: body}}
	docs, _, err := d.c.store.List(ctx, service.KindDrill)
	if err != nil {
		return err
	}
	for i := 0; i < len(docs)-keptDrills; i++ { // in the order of their names, which begin with an instant
		writes = append(writes, store.Write{Key: docs[i].Key, Any: true, Delete: true})
	}
	_, err = d.c.store.Apply(ctx, store.Apply{ID: newID(), Writes: writes})
	return err
}

// tell the history of each service that its callers went without control.
func (d *drills) tell(ctx context.Context, x *drill.Drill, v drill.Verdict) {
	text := fmt.Sprintf("a drill kept control away for %s: %d calls were made, none had nowhere to go", x.Length, v.Calls)
	if len(v.Against) > 0 {
		text = fmt.Sprintf("a drill kept control away for %s: %s", x.Length, strings.Join(v.Against, "; "))
	}
	docs, _, err := d.c.store.List(ctx, service.KindDesired)
	var writes []store.Write
	for _, doc := range docs {
		body, merr := json.Marshal(service.Event{Service: doc.Key.Name, At: time.Now().UTC(), Kind: "drill", Text: text})
		err = errors.Join(err, merr)
		writes = append(writes, store.Write{Key: store.Key{Kind: service.KindEvent, Name: doc.Key.Name + "." + newID()}, Any: true, Body: body})
	}
	if err == nil && len(writes) > 0 {
		_, err = d.c.store.Apply(ctx, store.Apply{ID: newID(), Writes: writes})
	}
	if err != nil {
		d.c.p.log.Warn("the history of services does not tell of a drill", "error", err)
	}
}
