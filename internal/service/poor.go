package service

import (
	"fmt"
	"slices"
	"strings"
)

// out reports whether a slot's processes are all out of rotation by what is
// believed of them, having been in it.
func (r Revision) out(s Slot, w *World) bool {
	if w == nil || w.Out == nil {
		return false
	}
	some := false
	for _, i := range r.Processes(s.ID, w) {
		if i.State == InstanceExited {
			continue
		}
		if some = true; !w.Out(i.Service, i.ID) {
			return false
		}
	}
	return some
}

// Yield moves slots to Leaving until n are left: first those whose instances
// are out of rotation, the youngest first, then as [Revision.Shrink] does.
func (r Revision) Yield(n int, w *World) Revision {
	r.Slots, r.Leaving = slices.Clone(r.Slots), slices.Clone(r.Leaving)
	for i := len(r.Slots) - 1; i >= 0 && len(r.Slots) > n; i-- {
		if s := r.Slots[i]; r.out(s, w) {
			r.Leaving, r.Slots = append(r.Leaving, s), slices.Delete(r.Slots, i, i+1)
		}
	}
	return r.Shrink(n)
}

// WorstFirst is the slots in the order in which a restart replaces what runs in
// them: first where nothing runs or all is out of rotation, then where somebody is
// not seen to do well, and last where all do; else as they are.
func (r Revision) WorstFirst(slots []Slot, w *World) []Slot {
	out := slices.Clone(slots)
	slices.SortStableFunc(out, func(a, b Slot) int { return r.standing(a, w) - r.standing(b, w) })
	return out
}

// standing is how well a slot's processes do by what is believed of them; the
// worst is 0.
func (r Revision) standing(s Slot, w *World) int {
	running := slices.DeleteFunc(slices.Clone(r.Processes(s.ID, w)), func(i Instance) bool { return i.State == InstanceExited })
	switch {
	case len(running) == 0 || r.out(s, w):
		return 0
	case w.Doubts != nil && slices.ContainsFunc(running, func(i Instance) bool { return w.Doubts(i.Service, i.ID) }):
		return 1
	}
	return 2
}

// fewestPoor instances must be out of rotation on a host before it is doubted.
const fewestPoor = 2

// PoorHosts are hosts on which nothing that was in rotation is in it any more,
// while siblings elsewhere are, with that in words: what is common to them is
// the host. :: host name → why it is avoided
func (w *World) PoorHosts() map[string]string {
	poor := map[string]string{}
	if w.Out == nil {
		return poor
	}
	serves := map[string]map[string]bool{} // :: service → hosts where an instance of it is in rotation
	fails := map[string]map[string]int{}   // :: host → service → instances that are out
	for _, h := range w.Hosts {
		for _, i := range h.Instances {
			switch {
			case i.State != InstanceLive:
			case w.Out(i.Service, i.ID):
				add(fails, h.Name, i.Service)
			default:
				mark(serves, i.Service, h.Name)
			}
		}
	}
	for host, services := range fails {
		n, elsewhere, here := 0, []string{}, false
		for name, out := range services {
			n += out
			if len(serves[name]) > 0 {
				elsewhere = append(elsewhere, name)
			}
		}
		for _, hosts := range serves {
			here = here || hosts[host]
		}
		if slices.Sort(elsewhere); n >= fewestPoor && !here && len(elsewhere) > 0 {
			poor[host] = fmt.Sprintf("host %s is avoided where another can take what is placed: none of the %d instances there is in rotation by its verdict, while %s serves elsewhere", host, n, strings.Join(elsewhere, ", "))
		}
	}
	return poor
}

func add(to map[string]map[string]int, a, b string) {
	if to[a] == nil {
		to[a] = map[string]int{}
	}
	to[a][b]++
}

func mark(to map[string]map[string]bool, a, b string) {
	if to[a] == nil {
		to[a] = map[string]bool{}
	}
	to[a][b] = true
}
