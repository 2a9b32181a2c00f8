package evidence

import (
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

// part is what callers of one name saw of an instance in a second.
type part struct {
	caller label // zero: of no name, and those for whom there is no place
	eligibility.Outcomes
	failing eligibility.Sketch // reporters most of whose results failed
}

// parts of a row by who called, all of which are the whole. At most MostCallers
// have names: those that come first in the order of names, and nothing that they
// saw was ever put elsewhere. So it is the same in whatever order, and by
// whatever relays, it is put together.
type parts []part

// join puts what callers of one name saw to it, and says whether there was no
// place for somebody.
func (ps *parts) join(c label, x eligibility.Outcomes, failing eligibility.Sketch) (crowded bool) {
	at := ps.find(c)
	if at < 0 && c != (label{}) && ps.named() == MostCallers {
		last := ps.last()
		crowded = true
		if before(c, (*ps)[last].caller) {
			out := (*ps)[last]
			(*ps)[last] = part{caller: c}
			ps.join(label{}, out.Outcomes, out.failing)
			at = last
		} else {
			c, at = label{}, ps.find(label{})
		}
	}
	if at < 0 {
		at = len(*ps)
		*ps = append(*ps, part{caller: c})
	}
	p := &(*ps)[at]
	join(&p.Outcomes, x)
	p.failing |= failing
	return crowded
}

// room makes the first room for an instance's parts, for both kinds side by side.
func (o *open) room() {
	if o.parts[byZone] == nil {
		const few = MostCallers / 2
		all := make(parts, kinds*few)
		o.parts = [kinds]parts{all[0:0:few], all[few : few : 2*few]}
	}
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

// failing has the reporter in it if most of its results failed.
func failing(reporter uint64, n, failed uint32) (s eligibility.Sketch) {
	if 2*failed >= n {
		s = s.With(reporter)
	}
	return s
}
