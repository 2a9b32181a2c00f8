package view

import (
	"cmp"
	"slices"
)

// Tag is a name for some of the revisions that a service's route leads to.
type Tag struct {
	Name      string   `json:"name"`
	Revisions []string `json:"revisions"` // sorted
}

// Tags of the route's splits, by name; nil where there are none.
func (r Route) Tags() (tags []Tag) {
	for _, s := range r.Splits {
		if s.Tag != "" {
			tags = append(tags, Tag{s.Tag, slices.Sorted(slices.Values(s.Allowed))})
		}
	}
	slices.SortFunc(tags, func(a, b Tag) int { return cmp.Compare(a.Name, b.Name) })
	return tags
}

// Tagged are the revisions that a tag names; none where there is no such tag.
func (s *Service) Tagged(name string) []string {
	if s == nil {
		return nil
	}
	for i := range s.Tags {
		if s.Tags[i].Name == name {
			return s.Tags[i].Revisions
		}
	}
	return nil
}

// EqualTags says whether two lists say the same.
func EqualTags(a, b []Tag) bool {
	return slices.EqualFunc(a, b, func(x, y Tag) bool { return x.Name == y.Name && slices.Equal(x.Revisions, y.Revisions) })
}
