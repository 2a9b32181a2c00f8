package view

import (
	"fmt"
	"slices"
)

// Change leads from one version of a service's view to another, endpoint by
// endpoint.
type Change struct {
	Service  string
	Base, To Version // zero Base: all that is held is replaced
	Epoch    Epoch
	Deleted  bool
	Empty    bool
	Put      []Endpoint // new or otherwise, by ID
	Gone     []string   // identities, sorted
	Marks    []ZoneMark // all of them: they are few
	// SameMarks says that the marks are those of Base, instead.
	SameMarks bool
	Digest    Digest // of what results
	// Nature is what the change does, and Shed is the view's.
	Nature Nature
	Shed   bool
	// Callers, AnyZone, Tags and Shares are the view's.
	Callers []string
	AnyZone bool
	Tags    []Tag
	Shares  []Share
}

// Full says that the change replaces all that is held.
func (c *Change) Full() bool { return c.Base.Zero() }

// ChangeFrom leads from old to s; from nil, or from another incarnation, it is
// the whole view.
func (s *Service) ChangeFrom(old *Service) Change {
	c := Change{Service: s.Name, To: s.Version, Epoch: s.Epoch, Deleted: s.Deleted, Empty: s.Empty, Marks: s.Marks, Digest: s.Digest(), Shed: s.Shed, Callers: s.Callers, AnyZone: s.AnyZone, Tags: s.Tags, Shares: s.Shares}
	if old == nil || old.Version.Zero() || old.Version.Against(s.Version) == Foreign {
		c.Put = s.Endpoints
		return c
	}
	c.Base = old.Version
	if slices.Equal(old.Marks, s.Marks) {
		c.Marks, c.SameMarks = nil, true
	}
	for was, is := range differing(old.Endpoints, s.Endpoints) {
		if is != nil {
			c.Put = append(c.Put, *is)
		} else {
			c.Gone = append(c.Gone, was.ID)
		}
	}
	return c
}

// Apply makes the view that c leads to; s stays as it is, and may be nil. The
// error is ErrBase or ErrDigest, wrapped: ask for the whole view then; or
// ErrMalformed.
func (s *Service) Apply(c Change) (*Service, error) {
	if !c.ordered() {
		return nil, fmt.Errorf("cannot apply the view %s of %s: what it names is not in order: %w", c.To, c.Service, ErrMalformed)
	}
	out := &Service{Name: c.Service, Version: c.To, Epoch: c.Epoch, Deleted: c.Deleted, Empty: c.Empty, Shed: c.Shed, Callers: slices.Clone(c.Callers), AnyZone: c.AnyZone, Tags: c.Tags, Shares: c.Shares, Marks: slices.Clone(c.Marks)}
	if c.Full() {
		out.Endpoints = slices.Clone(c.Put)
	} else {
		if s == nil || s.Version != c.Base {
			return nil, fmt.Errorf("cannot apply the view %s of %s: %w", c.To, c.Service, ErrBase)
		}
		out.Endpoints = merge(s.Endpoints, c.Put, c.Gone)
		if c.SameMarks {
			out.Marks = s.Marks
		}
	}
	out.Seal(s)
	if out.Sum != c.Digest {
		return nil, fmt.Errorf("cannot apply the view %s of %s: %w", c.To, c.Service, ErrDigest)
	}
	return out, nil
}

// ordered says that nobody is named twice, and everybody in order.
func (c *Change) ordered() bool {
	for i := 1; i < len(c.Put); i++ {
		if c.Put[i-1].ID >= c.Put[i].ID {
			return false
		}
	}
	return slices.IsSorted(c.Gone)
}

// merge is the held endpoints without those that are gone, and with those that
// are put. All three are sorted, and name nobody twice.
func merge(held, put []Endpoint, gone []string) []Endpoint {
	out := make([]Endpoint, 0, len(held)+len(put))
	for i := range held {
		id := held[i].ID
		for len(put) > 0 && put[0].ID < id {
			out, put = append(out, put[0]), put[1:]
		}
		for len(gone) > 0 && gone[0] < id {
			gone = gone[1:]
		}
		if len(put) > 0 && put[0].ID == id || len(gone) > 0 && gone[0] == id {
			continue
		}
		out = append(out, held[i])
	}
	return append(out, put...)
}
