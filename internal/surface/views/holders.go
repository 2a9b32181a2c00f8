package views

import "iter"

// holders of one service's views, in the order in which they came. Whose streams
// share a connection came together: what they are sent together goes in few
// writes.
type holders struct {
	first, last *holding
	count       int
}

func (l *holders) add(h *holding) {
	if h.listed {
		return
	}
	if h.listed, h.before = true, l.last; l.last == nil {
		l.first = h
	} else {
		l.last.after = h
	}
	l.last = h
	l.count++
}

func (l *holders) remove(h *holding) {
	if !h.listed {
		return
	}
	if h.before == nil {
		l.first = h.after
	} else {
		h.before.after = h.after
	}
	if h.after == nil {
		l.last = h.before
	} else {
		h.after.before = h.before
	}
	h.before, h.after, h.listed = nil, nil, false
	l.count--
}

// all of them; the one at hand may be removed.
func (l *holders) all() iter.Seq[*holding] {
	return func(yield func(*holding) bool) {
		for h := l.first; h != nil; {
			next := h.after
			if !yield(h) {
				return
			}
			h = next
		}
	}
}
