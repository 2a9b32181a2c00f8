package lease

import (
	"slices"

	"github.com/fairlead-platform/fairlead/view"
)

// Key names one waiting room. Groups of two services never mix, even when they
// bear one name.
type Key struct{ Service, Group string }

// Rules are what the table in force says of one group. They are immutable.
type Rules struct {
	// Table is the version in force; a lease carries it.
	Table view.Version
	// Text is Table as it is shown.
	Text string
	// Splits that name the group: who may lease is allowed by each of them, and
	// what waits does not say which split it came by.
	Splits []view.Split
	// Hold lets nobody lease.
	Hold bool
	// MaxWaiting bounds newcomers; never zero.
	MaxWaiting int
	// Open says that a share of the service's traffic leads here.
	Open bool
	// Tags are those that lead here.
	Tags []string
}

// Allows says that instances of a revision, of one life of its name, may lease.
func (r *Rules) Allows(revision, minted string) bool {
	return !r.Hold && !slices.ContainsFunc(r.Splits, func(s view.Split) bool { return !s.Allows(revision, minted) })
}

// Admits says whether a request that was chosen by tag (empty: by share) may
// wait here.
func (r *Rules) Admits(tag string) bool {
	if tag == "" {
		return r.Open
	}
	return slices.Contains(r.Tags, tag)
}

// RulesOf reads the rules of each group that a route names. A deleted route
// has none. Where splits that share a group allow different revisions, only
// those that all of them allow may lease: what waits there does not say which
// split it came by. A group that any split holds is leased from by nobody.
func RulesOf(v view.Version, route view.Route) map[string]*Rules {
	out := map[string]*Rules{} // :: group → rules
	if route.Deleted {
		return out
	}
	text := v.String()
	for _, s := range route.Splits {
		r := out[s.Group]
		if r == nil {
			r = &Rules{Table: v, Text: text, MaxWaiting: route.Limits.MaxWaiting}
			if r.MaxWaiting <= 0 {
				r.MaxWaiting = view.DefaultMaxWaiting
			}
			out[s.Group] = r
		}
		r.Splits = append(r.Splits, s)
		r.Hold = r.Hold || s.Hold
		r.Open = r.Open || s.Percent > 0
		if s.Tag != "" {
			r.Tags = append(r.Tags, s.Tag)
		}
	}
	return out
}

// Chooser picks a split of one route. It is immutable.
type Chooser struct {
	upTo  []uint64       // running sums of the percents
	total uint64         // of all percents
	tags  map[string]int // :: tag → index of the split
}

// NewChooser prepares a route's splits.
func NewChooser(splits []view.Split) *Chooser {
	c := &Chooser{tags: map[string]int{}}
	for i, s := range splits {
		if s.Percent > 0 {
			c.total += uint64(s.Percent)
		}
		c.upTo = append(c.upTo, c.total)
		if s.Tag != "" {
			c.tags[s.Tag] = i
		}
	}
	return c
}

// Choose returns the index of the split that a request goes to: by its tag, or
// by the draw, which is uniform over all values of 32 bits. It is -1 where
// nothing leads on.
func (c *Chooser) Choose(tag string, draw uint32) int {
	if tag != "" {
		if i, ok := c.tags[tag]; ok {
			return i
		}
		return -1
	}
	if c.total == 0 {
		return -1
	}
	at := uint64(draw) * c.total >> 32
	for i, up := range c.upTo {
		if at < up {
			return i
		}
	}
	return -1
}
