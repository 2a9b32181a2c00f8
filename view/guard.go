package view

import (
	"errors"
	"fmt"
	"maps"
)

// Why a client does not take what it was sent.
var (
	ErrOlderEpoch      = errors.New("its leader was succeeded")
	ErrRivalEpoch      = errors.New("two leaders have one epoch")
	ErrLeft            = errors.New("its incarnation was left")
	ErrOlderVersion    = errors.New("a newer version is held")
	ErrUnauthenticated = errors.New("another incarnation is taken over an authenticated stream only")
	ErrMalformed       = errors.New("the table contradicts itself")
	ErrOtherRegion     = errors.New("it is of another region than what is held")
)

// Rules are what a client knows about a stream and about itself.
type Rules struct {
	// Authenticated says that the sender proved that it is of the plane.
	Authenticated bool
	// Refuse says why an entry cannot be served; nil serves every one that
	// has a name. It is not asked about tombstones.
	Refuse func(Route) error
}

// Taken says what a client should report about what it took.
type Taken struct {
	// Foreign says that the incarnation is another than the one heard last.
	Foreign bool
	// Orphaned services are new orphans, ordered.
	Orphaned []string
}

// Heed checks an epoch that a leader shows before it sends anything, and keeps
// it where it is the highest. The error wraps ErrOlderEpoch, ErrRivalEpoch,
// ErrLeft, ErrUnauthenticated or ErrMalformed; h stands then.
func (h *Held) Heed(e Epoch, r Rules) (*Held, Taken, error) {
	marks, foreign, err := h.heard().Heed(e, r.Authenticated)
	if err != nil || h.Epoch() == e {
		return h, Taken{}, err
	}
	next := h.clone()
	next.marks = marks
	return next, Taken{Foreign: foreign}, nil
}

// Take makes what is held after d, by the rules of the package comment. On an
// error h stands: one that wraps ErrBase or ErrDigest is answered by asking for
// a full table, any other by leaving this sender.
func (h *Held) Take(d Delta, r Rules) (*Held, Taken, error) {
	if err := wellFormed(d); err != nil {
		return h, Taken{}, err
	}
	foreign, err := h.heard().check(d.Epoch, r.Authenticated)
	if err != nil {
		return h, Taken{}, err
	}
	if m := h.mark(d.To.Incarnation); m != nil && d.To.Against(m.Version) == Older {
		return h, Taken{}, fmt.Errorf("cannot take the table %s: %w (%s)", d.To, ErrOlderVersion, m.Version)
	}
	told, err := h.Told().Apply(d)
	if err != nil {
		return h, Taken{}, err
	}
	next := h.clone()
	next.told = told
	next.marks = h.heard().with(Mark{Epoch: d.Epoch, Version: d.To})
	return next, Taken{Foreign: foreign, Orphaned: next.serve(d, h, r.Refuse)}, nil
}

func (h *Held) clone() *Held {
	if h == nil {
		return &Held{}
	}
	next := *h
	return &next
}

func wellFormed(d Delta) error {
	switch {
	case d.To.Incarnation == "":
		return fmt.Errorf("cannot take a table without incarnation: %w", ErrMalformed)
	case d.To.Incarnation != d.Epoch.Incarnation || d.To.Epoch != d.Epoch.Number:
		return fmt.Errorf("cannot take the table %s under the epoch %s: %w", d.To, d.Epoch, ErrMalformed)
	case !d.Full() && d.To.Against(d.Base) == Foreign:
		return fmt.Errorf("cannot take the table %s from %s: %w", d.To, d.Base, ErrBase)
	}
	return nil
}

// serve works out the table to route by after d, and returns the new orphans.
func (h *Held) serve(d Delta, before *Held, refuse func(Route) error) []string {
	s := serving{
		editor:   edit(before.Serving()),
		refused:  maps.Clone(h.refused),
		orphaned: maps.Clone(h.orphaned),
	}
	for _, r := range d.Changed {
		s.name(h.told.entry(r.Service), refuse)
	}
	gone := d.Dropped
	if d.Full() {
		gone = before.Serving().without(h.told)
		s.forget(h.told)
	}
	orphans := s.lose(gone, before.Told())
	s.yield(d.Changed)
	h.serving, h.refused, h.orphaned = s.done(d.To, d.Epoch), s.refused, s.orphaned
	return orphans
}
