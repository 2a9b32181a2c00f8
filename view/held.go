package view

import (
	"fmt"
	"maps"
	"slices"
)

// Held is everything that a client of the route view holds: what the plane
// told it, what it serves by, and why the two differ. It is immutable; [Held.Take]
// and [Held.Heed] make new ones. The nil Held holds nothing.
type Held struct {
	told     *Table
	serving  *Table
	refused  map[string]string  // :: service → why its entry is not served
	orphaned map[string]Version // :: service → the last version that named it
	marks    Marks
}

// Told is the table that the plane sent, bad entries included. Its version and
// digest are what is acknowledged, so that they can be compared with the plane's.
func (h *Held) Told() *Table {
	if h == nil {
		return nil
	}
	return h.told
}

// Serving is the table to route by: what was told, but for the services whose
// entry was refused or is missing without an explanation, which keep the entry
// that was held. Its version is that of Told.
func (h *Held) Serving() *Table {
	if h == nil {
		return nil
	}
	return h.serving
}

// Epoch is the highest of the incarnation that was heard last.
func (h *Held) Epoch() Epoch {
	return h.heard().Last()
}

// EpochOf is the highest that was taken of one incarnation; zero when unknown.
func (h *Held) EpochOf(incarnation string) Epoch {
	if m := h.mark(incarnation); m != nil {
		return m.Epoch
	}
	return Epoch{}
}

// Orphaned lists the services that are served though the table in force does
// not name them, ordered.
func (h *Held) Orphaned() []string {
	if h == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(h.orphaned))
}

// ReasonOrphaned begins the reason given for an orphan, in Objections.
const ReasonOrphaned = "orphaned: "

// Objections say, by service, where what is served is not what was told, and
// why: refused entries and orphans. It is a copy; nil when there is none.
func (h *Held) Objections() map[string]string {
	if h == nil || len(h.refused)+len(h.orphaned) == 0 {
		return nil
	}
	out := make(map[string]string, len(h.refused)+len(h.orphaned))
	maps.Copy(out, h.refused)
	for s, v := range h.orphaned {
		out[s] = fmt.Sprintf("%sabsent without a tombstone; still served as of %s", ReasonOrphaned, v)
	}
	return out
}

func (h *Held) heard() Marks {
	if h == nil {
		return nil
	}
	return h.marks
}

func (h *Held) mark(incarnation string) *Mark { return h.heard().of(incarnation) }
