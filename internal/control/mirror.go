package control

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// mirror holds every document of the store, read, as of one sequence: a prefix
// of the store's history, never a mixture. It is fed by load and absorb.
type mirror struct {
	digestKey string

	mu       sync.Mutex
	sequence uint64
	// routesAt is the sequence of the last commit that touched any routes record.
	routesAt uint64
	services map[string]*service.Snapshot            // :: service name → snapshot; replaced, never edited
	gateways map[string]service.Doc[service.Gateway] // :: gateway name → member
	hosts    map[string]service.Doc[service.Host]    // :: host name → member
	claims   map[string]string                       // :: host name claimed → service name
	odd      map[store.Key]string                    // :: record that is no service's and cannot be read → problem
	dirty    map[string]bool                         // :: service name → changed since last taken
	changed  chan struct{}                           // closed by the next commit
	rerouted chan struct{}                           // closed by the next that touches routes
	waiting  map[string]chan struct{}                // :: service name → closed by its next change
}

func newMirror(digestKey string) *mirror {
	return &mirror{
		digestKey: digestKey,
		services:  map[string]*service.Snapshot{},
		gateways:  map[string]service.Doc[service.Gateway]{},
		hosts:     map[string]service.Doc[service.Host]{},
		claims:    map[string]string{},
		odd:       map[store.Key]string{},
		dirty:     map[string]bool{},
		changed:   make(chan struct{}),
		rerouted:  make(chan struct{}),
		waiting:   map[string]chan struct{}{},
	}
}

// load makes documents, true at sequence, all that the mirror holds.
func (m *mirror) load(documents []store.Document, sequence uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.services {
		m.touchedLocked(name)
	}
	before := m.services
	m.services = map[string]*service.Snapshot{}
	m.gateways, m.hosts = map[string]service.Doc[service.Gateway]{}, map[string]service.Doc[service.Host]{}
	m.claims, m.odd = map[string]string{}, map[store.Key]string{}
	e := m.editLocked(before)
	for _, d := range documents {
		e.put(d)
	}
	m.sequence = sequence
	m.routesLocked(sequence)
	m.doneLocked(e)
}

// absorb takes the next commit. It reports whether routes, members or hosts changed.
func (m *mirror) absorb(c store.Commit) (routes, members, hosts bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Sequence <= m.sequence {
		return false, false, false
	}
	e := m.editLocked(m.services)
	for _, change := range c.Changes {
		routes = routes || change.Kind == service.KindRoutes
		members = members || change.Kind == service.KindGateway
		hosts = hosts || change.Kind == service.KindHost
		e.drop(change.Key)
		if !change.Deleted {
			e.put(change.Document)
		}
	}
	m.sequence = c.Sequence
	if routes {
		m.routesLocked(c.Sequence)
	}
	m.doneLocked(e)
	return routes, members, hosts
}

// routesLocked notes that routes may be others from a sequence on. Who is woken
// reads them once the mirror is let go.
func (m *mirror) routesLocked(sequence uint64) {
	m.routesAt = sequence
	close(m.rerouted)
	m.rerouted = make(chan struct{})
}

// routesChanged is closed by the next commit that touches routes.
func (m *mirror) routesChanged() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rerouted
}

func (m *mirror) doneLocked(e *edit) {
	for name, s := range e.edited {
		if m.services[name] = s; s.Empty() {
			delete(m.services, name)
		}
		m.touchedLocked(name)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *mirror) touchedLocked(name string) {
	m.dirty[name] = true
	if ch, ok := m.waiting[name]; ok {
		close(ch)
		delete(m.waiting, name)
	}
}

// snapshot of one service; never nil.
func (m *mirror) snapshot(name string) *service.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.services[name]; s != nil {
		return s
	}
	return &service.Snapshot{Service: name}
}

// serviceChanged is closed by the next change of the service's records.
func (m *mirror) serviceChanged(name string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch, ok := m.waiting[name]
	if !ok {
		ch = make(chan struct{})
		m.waiting[name] = ch
	}
	return ch
}

// all returns every snapshot, in no order.
func (m *mirror) all() []*service.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.services))
}

// takeDirty returns the services changed since the last call.
func (m *mirror) takeDirty() []*service.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*service.Snapshot, 0, len(m.dirty))
	for name := range m.dirty {
		s := m.services[name]
		if s == nil {
			s = &service.Snapshot{Service: name}
		}
		out = append(out, s)
	}
	clear(m.dirty)
	return out
}

// reached returns the sequence that the mirror has got to, and a channel
// closed by the next commit.
func (m *mirror) reached() (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sequence, m.changed
}

// members of the gateways, by name.
func (m *mirror) members() []service.Doc[service.Gateway] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.gateways), func(a, b service.Doc[service.Gateway]) int {
		return strings.Compare(a.Value.Name, b.Value.Name)
	})
}

func (m *mirror) member(name string) service.Doc[service.Gateway] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gateways[name]
}

func (m *mirror) host(name string) service.Doc[service.Host] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hosts[name]
}

// draining are the hosts on which a person wants nothing to run; nil is none.
func (m *mirror) draining() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out map[string]bool // :: host name → it drains
	for name, h := range m.hosts {
		if h.Value.Draining && !h.Value.Retired {
			if out == nil {
				out = map[string]bool{}
			}
			out[name] = true
		}
	}
	return out
}

func (m *mirror) retired(host string) bool { return m.host(host).Value.Retired }

// oddRecords are records that are no service's and cannot be read, with why.
func (m *mirror) oddRecords() map[store.Key]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.odd)
}

func (m *mirror) hostNames() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.hosts))
}

// fold gives every published route, and the sequence of the last change of any.
// Where a routes record cannot be read, what was read of it last stands in its
// place, else what the catalog asks for: a service does not vanish from the tables
// by a bad record. Where neither says anything, as before a first deploy has ended,
// the route is not known, which is not that there is none: it is in no table.
func (m *mirror) fold() ([]view.Route, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]view.Route, 0, len(m.services))
	for _, s := range m.services {
		if r, ok := publishedRoute(s); ok {
			out = append(out, r)
		}
	}
	return out, m.routesAt
}

func publishedRoute(s *service.Snapshot) (view.Route, bool) {
	if s.Routes.Exists() {
		r := s.Routes.Value.Plan
		r.Sequence = s.Routes.Version
		return r, true
	}
	r, known := s.StandInRoutes()
	r.Sequence = brokenRoutes(s)
	return r, known
}

// brokenRoutes is the version of a routes record that cannot be read; zero
// when there is none.
func brokenRoutes(s *service.Snapshot) uint64 {
	for _, b := range s.Broken {
		if b.Kind == service.KindRoutes {
			return b.Version
		}
	}
	return 0
}

// markAll has every service looked at again.
func (m *mirror) markAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.services {
		m.dirty[name] = true
	}
}

// slotsOn counts the slots, leaving ones too, that revisions have on a host.
func (m *mirror) slotsOn(host string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.services {
		for _, r := range s.Revisions {
			for _, slot := range slices.Concat(r.Value.Slots, r.Value.Leaving) {
				if slot.Host == host {
					n++
				}
			}
		}
	}
	return n
}

// mark has the service looked at again.
func (m *mirror) mark(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirty[name] = true
}
