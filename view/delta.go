package view

import (
	"errors"
	"fmt"
	"slices"
)

// Delta leads from one version of the table to another.
type Delta struct {
	// Base is the version that the delta starts from; zero means from nothing (a full table).
	Base Version
	To   Version
	// Epoch of the sender.
	Epoch Epoch
	// Changed routes, tombstones included.
	Changed []Route
	// Dropped services: whose tombstones every known gateway has kept.
	Dropped []string
	// Digest of the table that results.
	Digest Digest
}

// Full says that the delta replaces all that is held.
func (d Delta) Full() bool { return d.Base.Zero() }

// What is wrong with a delta that does not fit what is held; the answer to
// both is to ask for a full table.
var (
	ErrBase   = errors.New("the delta starts from another version")
	ErrDigest = errors.New("the content is not what its digest says")
)

// Apply makes the table that d leads to; t stays as it is, and may be nil.
// The error is ErrBase or ErrDigest, wrapped: ask for a full table then.
func (t *Table) Apply(d Delta) (*Table, error) {
	if !d.Full() && (t == nil || d.Base != t.Version) {
		return nil, fmt.Errorf("cannot apply the table %s: %w", d.To, ErrBase)
	}
	from := t
	if d.Full() {
		from = nil
	}
	b := edit(from)
	for _, r := range d.Changed {
		e := &entry{route: r, digest: DigestOf(r)}
		if held := t.entry(r.Service); held != nil && held.digest == e.digest {
			e = held // shared, so that a later comparison is quick
		}
		b.put(e)
	}
	for _, s := range d.Dropped {
		b.drop(s)
	}
	if b.t.Digest != d.Digest {
		return nil, fmt.Errorf("cannot apply the table %s: %w", d.To, ErrDigest)
	}
	return b.done(d.To, d.Epoch), nil
}

// Delta leads from a version that a client says it holds to t, by the routes'
// sequences: everything written after the base, tombstones included. It is a
// full table where base is not known to be a table of this plane's, is zero,
// foreign or ahead, or lies below the floor of dropped tombstones.
func (t *Table) Delta(base Version, known bool) Delta {
	order := base.Against(t.Version)
	if !known || base.Zero() || order == Foreign || order == Newer ||
		base.Counter < t.Floor || base.Counter > t.Version.Counter {
		return t.Whole()
	}
	d := t.to(base)
	for _, r := range t.Routes() {
		if r.Sequence > base.Counter {
			d.Changed = append(d.Changed, r)
		}
	}
	return d
}

// Whole is the full table as a delta from nothing.
func (t *Table) Whole() Delta {
	d := t.to(Version{})
	d.Changed = t.Routes()
	return d
}

// DeltaFrom leads from old, whose content is at hand, to t. It is exact: what
// t lacks is in Dropped. A nil or foreign old gives the full table.
func (t *Table) DeltaFrom(old *Table) Delta {
	if old == nil || old.Version.Zero() || old.Version.Against(t.Version) == Foreign {
		return t.Whole()
	}
	d := t.to(old.Version)
	d.Changed, d.Dropped = t.Diff(old)
	return d
}

// Diff compares by content, whatever the versions say: the routes of t that
// old has not or has otherwise, and the services of old that t has not; both
// ordered by service. Either may be nil. What two tables share costs nothing.
func (t *Table) Diff(old *Table) (changed []Route, dropped []string) {
	if t == nil {
		t = &Table{}
	}
	if old == nil {
		old = &Table{}
	}
	if t.Digest == old.Digest {
		return nil, nil
	}
	for i := range t.shards {
		if t.shards[i] == old.shards[i] {
			continue
		}
		for name, e := range t.shards[i].all() {
			if held := old.shards[i].get(name); held == nil || held.digest != e.digest {
				changed = append(changed, e.route)
			}
		}
		for name := range old.shards[i].all() {
			if t.shards[i].get(name) == nil {
				dropped = append(dropped, name)
			}
		}
	}
	slices.SortFunc(changed, byService)
	slices.Sort(dropped)
	return changed, dropped
}

func (t *Table) to(base Version) Delta {
	return Delta{Base: base, To: t.Version, Epoch: t.Epoch, Digest: t.Digest}
}
