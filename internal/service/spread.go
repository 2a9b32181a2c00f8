package service

import "fmt"

// Gathered are slots that the spreading rule would place on other hosts, were
// they placed anew: what an outage leaves behind. It is nil where some host of
// the revision is not heard, and for what cannot run beside another.
func (r Revision) Gathered(w *World) []Slot {
	if r.Exclusive() {
		return nil
	}
	for _, s := range r.Slots {
		if !w.Hosts[s.Host].Heard() || w.Drains(s.Host) != "" {
			return nil
		}
	}
	var moves []Slot
	for range r.Slots {
		less := r.Shrink(len(r.Slots) - 1)
		from := less.Leaving[len(less.Leaving)-1]
		to, err := pickHost(less.Slots, w)
		if err != nil || !r.evener(from, to) {
			break
		}
		moves = append(moves, from)
		r.Slots = append(less.Slots, Slot{ID: from.ID, Host: to.Name, Zone: to.Zone})
	}
	return moves
}

// evener says that a slot's move makes zones, or hosts of one zone, more even.
func (r Revision) evener(from Slot, to Host) bool {
	zones, hosts := count(r.Slots)
	if from.Zone != to.Zone {
		return zones[from.Zone]-zones[to.Zone] >= 2
	}
	return hosts[from.Host]-hosts[to.Name] >= 2
}

// GatheredText says that the revision's slots are not spread as they could be,
// and what a person can do; empty when they are.
func (r Revision) GatheredText(w *World) string {
	moves := r.Gathered(w)
	if len(moves) == 0 {
		return ""
	}
	_, hosts := count(r.Slots)
	rest := r
	rest.Slots = r.without(moves[:1])
	to, err := pickHost(rest.Slots, w)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d instances on host %s; %s has room; `fairlead restart %s` spreads them",
		r.Service, hosts[moves[0].Host], len(r.Slots), moves[0].Host, to.Name, r.Service)
}
