package views

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/routing"
)

// roleGateway is the role of who routes by the route table and the credits that
// hosts give: its view has it choose among those. What it may still route to is
// told by these, not by its view.
const roleGateway = "gateway"

// departed is what a subscriber held that left: it may pick by that still, and
// be back in a moment.
type departed struct {
	who     string
	applied budget.Number // zero is nothing
	tally   tally         // of a relay
	left    time.Duration
}

// departLocked remembers what a subscriber held of a service as it leaves.
func (s *Server) departLocked(h *holding) {
	sub, t, now := h.sub, h.topic, s.now()
	if !h.listed || sub.role == roleGateway {
		return
	}
	if now-t.swept > routing.Grace { // and not at each: when many leave, they leave at once
		maps.DeleteFunc(t.departed, func(_ string, d departed) bool { return now-d.left > routing.Grace })
		t.swept = now
	}
	if t.departed == nil {
		t.departed = map[string]departed{}
	}
	t.departed[sub.key()] = departed{who: sub.who(), applied: budget.NumberOf(h.applied), tally: h.tally, left: now}
}

// MayPick are the callers who may still pick one of the instances of a service by
// the views that they hold: who is connected and has not acknowledged the first
// view without them, or a later one, those of relays by their sums, relays that
// themselves pass an earlier one on, and who left less than a grace ago. Gateways
// are not among them.
func (s *Server) MayPick(of string, instances []string) routing.Pickers {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, now := s.topics[of], s.now()
	if all := s.population.Known(); all > s.connectedLocked() && now-s.since < routing.Grace {
		why := fmt.Sprintf("callers that have not come back since control began to lead, of %d that there were", all)
		return routing.Pickers{Why: why, For: s.since + routing.Grace - now}
	}
	if t == nil || len(instances) == 0 {
		return routing.Pickers{}
	}
	if t.newest == nil {
		if p := t.lacking(budget.Number{Epoch: ^uint64(0)}, now); p.Nobody() {
			return p
		}
		return routing.Pickers{Why: "callers, who hold a view from before any that is published yet"}
	}
	since, out := routing.Without(t.newestFirst(), instances)
	if !out {
		return routing.Pickers{Why: "the view, which names it still"}
	}
	left := since.At + routing.Grace - now
	if left <= 0 {
		return routing.Pickers{}
	}
	p := t.lacking(budget.NumberOf(since.View.Version), now)
	p.For = left
	return p
}

// lacking are those who may pick by a view from before a number.
func (t *topic) lacking(n budget.Number, now time.Duration) (p routing.Pickers) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.Among = t.holders.count
	for h := range t.holders.all() {
		switch before := budget.NumberOf(h.applied).Before(n); {
		case h.sub.role == roleGateway:
		case h.sub.relays():
			if before && t.newest != nil {
				p.Add(1, func() string { return h.sub.who() + " itself" })
			}
			behind := h.tally.subscribers - h.tally.reached(n)
			p.Add(behind, func() string { return fmt.Sprintf("%d at %s", behind, h.sub.who()) })
		case before && (t.newest != nil || !h.applied.Zero()):
			p.Add(1, h.sub.who)
		}
	}
	for _, d := range t.departed {
		if now-d.left > routing.Grace {
			continue
		}
		if behind := d.tally.subscribers - d.tally.reached(n); behind > 0 {
			p.Add(behind, func() string { return fmt.Sprintf("%d at %s, which left", behind, d.who) })
		} else if d.tally.subscribers == 0 && d.applied != (budget.Number{}) && d.applied.Before(n) {
			p.Add(1, func() string { return d.who + ", which left" })
		}
	}
	return p
}

// newestFirst are the views that are known, from the newest back.
func (t *topic) newestFirst() iter.Seq[routing.Published] {
	return func(yield func(routing.Published) bool) {
		for _, r := range slices.Backward(t.recent) {
			if !yield(routing.Published{View: r.view, At: r.at}) {
				return
			}
		}
	}
}
