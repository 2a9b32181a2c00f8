package view

import "slices"

// Planned says that an endpoint leaves by plan: it is asked to stop, or its
// revision is no longer routed.
type Planned func(id string) bool

// Trouble is what of the way from one view to the next takes traffic away from
// trouble: what left unplanned, what lost weight by its verdict, and where the
// guard tripped. The rest of the way may wait; a planned removal is of the rest,
// so that it never passes an addition made before it.
type Trouble struct {
	published, target *Service
	lowered           []Endpoint // by ID
	gone              []string   // sorted
	tripped           bool
}

// Any says that something is urgent.
func (t *Trouble) Any() bool { return t.tripped || len(t.gone)+len(t.lowered) > 0 }

// View is the view between the two in which only what is urgent has happened;
// the published one where nothing is.
func (t *Trouble) View() *Service {
	if !t.Any() {
		return t.published
	}
	out := &Service{Name: t.target.Name, Deleted: t.published.Deleted, Empty: t.published.Empty, Marks: t.published.Marks}
	out.Endpoints = merge(t.published.Endpoints, t.lowered, t.gone)
	if t.tripped { // the whole set as the guard returns it, with its mark
		out.Endpoints, out.Marks = merge(out.Endpoints, t.target.Endpoints, nil), t.target.Marks
	}
	return out
}

// lowered reports whether evidence took weight from an endpoint. A ramp that
// begins anew is of the same kind: the instance came back from somewhere. So is
// what the guard kept in rotation, and keeps no longer.
func lowered(was, is *Endpoint) bool {
	return is.Weight < was.Weight && (is.Verdict == Degraded || is.Verdict != was.Verdict || is.Weight == 0)
}

func newlyTripped(was, is []ZoneMark) bool {
	for _, m := range is {
		if m.DegradedConfidence && !slices.ContainsFunc(was, func(w ZoneMark) bool { return w.Group == m.Group && w.Zone == m.Zone && w.DegradedConfidence }) {
			return true
		}
	}
	return false
}
