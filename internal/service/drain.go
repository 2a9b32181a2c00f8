package service

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrNoRoom says that hosts are connected and none of them takes an instance.
var ErrNoRoom = errors.New("no host takes an instance")

// Drains says why nothing is placed on the host and what it runs is moved to
// others; empty when it is not so.
func (w *World) Drains(host string) string {
	switch {
	case w.Hosts[host].Leaving:
		return "its process ends"
	case w.Draining[host]:
		return "it is drained"
	}
	return ""
}

// TakesNone says why a host that is heard gets no instance; empty when it may.
func (w *World) TakesNone(host string) string {
	if why := w.Drains(host); why != "" {
		return why
	}
	return w.Hosts[host].Refuses
}

// noHost says why no host takes an instance: [ErrNoHost], which may pass by
// itself, or [ErrNoRoom] with what each host says.
func (w *World) noHost() error {
	var why []string
	for _, name := range slices.Sorted(maps.Keys(w.Hosts)) {
		if h := w.Hosts[name]; h.Heard() && !h.Leaving {
			why = append(why, fmt.Sprintf("host %s: %s", name, w.TakesNone(name)))
		}
	}
	if len(why) == 0 {
		return ErrNoHost
	}
	return fmt.Errorf("%w: %s", ErrNoRoom, strings.Join(why, "; "))
}

// Room is nil when some host takes an instance, or says why none does.
func (w *World) Room() error {
	_, err := pickHost(nil, w)
	return err
}

// OnDraining are slots on hosts that drain, where another host takes instances.
func (r Revision) OnDraining(w *World) []Slot {
	var out []Slot
	for _, s := range r.Slots {
		if w.Drains(s.Host) != "" && !w.Lost(s.Host) {
			out = append(out, s)
		}
	}
	if len(out) == 0 || w.Room() != nil {
		return nil
	}
	return out
}

// without are the revision's slots but for these.
func (r Revision) without(slots []Slot) []Slot {
	if len(slots) == 0 {
		return r.Slots
	}
	return slices.DeleteFunc(slices.Clone(r.Slots), func(s Slot) bool { return slices.Contains(slots, s) })
}

// Staying are the slots that the revision is to have once what drains has left.
func (r Revision) Staying(w *World) []Slot { return r.without(r.OnDraining(w)) }

// Resize gives the revision n slots to stay. What is on hosts that are gone
// leaves; what is on hosts that drain remains beside them until [Revision.Shed],
// because capacity comes first.
func (r Revision) Resize(n int, w *World) (Revision, error) {
	r = r.LeaveGone(w)
	drains := r.OnDraining(w)
	r.Slots = r.without(drains)
	r, err := r.Yield(n, w).Grow(n, w)
	r.Slots = append(r.Slots, drains...)
	return r, err
}

// Shed moves slots on hosts that drain to Leaving, as long as n others stay.
func (r Revision) Shed(n int, w *World) Revision {
	drains := r.OnDraining(w)
	if stay := r.without(drains); len(stay) >= n {
		r.Slots, r.Leaving = stay, append(slices.Clone(r.Leaving), drains...)
	}
	return r
}

// DrainText says what becomes of what runs on a host that drains; empty when
// it does not.
func (w *World) DrainText(host string) string {
	why := w.Drains(host)
	if why == "" {
		return ""
	}
	running := map[string]int{} // :: service name → its processes
	n := 0
	for _, i := range w.Hosts[host].Instances {
		if i.State != InstanceExited {
			running[i.Service]++
			n++
		}
	}
	if n == 0 {
		return why + ": nothing runs there"
	}
	var of []string
	for _, name := range slices.Sorted(maps.Keys(running)) {
		of = append(of, fmt.Sprintf("%s %d", name, running[name]))
	}
	what := strings.Join(of, ", ")
	if err := w.Room(); err != nil {
		return fmt.Sprintf("%s: what runs there stays (%s), because nothing else can take it: %s", why, what, err)
	}
	return fmt.Sprintf("%s: what runs there moves (%s)", why, what)
}
