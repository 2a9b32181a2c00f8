package view

import "fmt"

// Mark is the highest that was taken of one incarnation.
type Mark struct {
	Epoch Epoch `json:"epoch"`
	// Version of the route table; zero where no table was taken.
	Version Version `json:"version"`
}

// Marks are what a client remembers of the leaders that it heard: the highest
// of each incarnation, the one heard last is last. They are immutable.
type Marks []Mark

// maxMarks bounds how many incarnations are remembered.
const maxMarks = 8

// Last is the highest epoch of the incarnation that was heard last.
func (m Marks) Last() Epoch {
	if len(m) == 0 {
		return Epoch{}
	}
	return m[len(m)-1].Epoch
}

// Heed checks an epoch that a leader shows before it sends anything, and keeps
// it where it is the highest. Foreign says that the incarnation is another than
// the one heard last. The error wraps ErrOlderEpoch, ErrRivalEpoch,
// ErrLeft, ErrUnauthenticated or ErrMalformed; m stands then.
func (m Marks) Heed(e Epoch, authenticated bool) (next Marks, foreign bool, err error) {
	if e.Incarnation == "" {
		return m, false, fmt.Errorf("cannot follow a leader without incarnation: %w", ErrMalformed)
	}
	foreign, err = m.check(e, authenticated)
	if err != nil {
		return m, false, err
	}
	mark := Mark{Epoch: e}
	if old := m.of(e.Incarnation); old != nil {
		mark.Version = old.Version
	}
	return m.with(mark), foreign, nil
}

// check says whether e's leader may be obeyed, and whether its incarnation is
// another than the one heard last.
func (m Marks) check(e Epoch, authenticated bool) (foreign bool, err error) {
	last := m.Last()
	if last.Zero() {
		return false, nil
	}
	foreign = e.Incarnation != last.Incarnation
	if foreign && !authenticated {
		return false, fmt.Errorf("cannot follow the epoch %s: %w", e, ErrUnauthenticated)
	}
	held := m.of(e.Incarnation)
	if held == nil {
		return foreign, nil
	}
	switch e.Against(held.Epoch) {
	case Older:
		return false, fmt.Errorf("cannot follow the epoch %s: %w (%s)", e, ErrOlderEpoch, held.Epoch)
	case Rival:
		return false, fmt.Errorf("cannot follow the epoch %s: %w (%s)", e, ErrRivalEpoch, held.Epoch)
	case Same:
		if foreign {
			return false, fmt.Errorf("cannot follow the epoch %s: %w for %s: only a leader that took office since is followed there (to return to it, start its control anew)", e, ErrLeft, last)
		}
	}
	return foreign, nil
}

func (m Marks) of(incarnation string) *Mark {
	for i := range m {
		if m[i].Epoch.Incarnation == incarnation {
			return &m[i]
		}
	}
	return nil
}

// with is m with one more, as the last.
func (m Marks) with(mark Mark) Marks {
	var out Marks
	for _, old := range m {
		if old.Epoch.Incarnation != mark.Epoch.Incarnation {
			out = append(out, old)
		}
	}
	out = append(out, mark)
	return out[max(0, len(out)-maxMarks):]
}
