package view

import "slices"

// Share is a part of a service's requests, and the revisions that answer it: one
// split of its route.
type Share struct {
	Percent   int      `json:"percent"`
	Revisions []string `json:"revisions"` // sorted
}

// Shares of the route, in its order; nil where it leads nowhere.
func (r Route) Shares() (shares []Share) {
	for _, s := range r.Splits {
		shares = append(shares, Share{s.Percent, slices.Sorted(slices.Values(s.Allowed))})
	}
	return shares
}

// EqualShares says whether two lists say the same.
func EqualShares(a, b []Share) bool {
	return slices.EqualFunc(a, b, func(x, y Share) bool { return x.Percent == y.Percent && slices.Equal(x.Revisions, y.Revisions) })
}
