package service

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// EndsEvery is how often the history tells of one slot at most.
const EndsEvery = time.Minute

// End is a slot of what serves in which processes ended by themselves.
type End struct {
	Slot     Slot
	Revision Revision
	N        int    // processes since it was told last
	All      int    // processes under this assignment
	How      string // the last of them ended
}

// Text of an event.
func (e End) Text() string {
	text := fmt.Sprintf("the process in slot %s on host %s ended by itself", e.Slot.ID, e.Slot.Host)
	if e.How != "" {
		text += ": " + e.How
	}
	if e.N > 1 {
		text += fmt.Sprintf(" (%d times since it was last told)", e.N)
	}
	return text
}

// Ends are those that the history is to tell of now: of revisions that the
// catalog refers to, because a deploy tells of its own.
func (s *Snapshot) Ends(w *World) []End {
	var out []End
	for _, r := range s.Serving() {
		for _, slot := range r.Value.Slots {
			i, all, ok := lastOf(r.Value.Processes(slot.ID, w), slot.Host)
			if !ok {
				continue
			}
			if n := w.Ends(StrayKey(slot.ID, r.Value.Minted), all); n > 0 {
				out = append(out, End{Slot: slot, Revision: r.Value, N: n, All: all, How: howEnded(i)})
			}
		}
	}
	return out
}

// lastOf is a slot's newest process, by round and restarts, and how many of
// that round have ended by themselves.
func lastOf(list []Instance, host string) (last Instance, ended int, ok bool) {
	for _, i := range list {
		if i.Host != host || ok && cmp.Or(cmp.Compare(i.Round, last.Round), cmp.Compare(i.Restarts, last.Restarts)) < 0 {
			continue
		}
		last, ok = i, true
	}
	ended = last.Restarts
	if last.State == InstanceExited {
		ended++
	}
	return last, ended, ok
}

func howEnded(i Instance) string {
	if i.State == InstanceExited {
		return EndText(cmp.Or(i.Detail, i.ExitStatus), i.LastLines)
	}
	return i.Before
}

func (s *Snapshot) planEnds(w *World) Work {
	if !slices.ContainsFunc(w.Of[s.Service], func(i Instance) bool { return i.Restarts > 0 || i.State == InstanceExited }) {
		return Work{} // as ever, and cheaply
	}
	if ends := s.Ends(w); len(ends) > 0 {
		return Work{Kind: WorkEnds, Revision: ends[0].Revision.Name, Reason: ends[0].Text()}
	}
	return Work{}
}
