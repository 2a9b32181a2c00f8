package service

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Parts resolves what someone wants into what the catalog records, were latest
// the latest revision. It returns an error for a revision that is not there,
// except latest itself. One that was retired is there: it is started again
// before traffic is sent to it.
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
		if name != latest && !r.Exists() {
			return nil, fmt.Errorf("traffic is wanted at revision %s, which is not there", name)
		}
		group := name
		if r.Exists() {
			group = r.Value.GroupOf()
		}
		parts = addPart(parts, CatalogPart{Revision: name, Percent: t.Percent, Tag: t.Tag, Group: group})
	}
	return parts, oneOfEachGroup(parts)
}

// oneOfEachGroup refuses two revisions that were to answer from one shared
// group: what waits there does not say which of them it is for.
func oneOfEachGroup(parts []CatalogPart) error {
	of := map[string]string{} // :: group → revision that answers from it
	for _, p := range parts {
		if p.Percent == 0 && p.Tag == "" {
			continue
		}
		if other, taken := of[p.Group]; taken && other != p.Revision {
			return fmt.Errorf("traffic is wanted at revisions %s and %s, which share the request group %s", other, p.Revision, p.Group)
		}
		of[p.Group] = p.Revision
	}
	return nil
}

// LatestAfter is the latest revision once what is asked for today serves,
// where no deploy is needed for it: that of the catalog, or the one to which
// traffic is pinned together with its configuration.
func (s *Snapshot) LatestAfter() string {
	latest := s.Catalog.Value.Latest
	if r := s.Revision(latest); r.Exists() && s.wants(r.Value) {
		return latest
	}
	for _, t := range s.Desired.Value.Traffic {
		if r := s.Revision(t.Revision); t.Percent == 100 && r.Exists() && s.wants(r.Value) && r.Value.State != RevisionPending {
			return t.Revision
		}
	}
	return latest
}

// EffectWanted notes in a traffic saga what it was asked for, see WantedTraffic.
const EffectWanted = "wanted"

// WantedTraffic tells apart what is wanted of traffic and host names today.
func (s *Snapshot) WantedTraffic() string {
	parts, err := s.Parts(s.LatestAfter())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(parts, s.Desired.Value.HostsOf())
}

// Record is the catalog once traffic goes to parts, with latest the latest
// revision. What led the traffic before is noted, and kept warm unless it
// cannot run beside another.
func (s *Snapshot) Record(parts []CatalogPart, latest string, now time.Time, warm time.Duration) Catalog {
	c := s.Catalog.Value
	before, after := Lead(c.Traffic), Lead(parts)
	if before != "" && before != after {
		c.Earlier = append([]EarlierTraffic{{Revision: before, Ended: now}}, c.Earlier...)
		c.Earlier = c.Earlier[:min(len(c.Earlier), KeptRevisions)]
		c.Warm, c.WarmUntil = "", time.Time{}
		if warm > 0 && !s.Revision(before).Value.Exclusive() && !s.Revision(after).Value.Exclusive() {
			c.Warm, c.WarmUntil = before, now.Add(warm)
		}
	}
	c.Traffic, c.Latest = parts, latest
	if c.Warm == after {
		c.Warm, c.WarmUntil = "", time.Time{}
	}
	return c
}

// Lead is the revision with the greatest share; empty when none has any.
func Lead(parts []CatalogPart) string {
	lead, most := "", 0
	for _, p := range parts {
		if p.Percent > most {
			lead, most = p.Revision, p.Percent
		}
	}
	return lead
}

// Exclusive says that the revision cannot run beside another of its service.
func (r Revision) Exclusive() bool { return r.Template.Handover == HandoverExclusive }

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
		split := view.Split{Revision: p.Revision, Percent: p.Percent, Group: p.Group, Allowed: []string{p.Revision}, Tag: p.Tag}
		if minted := s.Revision(p.Revision).Value.Minted; minted != "" {
			split.Minted = []string{minted}
		}
		r.Splits = append(r.Splits, split)
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
		a.Hold == b.Hold && slices.Equal(a.Allowed, b.Allowed) && slices.Equal(a.Minted, b.Minted)
}

// Held is the route with every group held: what comes waits, and no revision
// is leased to.
func Held(r view.Route) view.Route {
	r.Splits = slices.Clone(r.Splits)
	for i := range r.Splits {
		r.Splits[i].Hold = true
	}
	return r
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
		if p.Hold {
			s += "held: "
		}
		s += percentText(p.Percent) + " to " + p.Revision
		if p.Tag != "" {
			s += " (tag " + p.Tag + ")"
		}
	}
	return s
}
