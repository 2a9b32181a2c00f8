package view

import "slices"

// Snapshot is what a client writes to its disk: all that Held holds.
type Snapshot struct {
	Version Version `json:"version"`
	Epoch   Epoch   `json:"epoch"`
	// Routes as they were told.
	Routes []Route `json:"routes"`
	// Kept entries are served in place of refused or missing ones.
	Kept []Kept `json:"kept,omitempty"`
	// Marks are the highest epochs and versions, the one heard last is last.
	Marks []Mark `json:"marks"`
}

// Kept is an entry that is served though the told table has another or none.
type Kept struct {
	Route Route `json:"route"`
	// Orphaned is the last version that named it; zero for a refused entry's predecessor.
	Orphaned Version `json:"orphaned,omitzero"`
}

// Snapshot makes what Restore reads.
func (h *Held) Snapshot() Snapshot {
	if h == nil {
		return Snapshot{}
	}
	s := Snapshot{Routes: h.told.Routes(), Marks: h.marks}
	if h.told != nil {
		s.Version, s.Epoch = h.told.Version, h.told.Epoch
	}
	for service := range h.refused {
		if r, ok := h.serving.Route(service); ok {
			s.Kept = append(s.Kept, Kept{Route: r})
		}
	}
	for service, v := range h.orphaned {
		if r, ok := h.serving.Route(service); ok {
			s.Kept = append(s.Kept, Kept{Route: r, Orphaned: v})
		}
	}
	slices.SortFunc(s.Kept, func(a, b Kept) int { return byService(a.Route, b.Route) })
	return s
}

// Restore makes what was held when s was written. Entries are asked about
// again: what is refused now is not served, whatever it was then.
func Restore(s Snapshot, refuse func(Route) error) *Held {
	h := &Held{marks: s.Marks}
	if s.Version.Zero() {
		return h
	}
	h.told = NewTable(s.Version, s.Epoch, s.Routes)
	w := serving{editor: edit(nil)}
	for i := range h.told.shards {
		for _, e := range h.told.shards[i].all() {
			w.name(e, refuse)
		}
	}
	for _, k := range s.Kept {
		w.restore(k, h.told, refuse)
	}
	h.serving, h.refused, h.orphaned = w.done(s.Version, s.Epoch), w.refused, w.orphaned
	return h
}

func (s *serving) restore(k Kept, told *Table, refuse func(Route) error) {
	service := k.Route.Service
	_, replaces := s.refused[service]
	if (!replaces && told.entry(service) != nil) || refusal(k.Route, refuse) != nil {
		return
	}
	s.put(&entry{route: k.Route, digest: DigestOf(k.Route)})
	if replaces {
		return
	}
	if s.orphaned == nil {
		s.orphaned = map[string]Version{}
	}
	s.orphaned[service] = k.Orphaned
}
