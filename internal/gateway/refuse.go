package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-platform/fairlead/view"
)

// RefuseRoute says why a route cannot be served as it is; nil when it can. The
// holder of the table asks it of each entry, and applies the rest.
func RefuseRoute(r view.Route) error {
	if err := checkLabel(r.Service); err != nil {
		return fmt.Errorf("service name: %w", err)
	}
	if r.Deleted {
		return nil
	}
	for i, h := range r.Hosts {
		if err := checkHost(h); err != nil {
			return err
		}
		if slices.Contains(r.Hosts[:i], h) {
			return fmt.Errorf("host name %q is declared twice", h)
		}
	}
	if l := r.Limits; l.MaxWaiting < 0 || l.FirstByte < 0 || l.Drain < 0 {
		return errors.New("a limit is negative")
	}
	return refuseSplits(r.Splits)
}

func refuseSplits(splits []view.Split) error {
	total, tags := 0, map[string]bool{}
	groups := map[string]view.Split{} // :: group → first split that names it
	for _, s := range splits {
		switch first, shared := groups[s.Group]; {
		case s.Group == "":
			return fmt.Errorf("the split to %q names no group", s.Revision)
		case s.Percent < 0 || s.Percent > 100:
			return fmt.Errorf("the split to %q has %d%%", s.Revision, s.Percent)
		case len(s.Allowed) == 0:
			return fmt.Errorf("group %q allows no revision", s.Group)
		case slices.Contains(s.Allowed, ""):
			return fmt.Errorf("group %q allows a revision without a name", s.Group)
		case shared && !(slices.Equal(first.Allowed, s.Allowed) && slices.Equal(first.Minted, s.Minted)):
			return fmt.Errorf("group %q is shared by splits that allow different revisions", s.Group)
		case tags[s.Tag] && s.Tag != "":
			return fmt.Errorf("tag %q is given twice", s.Tag)
		}
		if s.Tag != "" {
			if err := checkLabel(s.Tag); err != nil {
				return fmt.Errorf("tag: %w", err)
			}
			if strings.Contains(s.Tag, tagMark) {
				return fmt.Errorf("tag %q contains %q", s.Tag, tagMark)
			}
		}
		tags[s.Tag] = true
		groups[s.Group] = s
		total += s.Percent
	}
	if total != 100 && total != 0 {
		return fmt.Errorf("the percents add up to %d, not 100", total)
	}
	return nil
}
