package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// GuardState is one request group in one zone, or in several small ones, whose
// fraction guard has tripped.
type GuardState struct {
	view.Guarded
	Mode  view.GuardMode
	Since time.Time // shown, never decided by
	By    string    // who decided
}

// GuardDecision is a person's, about trips that wait for one: of one group and
// zone, or of all where they are empty.
type GuardDecision struct {
	Group, Zone string
	Decision    view.Decision
	By          string
}

// trip is one that lasts, as the store keeps it where a person decides: so that
// who was in rotation before it, and what was decided, outlive a leader.
type trip struct {
	Group    string        `json:"group"`
	Zone     string        `json:"zone,omitempty"`
	Since    time.Time     `json:"since"`
	Kept     []string      `json:"kept"`
	Decision view.Decision `json:"decision,omitempty"`
	By       string        `json:"by,omitempty"`
	Covers   []string      `json:"covers,omitempty"`
	pending  bool          // the decision is recorded, and not in force yet
}

type tripDoc struct {
	Trips []trip `json:"trips"`
}

// guardStates are a service's tripped guards.
func (t *term) guardStates(name string) (out []GuardState) {
	mode := cmp.Or(t.policy(name).Guard.Mode, view.ServeAll)
	for _, g := range t.eval.Guarded(name) {
		s := GuardState{Guarded: g, Mode: mode}
		for _, x := range t.trips[name] {
			here := x.Group == g.Group && x.Zone == g.Zone
			if here && x.pending {
				s.Decision = x.Decision
			}
			if here {
				s.Since = x.Since
			}
			if x.Group == g.Group && (here || s.By == "") && s.Decision != view.Undecided && x.Decision == s.Decision {
				s.By = x.By // of a decision that came along with a zone, who took it there
			}
		}
		out = append(out, s)
	}
	return out
}

// followTrips keeps since when each guard of a service has tripped, and records
// it where a person decides.
func (t *term) followTrips(name string) []GuardState {
	was := t.trips[name]
	states := t.guardStates(name)
	if len(was) == 0 && len(states) == 0 {
		return nil
	}
	var trips []trip
	for i, s := range states {
		if s.Since.IsZero() {
			states[i].Since = t.p.cfg.Now().UTC()
		}
		s = states[i]
		pending := slices.ContainsFunc(was, func(x trip) bool { return x.pending && x.Group == s.Group && x.Zone == s.Zone })
		trips = append(trips, trip{Group: s.Group, Zone: s.Zone, Since: s.Since, Kept: s.Kept, Decision: s.Decision, By: s.By, Covers: s.Covers, pending: pending})
	}
	t.trips[name] = trips
	if len(trips) == 0 {
		delete(t.trips, name)
	}
	t.recordTrips(name, trips)
	return states
}

// recordTrips has them written, if they are not on disk as they are.
func (t *term) recordTrips(name string, trips []trip) {
	key := store.Key{Kind: service.KindGuard, Name: name}
	if len(trips) == 0 || t.policy(name).Guard.Mode != view.HoldForPerson {
		if t.tripDocs[name] != "" {
			delete(t.tripDocs, name)
			t.records.post(erase(key))
		}
		return
	}
	if doc := string(encode(tripDoc{trips})); doc != t.tripDocs[name] {
		t.tripDocs[name] = doc
		t.records.post(store.Write{Key: key, Any: true, Body: []byte(doc)})
	}
}

// restoreTrips has the guards of services remember what an earlier leader
// recorded.
func (t *term) restoreTrips(docs []store.Document) {
	for _, d := range docs {
		var x tripDoc
		if err := json.Unmarshal(d.Body, &x); err != nil {
			t.log.Warn("trips of a guard cannot be read: nobody is withdrawn for that", "record", d.Key, "error", err)
			continue
		}
		t.trips[d.Name], t.tripDocs[d.Name] = x.Trips, string(d.Body)
		for _, p := range x.Trips {
			t.eval.Restore(d.Name, view.Guarded{ZoneMark: view.ZoneMark{Group: p.Group, Zone: p.Zone}, Kept: p.Kept, Decision: p.Decision, Covers: p.Covers})
		}
	}
}

