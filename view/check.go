package view

import (
	"errors"
	"fmt"
	"strings"
)

// Check says why a route cannot be routed by; nil when it can. It is what a
// client gives to [Rules.Refuse], alone or with more of its own.
func (r Route) Check() error {
	for _, h := range r.Hosts {
		if h == "" || h != strings.ToLower(h) || strings.ContainsAny(h, ":/ ") {
			return fmt.Errorf("host name %q is not a lower-case name without a port", h)
		}
	}
	if len(r.Splits) == 0 {
		return nil
	}
	sum := 0
	tags := map[string]bool{} // :: tag → taken
	for _, s := range r.Splits {
		if err := s.check(); err != nil {
			return err
		}
		if s.Tag != "" && tags[s.Tag] {
			return fmt.Errorf("the tag %q names two splits", s.Tag)
		}
		tags[s.Tag] = true
		sum += s.Percent
	}
	if sum != 100 && sum != 0 { // at 0 all are reached by their tags only
		return fmt.Errorf("the percents add up to %d, not 100", sum)
	}
	return r.Limits.check()
}

func (s Split) check() error {
	switch {
	case s.Percent < 0 || s.Percent > 100:
		return fmt.Errorf("a split of %d percent", s.Percent)
	case s.Group == "":
		return fmt.Errorf("the split of revision %q names no request group", s.Revision)
	case len(s.Allowed) == 0:
		return fmt.Errorf("the split of revision %q allows no revision to answer", s.Revision)
	}
	return nil
}

func (l Limits) check() error {
	if l.MaxWaiting < 0 || l.FirstByte < 0 || l.Drain < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}
