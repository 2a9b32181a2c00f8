package view

// Nature says what a new version of a view does; several may be true of it.
// Zero is not known, and taken for Adds.
type Nature uint8

const (
	// Withdraws: traffic is taken from trouble. It goes at once.
	Withdraws Nature = 1 << iota
	// Removes: endpoints leave by plan.
	Removes
	// Adds: endpoints come, or weight rises; and all else.
	Adds
)

// Urgent says that it goes before what may wait.
func (n Nature) Urgent() bool { return n&Withdraws != 0 }

// NatureOf is what the way from old to next does. Old may be nil.
func NatureOf(old, next *Service, planned Planned) (n Nature) {
	if old == nil {
		return Adds
	}
	if newlyTripped(old.Marks, next.Marks) {
		n = Withdraws
	}
	for was, is := range differing(old.Endpoints, next.Endpoints) {
		switch {
		case is == nil && planned(was.ID):
			n |= Removes
		case is == nil && !was.In(): // it carried nothing
		case is == nil || was != nil && lowered(was, is):
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

// Left are the endpoints of old that next does not name.
func Left(old, next *Service) (left []Endpoint) {
	k := 0
	for i := range old.Endpoints {
		e := &old.Endpoints[i]
		for k < len(next.Endpoints) && next.Endpoints[k].ID < e.ID {
			k++
		}
		if k == len(next.Endpoints) || next.Endpoints[k].ID != e.ID {
			left = append(left, *e)
		}
	}
	return left
}
