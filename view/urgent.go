package view

import "slices"

// Planned says that an endpoint leaves by plan: it is asked to stop, or its
// revision is no longer routed.
type Planned func(id string) bool

// Urgent is what of the way from published to target takes traffic away from
// trouble: what left unplanned, what lost weight by its verdict, and where the
// guard tripped. It is a view between the two, and the same as published where
// nothing is urgent; the rest of the way may wait. A planned removal is of the
// rest, so that it never passes an addition made before it.
func Urgent(published, target *Service, planned Planned) (*Service, bool) {
	out := &Service{Name: target.Name, Deleted: published.Deleted, Empty: published.Empty}
	urgent := false
	tripped := newlyTripped(published.Marks, target.Marks)
	for _, e := range published.Endpoints {
		to, still := target.Endpoint(e.ID)
		switch {
		case !still && e.In() && !planned(e.ID):
			urgent = true
			continue
		case still && lowered(e, to):
			urgent, e = true, to
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	out.Marks = published.Marks
	if tripped { // the whole set as the guard returns it, with its mark
		urgent = true
		out.Endpoints, out.Marks = merge(out.Endpoints, target.Endpoints, nil), target.Marks
	}
	if !urgent {
		return published, false
	}
	return out, true
}

// lowered reports whether evidence took weight from an endpoint. A ramp that
// begins anew is of the same kind: the instance came back from somewhere.
func lowered(was, is Endpoint) bool {
	return is.Weight < was.Weight && (is.Verdict == Degraded || is.Verdict != was.Verdict)
}

func newlyTripped(was, is []ZoneMark) bool {
	for _, m := range is {
		if m.DegradedConfidence && !slices.ContainsFunc(was, func(w ZoneMark) bool { return w.Group == m.Group && w.Zone == m.Zone && w.DegradedConfidence }) {
			return true
		}
	}
	return false
}
