package resolver

import (
	"slices"

	"github.com/fairlead-platform/fairlead/view"
)

// pullUnit is what a whole percent weighs, where there are several shares.
const pullUnit = 1 << 20

// setPulls works out how much each member draws: its weight, or, where the route has
// several shares, its part by weight of those to which its revision belongs. Who
// is of a share of 0% draws nothing: it is picked where a pick names its revision,
// a tag or itself. A revision that no share names draws only where nobody else does.
func setPulls(v *view.Service, members []*member) {
	if v == nil || len(v.Shares) == 0 {
		for _, m := range members {
			m.pull = m.weight
		}
		return
	}
	all := make([]int64, len(v.Shares)) // :: share → the weight of its members
	some, part := 0, -1
	for i := range v.Shares {
		if v.Shares[i].Percent > 0 {
			some, part = some+1, i
		}
	}
	drawn := false
	for _, m := range members {
		for i := range v.Shares {
			if slices.Contains(v.Shares[i].Revisions, m.Revision) {
				all[i] += m.weight
			}
		}
	}
	for _, m := range members {
		m.pull = 0
		for i := range v.Shares {
			s := &v.Shares[i]
			switch {
			case s.Percent == 0 || !slices.Contains(s.Revisions, m.Revision):
			case some == 1 && i == part:
				m.pull = m.weight
			default:
				m.pull += max(1, m.weight*int64(s.Percent)*pullUnit/all[i])
			}
		}
		drawn = drawn || m.pull > 0
	}
	if drawn {
		return
	}
	for _, m := range members {
		if !slices.ContainsFunc(v.Shares, func(s view.Share) bool { return slices.Contains(s.Revisions, m.Revision) }) {
			m.pull = m.weight
		}
	}
}
