package view

import (
	"errors"
	"maps"
	"slices"
)

// serving is the table to route by while it is worked out.
type serving struct {
	*editor
	refused  map[string]string  // :: service → reason
	orphaned map[string]Version // :: service → the last version that named it
}

// name takes an entry that the plane names. A refused one leaves what is held.
func (s *serving) name(e *entry, refuse func(Route) error) {
	if e == nil { // changed and dropped in one delta: dropped decides
		return
	}
	service := e.route.Service
	delete(s.orphaned, service)
	if err := refusal(e.route, refuse); err != nil {
		if s.refused == nil {
			s.refused = map[string]string{}
		}
		s.refused[service] = err.Error()
		return
	}
	delete(s.refused, service)
	s.put(e)
}

func refusal(r Route, refuse func(Route) error) error {
	switch {
	case r.Service == "":
		return errors.New("the entry names no service")
	case r.Deleted || refuse == nil:
		return nil
	}
	return refuse(r)
}

// forget ends the refusals of services that the told table does not name.
func (s *serving) forget(told *Table) {
	maps.DeleteFunc(s.refused, func(service string, _ string) bool { return told.entry(service) == nil })
}

// lose takes services that the plane no longer names: a tombstone goes, what
// lives becomes an orphan. It returns the new orphans.
func (s *serving) lose(gone []string, last *Table) []string {
	var orphans []string
	for _, service := range gone {
		delete(s.refused, service)
		held := s.t.entry(service)
		if held == nil {
			continue
		}
		if held.route.Deleted {
			s.drop(service)
			continue
		}
		if _, known := s.orphaned[service]; known {
			continue
		}
		if s.orphaned == nil {
			s.orphaned = map[string]Version{}
		}
		s.orphaned[service] = last.Version
		orphans = append(orphans, service)
	}
	slices.Sort(orphans)
	return orphans
}

// yield takes host names from kept entries where an entry of the plane's now
// claims them: one host name leads to one service.
func (s *serving) yield(changed []Route) {
	if len(s.refused)+len(s.orphaned) == 0 {
		return
	}
	claimed := map[string]string{} // :: host name → service
	for _, r := range changed {
		if _, refused := s.refused[r.Service]; refused {
			continue
		}
		for _, h := range r.Hosts {
			claimed[h] = r.Service
		}
	}
	for service := range s.refused {
		s.strip(service, claimed)
	}
	for service := range s.orphaned {
		s.strip(service, claimed)
	}
}

func (s *serving) strip(service string, claimed map[string]string) {
	held := s.t.entry(service)
	if held == nil {
		return
	}
	mine := func(h string) bool { by, ok := claimed[h]; return ok && by != service }
	if !slices.ContainsFunc(held.route.Hosts, mine) {
		return
	}
	r := held.route
	r.Hosts = slices.DeleteFunc(slices.Clone(r.Hosts), mine)
	s.put(&entry{route: r, digest: DigestOf(r)})
}

// without lists the services of t that other does not name, ordered.
func (t *Table) without(other *Table) []string {
	if t == nil {
		return nil
	}
	var out []string
	for i := range t.shards {
		for name := range t.shards[i].all() {
			if other.shards[i].get(name) == nil {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}
