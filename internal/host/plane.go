package host

import (
	"hash/fnv"
	"slices"
)

// knownRelays is the record of them.
type knownRelays struct {
	Relays []string `json:"relays"`
}

// mostRelays that an instance is told of.
const mostRelays = 8

// plane is where an instance holds its views from: relays first, as control
// named them last, in an order of each instance's own, so that those who start
// together are shared out; and controls, for when no relay answers. An instance
// that never ran needs no control for it.
func (h *Host) plane(instance string) []string {
	if len(h.cfg.Plane) == 0 { // they are told of nothing
		return nil
	}
	var relays []string
	if known := h.relays.Load(); known != nil {
		relays = slices.Clone(*known)
	}
	slices.SortFunc(relays, func(a, b string) int {
		if place(instance, a) < place(instance, b) {
			return -1
		}
		return 1
	})
	relays = slices.DeleteFunc(relays, func(a string) bool { return slices.Contains(h.cfg.Plane, a) })
	return append(relays[:min(len(relays), mostRelays)], h.cfg.Plane...)
}

func place(instance, relay string) uint64 {
	x := fnv.New64a()
	_, _ = x.Write([]byte(instance + "\x00" + relay)) // it never fails
	return x.Sum64() * 0x9e3779b97f4a7c15
}

// loadRelays reads those that were told before; without them controls suffice.
func (h *Host) loadRelays() {
	copies, err := readTwice[knownRelays](h.folder, fileRelays, h.log)
	switch {
	case err != nil:
		h.log.Warn("the relays are not known until control tells", "record", h.folder.path(fileRelays), "error", err)
	case len(copies) > 0:
		h.relays.Store(&copies[0].Relays)
	}
}

// takeRelays keeps what control says; none says nothing: control has just
// started, and they have not found it yet.
func (h *Host) takeRelays(relays []string) {
	slices.Sort(relays)
	if known := h.relays.Load(); len(relays) == 0 || known != nil && slices.Equal(*known, relays) {
		return
	}
	h.relays.Store(&relays)
	if err := h.folder.writeTwice(fileRelays, knownRelays{relays}); err != nil {
		h.log.Warn("the relays are not on disk: what starts while control is away is told of controls alone", "error", err)
	}
}