// told says in words what a guard does.
func (s GuardState) told(name string) string {
	text := fmt.Sprintf("of %s in %s only %d of %d are in rotation by their verdicts", s.Group, cmp.Or(s.Zone, "its small zones"), s.In, s.Counted)
	switch {
	case s.Mode == view.HoldForPerson && s.Decision == view.Undecided:
		return text + fmt.Sprintf(", and %d stay until a person decides: `fairlead guard accept %s` withdraws what health keeps out, `fairlead guard decline %s` keeps it", s.Served, name, name)
	case s.Decision != view.Undecided:
		return text + fmt.Sprintf(", and %d stay: %s by %s", s.Served, s.Decision, cmp.Or(s.By, "somebody"))
	}
	return text
}

// Guards of a service that have tripped.
func (p *Plane) Guards(name string) []GuardState {
	t := p.current()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.guardStates(name)
}

// decideWait is how long a decision waits to be on disk.
const decideWait = 5 * time.Second

// Decide takes a person's decision about trips that wait for one. It is on disk
// before it is in force, unless the store does not answer: then the error says
// that it is in force only.
func (p *Plane) Decide(ctx context.Context, name string, d GuardDecision) ([]GuardState, error) {
	t := p.current()
	if t == nil {
		return nil, fault.New(fault.Unavailable, "ask again in a few seconds", "nothing is decided yet: this control has only just begun to observe")
	}
	decided, err := t.recordDecision(name, d)
	if err != nil {
		return nil, err
	}
	if written, some := t.records.queue(nil); some {
		ctx, cancel := context.WithTimeout(ctx, decideWait)
		defer cancel()
		select { // on disk, or too late
		case <-written:
		case <-ctx.Done():
			err = fault.New(fault.Unavailable, "look whether the store answers; `fairlead history "+name+"` shows the decision once it is recorded", "the decision about service %s is in force, and not on disk yet", name)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range decided {
		t.eval.Decide(name, s.Group, s.Zone, d.Decision)
	}
	for i := range t.trips[name] {
		t.trips[name][i].pending = false
	}
	t.hurry()
	var out []GuardState
	for _, s := range t.guardStates(name) {
		if d.about(s) {
			out = append(out, s)
		}
	}
	return out, err
}

func (d GuardDecision) about(s GuardState) bool {
	return (d.Group == "" || d.Group == s.Group) && (d.Zone == "" || d.Zone == s.Zone)
}

// recordDecision has it written, with the history of the service.
func (t *term) recordDecision(name string, d GuardDecision) (decided []GuardState, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mode := t.policy(name).Guard.Mode; mode != view.HoldForPerson {
		return nil, fault.New(fault.Invalid, "a policy with guard.mode hold has a person decide: fairlead policy set "+name+" -f FILE", "nothing waits for a person: the guard of service %s is in mode %s", name, cmp.Or(mode, view.ServeAll))
	}
	var trips []trip
	var changes []string
	for _, x := range t.trips[name] {
		s := GuardState{Guarded: view.Guarded{ZoneMark: view.ZoneMark{Group: x.Group, Zone: x.Zone}}}
		if d.about(s) {
			changes = append(changes, fmt.Sprintf("%s in %s %s → %s", x.Group, cmp.Or(x.Zone, "its small zones"), cmp.Or(x.Decision, "undecided"), d.Decision))
			x.Decision, x.By, x.Covers, x.pending = d.Decision, d.By, nil, true
			decided = append(decided, s)
		}
		trips = append(trips, x)
	}
	if len(decided) == 0 {
		return nil, fault.New(fault.NotFound, "`fairlead instances "+name+"` shows what waits", "no guard of service %s has tripped there", name)
	}
	t.trips[name] = trips
	t.recordTrips(name, trips)
	change := Policy{Service: name, At: t.p.cfg.Now().UTC(), By: d.By, What: "guard", Changes: changes}
	t.records.post(store.Write{Key: store.Key{Kind: service.KindPolicy, Name: name + "." + ulid.Make().String()}, Any: true, Body: encode(change)})
	return decided, nil
}
