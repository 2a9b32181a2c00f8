package evidence

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
	"unique"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Caller says where a reporter's calls come from. Empty is not said.
type Caller struct{ Zone, Revision string }

// kind is by what callers are told apart.
type kind int

const (
	byZone kind = iota
	byRevision
	kinds
)

const (
	// MostCallers of a kind are told apart at an instance, and at a service.
	MostCallers = 8
	// MaxName is how long the name of a zone or a revision may be, in bytes.
	MaxName = 64
)

// label is the name of a zone or a revision; zero is no name.
type label = unique.Handle[string]

// before orders names by a hash that is the same on every machine.
func before(a, b label) bool {
	x, y := reporterHash(a.Value()), reporterHash(b.Value())
	return x < y || x == y && a.Value() < b.Value()
}

// nameOf makes a name of what somebody sent; false: it cannot be one.
func nameOf(text string) (n label, ok bool) {
	switch {
	case text == "":
		return n, true
	case len(text) > MaxName || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return n, false
	}
	return unique.Make(text), true
}

// origin is a reporter's caller, as it said it last.
type origin struct {
	said     Caller
	names    [kinds]label
	misnamed uint64 // how many of the names cannot be one
}

func (o *origin) say(c Caller) {
	if o.said == c {
		return
	}
	*o = origin{said: Caller{strings.Clone(c.Zone), strings.Clone(c.Revision)}}
	for k, text := range [kinds]string{c.Zone, c.Revision} {
		ok := false
		if o.names[k], ok = nameOf(text); !ok {
			o.misnamed++
		}
	}
}

// named says that the caller said something of itself.
func (o *origin) named() bool { return o.names != [kinds]label{} }

// part is what callers of one name saw of an instance in a second.
type part struct {
	caller label // zero: of no name, and those for whom there is no place
	eligibility.Outcomes
}

// parts of a row are what those saw most of whose results of the service failed in
// the second, by who they are: what the others saw is never to be told apart. At
// most MostCallers have names: those that come first in the order of names, and
// nothing that they saw was ever put elsewhere. So it is the same in whatever
// order, and by whatever relays, it is put together.
type parts []part

// join puts what callers of one name saw to it.
func (ps *parts) join(c label, x eligibility.Outcomes) {
	at := ps.find(c)
	if at < 0 && c != (label{}) && ps.named() == MostCallers {
		last := ps.last()
		if before(c, (*ps)[last].caller) {
			out := (*ps)[last]
			(*ps)[last] = part{caller: c}
			ps.join(label{}, out.Outcomes)
			at = last
		} else {
			c, at = label{}, ps.find(label{})
		}
	}
	if at < 0 {
		at = len(*ps)
		*ps = append(*ps, part{caller: c})
	}
	join(&(*ps)[at].Outcomes, x)
}

func (ps *parts) find(c label) int {
	for i := range *ps {
		if (*ps)[i].caller == c {
			return i
		}
	}
	return -1
}

// named is how many have a name.
func (ps *parts) named() int {
	if len(*ps) < MostCallers || ps.find(label{}) < 0 {
		return len(*ps)
	}
	return len(*ps) - 1
}

// last is the one whose name comes last.
func (ps *parts) last() (at int) {
	at = -1
	for i := range *ps {
		if c := (*ps)[i].caller; c != (label{}) && (at < 0 || before((*ps)[at].caller, c)) {
			at = i
		}
	}
	return at
}

// put puts what a reporter saw to a row: told apart where most of what it saw of
// the service failed.
func put(row *eligibility.Outcomes, apart *[kinds]parts, from *origin, all fare, x eligibility.Outcomes) {
	if !from.named() || !all.fails() {
		join(row, x)
		return
	}
	for k := range kinds {
		apart[k].join(from.names[k], x)
	}
}

// whole is a row with its parts.
func whole(row eligibility.Outcomes, apart *[kinds]parts) eligibility.Outcomes {
	for i := range apart[byZone] { // by revision they are the same
		join(&row, apart[byZone][i].Outcomes)
	}
	return row
}

// tally is what callers of one name saw of a service in a second, in all.
type tally struct {
	caller             label
	results, failed    uint64
	reporters, failing eligibility.Sketch // all, and those most of whose results failed
}

func tallyOf(c label, reporter uint64, f fare) tally {
	t := tally{caller: c, results: f.n, failed: f.failed, reporters: eligibility.Sketch(0).With(reporter)}
	if f.fails() {
		t.failing = t.reporters
	}
	return t
}

func (t *tally) add(o *tally) {
	t.results, t.failed = t.results+o.results, t.failed+o.failed
	t.reporters, t.failing = t.reporters|o.reporters, t.failing|o.failing
}

// placed finds the one of a name among at most MostCallers, and makes it where
// there is a place: as with parts, those have one whose names come first. It is
// negative where there is none; crowded says that somebody has none.
func placed[T any](all *[]T, c label, name func(T) label, made func() T) (at int, crowded bool) {
	if at = slices.IndexFunc(*all, func(x T) bool { return name(x) == c }); at >= 0 {
		return at, false
	}
	if len(*all) < MostCallers {
		*all = append(*all, made())
		return len(*all) - 1, false
	}
	last := 0
	for i := range *all {
		if before(name((*all)[last]), name((*all)[i])) {
			last = i
		}
	}
	if !before(c, name((*all)[last])) {
		return -1, true
	}
	(*all)[last] = made()
	return last, true
}
