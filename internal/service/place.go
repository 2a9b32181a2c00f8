package service

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrNoHost says that no host is connected.
var ErrNoHost = errors.New("no host is connected")

// Grow places slots until the revision has n, on hosts that take them: not on
// one that is avoided where there is another, spread over zones first, then hosts, then by load, then by name. What is placed
// stays. It returns the revision so edited.
func (r Revision) Grow(n int, w *World) (Revision, error) {
	r.Slots = slices.Clone(r.Slots)
	for len(r.Slots) < n {
		h, err := pickHost(r.Slots, w)
		if err != nil {
			return r, fmt.Errorf("cannot place an instance of %s: %w", r.Name, err)
		}
		r.Slots = append(r.Slots, Slot{ID: SlotID(r.Name, r.NextIndex), Host: h.Name, Zone: h.Zone})
		r.NextIndex++
	}
	return r, nil
}

// Shrink moves slots to Leaving until n are left: from the fullest zone, then
// the fullest host, the youngest first.
func (r Revision) Shrink(n int) Revision {
	r.Slots, r.Leaving = slices.Clone(r.Slots), slices.Clone(r.Leaving)
	for len(r.Slots) > n {
		zones, hosts := count(r.Slots)
		best := 0
		for i, s := range r.Slots {
			b := r.Slots[best]
			if c := cmp.Or(cmp.Compare(zones[s.Zone], zones[b.Zone]), cmp.Compare(hosts[s.Host], hosts[b.Host])); c >= 0 {
				best = i
			}
		}
		r.Leaving = append(r.Leaving, r.Slots[best])
		r.Slots = slices.Delete(r.Slots, best, best+1)
	}
	return r
}

// Forget takes a stopped slot out of Leaving.
func (r Revision) Forget(slot string) Revision {
	r.Leaving = slices.DeleteFunc(slices.Clone(r.Leaving), func(s Slot) bool { return s.ID == slot })
	return r
}

// Heard says that what the host reported can be taken for what is.
func (h HostState) Heard() bool { return h.Connected && h.Silent < BehindAfter }

// Heard says that the gateway follows and speaks: what it acknowledged is what it does.
func (g KnownGateway) Heard() bool { return g.State != nil && g.State.Connected && !g.Behind() }

// Polls says which gateway each host polls, :: host name → gateway name, by the
// word of the gateways that are heard.
func Polls(gateways []KnownGateway) map[string]string {
	out := map[string]string{}
	for _, g := range gateways {
		if !g.Heard() {
			continue
		}
		for _, host := range g.State.Polled {
			out[host] = g.Name
		}
	}
	return out
}

// CutOff names the gateway that the host still polls while control does not
// hear it: what it runs answers, and can be neither stopped nor replaced.
// Empty means that it is heard, or that no gateway says so.
func (w *World) CutOff(host string) string {
	if h := w.Hosts[host]; h.Heard() || h.Left {
		return ""
	}
	return w.Polls[host]
}

// Lost says that nothing is to be expected of a host: its lease has ended and
// no gateway speaks for it, or a person retired it.
func (w *World) Lost(host string) bool { return w.Gone[host] || w.IsRetired(host) }

// IsRetired says that a person retired a host, and that it did not return.
func (w *World) IsRetired(host string) bool {
	return w.Retired != nil && w.Retired(host) && !w.Hosts[host].Connected
}

// OnGone are slots on hosts that are gone, while another host is heard.
func (r Revision) OnGone(w *World) []Slot {
	if !slices.ContainsFunc(slices.Collect(maps.Values(w.Hosts)), HostState.Heard) {
		return nil
	}
	var out []Slot
	for _, s := range r.Slots {
		if w.Lost(s.Host) {
			out = append(out, s)
		}
	}
	return out
}

// OnCutOff are slots on hosts that only gateways hear.
func (r Revision) OnCutOff(w *World) []Slot {
	var out []Slot
	for _, s := range r.Slots {
		if w.CutOff(s.Host) != "" {
			out = append(out, s)
		}
	}
	return out
}

// LeaveGone moves slots on hosts that are gone to Leaving: should such a host
// return, it drains them.
func (r Revision) LeaveGone(w *World) Revision {
	gone := r.OnGone(w)
	r.Leaving = append(slices.Clone(r.Leaving), gone...)
	r.Slots = slices.DeleteFunc(slices.Clone(r.Slots), func(s Slot) bool { return slices.Contains(gone, s) })
	return r
}

func pickHost(slots []Slot, w *World) (Host, error) {
	zones, hosts := count(slots)
	var best *HostState
	for _, h := range w.Hosts {
		if !h.Heard() || w.TakesNone(h.Name) != "" {
			continue
		}
		if best == nil || cmp.Or(
			cmp.Compare(w.poor(h.Name), w.poor(best.Name)),
			cmp.Compare(zones[h.Zone], zones[best.Zone]),
			cmp.Compare(hosts[h.Name], hosts[best.Name]),
			cmp.Compare(w.Load[h.Name], w.Load[best.Name]),
			cmp.Compare(h.Name, best.Name)) < 0 {
			best = &h
		}
	}
	if best == nil {
		return Host{}, w.noHost()
	}
	return best.Host, nil
}

// poor is 1 for a host that is avoided.
func (w *World) poor(host string) int {
	if w.Poor == nil || w.Poor(host) == "" {
		return 0
	}
	return 1
}

// count gives slots per zone and per host.
func count(slots []Slot) (zones, hosts map[string]int) {
	zones, hosts = map[string]int{}, map[string]int{}
	for _, s := range slots {
		zones[s.Zone]++
		hosts[s.Host]++
	}
	return zones, hosts
}
