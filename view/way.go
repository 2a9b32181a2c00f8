package view

import "slices"

// Way is what differs between two views of a service, found once for all who ask.
type Way struct {
	from, to *Service // from may be nil
	pairs    []pair   // by ID
}

// pair is an endpoint that is not the same in both; one that lacks it has nil.
type pair struct{ was, is *Endpoint }

// Between two views; from may be nil.
func Between(from, to *Service) Way {
	w := Way{from: from, to: to}
	if from == nil {
		return w
	}
	for was, is := range differing(from.Endpoints, to.Endpoints) {
		w.pairs = append(w.pairs, pair{was, is})
	}
	return w
}

// From is the way to the assembled view. Where that was amended from the one at
// hand only what was amended is looked at.
func (a *Assembly) From(from *Service) Way {
	if from == nil || a.amended == nil || !same(from.Endpoints, a.amended) {
		return Between(from, &a.View)
	}
	w := Way{from: from, to: &a.View}
	for _, at := range a.places {
		if was, is := &from.Endpoints[at], &a.View.Endpoints[at]; *was != *is {
			w.pairs = append(w.pairs, pair{was, is})
		}
	}
	return w
}

// same says that both are one array.
func same(a, b []Endpoint) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// Seal computes the sum of the view that the way leads to. The content must not
// change after it.
func (w *Way) Seal() {
	s, old := w.to, w.from
	if old == nil || old.Sum == (Digest{}) {
		s.Sum = Digest{}
		s.Sum = s.Digest()
		return
	}
	d := old.Sum
	if s.Name != old.Name || s.Deleted != old.Deleted || s.Empty != old.Empty || !slices.Equal(s.Marks, old.Marks) {
		d = d.sub(old.rest()).add(s.rest())
	}
	for _, p := range w.pairs {
		if p.was != nil {
			d = d.sub(p.was.digest())
		}
		if p.is != nil {
			d = d.add(p.is.digest())
		}
	}
	s.Sum = d
}

// Left are the endpoints that the way leaves behind.
func (w *Way) Left() (left []Endpoint) {
	for _, p := range w.pairs {
		if p.is == nil {
			left = append(left, *p.was)
		}
	}
	return left
}

// Nature is what the way does.
func (w *Way) Nature(planned Planned) (n Nature) {
	if w.from == nil {
		return Adds
	}
	if newlyTripped(w.from.Marks, w.to.Marks) {
		n = Withdraws
	}
	for _, p := range w.pairs {
		switch {
		case p.is == nil && planned(p.was.ID):
			n |= Removes
		case p.is == nil && !p.was.In(): // it carried nothing
		case p.is == nil || p.was != nil && lowered(p.was, p.is):
			n |= Withdraws
		default:
			n |= Adds
		}
	}
	if n == 0 {
		n = Adds
	}
	return n
}

// Trouble is what of the way is urgent.
func (w *Way) Trouble(planned Planned) Trouble {
	t := Trouble{published: w.from, target: w.to, tripped: newlyTripped(w.from.Marks, w.to.Marks)}
	for _, p := range w.pairs {
		switch {
		case p.was == nil:
		case p.is == nil && p.was.In() && !planned(p.was.ID):
			t.gone = append(t.gone, p.was.ID)
		case p.is != nil && lowered(p.was, p.is):
			t.lowered = append(t.lowered, *p.is)
		}
	}
	return t
}
