package service

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fairlead-platform/fairlead/view"
)

// Parts resolves what someone wants into what the catalog records, were latest
// the latest revision. It returns an error for a revision that is not there or
// was retired, except latest itself.
func (s *Snapshot) Parts(latest string) ([]CatalogPart, error) {
	wanted := s.Desired.Value.Traffic
	if len(wanted) == 0 {
		wanted = []Target{{Percent: 100}}
	}
	var parts []CatalogPart
	for _, t := range wanted {
		name := cmp.Or(t.Revision, latest)
		if name == "" {
			continue // the latest of none
		}
		r := s.Revision(name)
		if name != latest && (!r.Exists() || r.Value.State == RevisionRetired) {
			return nil, fmt.Errorf("traffic is wanted at revision %s, which is not there", name)
		}
		group := name
		if r.Exists() {
			group = r.Value.GroupOf()
		}
		parts = addPart(parts, CatalogPart{Revision: name, Percent: t.Percent, Tag: t.Tag, Group: group})
	}
	return parts, nil
}

// addPart makes one part of two that differ in nothing but their share.
func addPart(parts []CatalogPart, p CatalogPart) []CatalogPart {
	for i, o := range parts {
		if o.Revision == p.Revision && (o.Tag == p.Tag || o.Tag == "" || p.Tag == "") {
			parts[i].Percent += p.Percent
			parts[i].Tag = cmp.Or(o.Tag, p.Tag)
			return parts
		}
	}
	return append(parts, p)
}

// PlanRoutes is the route that a catalog's traffic and host names ask for.
// Revisions are looked up for their limits.
func (s *Snapshot) PlanRoutes(parts []CatalogPart, hosts []string) view.Route {
	r := view.Route{Service: s.Service, Hosts: slices.Clone(hosts)}
	lead := CatalogPart{Percent: -1}
	for _, p := range parts {
		if p.Percent > lead.Percent {
			lead = p
		}
		if p.Percent == 0 && p.Tag == "" {
			continue // nothing leads there
		}
		r.Splits = append(r.Splits, view.Split{
			Revision: p.Revision, Percent: p.Percent, Group: p.Group, Allowed: []string{p.Revision}, Tag: p.Tag,
		})
	}
	if t := s.Revision(lead.Revision).Value.Template; lead.Percent >= 0 {
		r.Limits = view.Limits{FirstByte: t.RequestTimeout, Drain: t.Drain, Idempotent: t.Idempotent}
	}
	return r
}

// CatalogRoutes is the route that the catalog asks for today.
func (s *Snapshot) CatalogRoutes() view.Route {
	c := s.Catalog.Value
	return s.PlanRoutes(c.Traffic, c.Hosts)
}

// SamePlan compares two routes, their sequences aside.
func SamePlan(a, b view.Route) bool {
	return a.Service == b.Service && a.Deleted == b.Deleted && a.Limits == b.Limits &&
		slices.Equal(a.Hosts, b.Hosts) && slices.EqualFunc(a.Splits, b.Splits, sameSplit)
}

func sameSplit(a, b view.Split) bool {
	return a.Revision == b.Revision && a.Percent == b.Percent && a.Group == b.Group && a.Tag == b.Tag &&
		slices.Equal(a.Allowed, b.Allowed)
}

// Names says that the route leads to the revision, by percent or by tag.
func Names(r view.Route, revision string) bool {
	if r.Deleted {
		return false
	}
	return slices.ContainsFunc(r.Splits, func(s view.Split) bool {
		return s.Revision == revision || slices.Contains(s.Allowed, revision)
	})
}

// PlanText says a route in words.
func PlanText(r view.Route) string {
	switch {
	case r.Deleted:
		return "withdrawn"
	case len(r.Splits) == 0:
		return "no traffic"
	}
	s := ""
	for i, p := range r.Splits {
		if i > 0 {
			s += ", "
		}
		s += percentText(p.Percent) + " to " + p.Revision
		if p.Tag != "" {
			s += " (tag " + p.Tag + ")"
		}
	}
	return s
}
