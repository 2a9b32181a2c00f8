package control

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/saga"
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
	m.services = map[string]*service.Snapshot{}
	m.gateways, m.hosts = map[string]service.Doc[service.Gateway]{}, map[string]service.Doc[service.Host]{}
	m.claims, m.odd = map[string]string{}, map[store.Key]string{}
	e := m.editLocked()
	for _, d := range documents {
		e.put(d)
	}
	m.sequence, m.routesAt = sequence, sequence
	m.doneLocked(e)
}

// absorb takes the next commit. It reports whether routes or members changed.
func (m *mirror) absorb(c store.Commit) (routes, members bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Sequence <= m.sequence {
		return false, false
	}
	e := m.editLocked()
	for _, change := range c.Changes {
		routes = routes || change.Kind == service.KindRoutes
		members = members || change.Kind == service.KindGateway
		e.drop(change.Key)
		if !change.Deleted {
			e.put(change.Document)
		}
	}
	m.sequence = c.Sequence
	if routes {
		m.routesAt = c.Sequence
	}
	m.doneLocked(e)
	return routes, members
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
// Where a routes record cannot be read, what the catalog asks for stands in
// its place: a service does not vanish from the tables by a bad record.
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
	if v := brokenRoutes(s); v != 0 && s.Catalog.Exists() {
		r := s.CatalogRoutes()
		r.Sequence = v
		return r, true
	}
	return view.Route{}, false
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

// edit is a set of snapshots being replaced.
type edit struct {
	m      *mirror
	edited map[string]*service.Snapshot // :: service name → copy that may be edited
}

func (m *mirror) editLocked() *edit { return &edit{m: m, edited: map[string]*service.Snapshot{}} }

func (e *edit) of(name string) *service.Snapshot {
	if s, ok := e.edited[name]; ok {
		return s
	}
	s := &service.Snapshot{Service: name}
	if old := e.m.services[name]; old != nil {
		*s = *old
		s.Revisions, s.Sagas = slices.Clone(old.Revisions), slices.Clone(old.Sagas)
		s.Events, s.Claims, s.Broken = slices.Clone(old.Events), slices.Clone(old.Claims), slices.Clone(old.Broken)
	}
	e.edited[name] = s
	return s
}

// read decodes d; what cannot be read is noted and false returned.
func read[T any](e *edit, d store.Document, owner string) (service.Doc[T], bool) {
	var v T
	err := json.Unmarshal(d.Body, &v)
	if err == nil {
		return service.Doc[T]{Value: v, Version: d.Version}, true
	}
	if owner == "" {
		e.m.odd[d.Key] = err.Error()
		return service.Doc[T]{}, false
	}
	s := e.of(owner)
	s.Broken = append(s.Broken, service.Broken{Kind: d.Kind, Name: d.Name, Version: d.Version, Problem: err.Error()})
	return service.Doc[T]{}, false
}

// ownerOf a service's record, by its name alone; empty for other kinds.
func ownerOf(k store.Key) string {
	switch k.Kind {
	case service.KindDesired, service.KindCatalog, service.KindRoutes:
		return k.Name
	case service.KindSaga, service.KindEvent:
		return saga.OwnerOf(k.Name)
	case service.KindRevision:
		if i := strings.LastIndexByte(k.Name, '-'); i > 0 {
			return k.Name[:i]
		}
		return k.Name
	}
	return ""
}

func (e *edit) put(d store.Document) {
	owner := ownerOf(d.Key)
	switch d.Kind {
	case service.KindDesired:
		if v, ok := read[service.Desired](e, d, owner); ok {
			s := e.of(owner)
			s.Desired, s.Intent = v, v.Value.Template.Digest(e.m.digestKey)
		}
	case service.KindCatalog:
		if v, ok := read[service.Catalog](e, d, owner); ok {
			e.of(owner).Catalog = v
		}
	case service.KindRoutes:
		if v, ok := read[service.Routes](e, d, owner); ok {
			e.of(owner).Routes = v
		}
	case service.KindRevision:
		if v, ok := read[service.Revision](e, d, owner); ok {
			s := e.of(owner)
			s.Revisions = insert(s.Revisions, v, func(a, b service.Doc[service.Revision]) int { return int(a.Value.Number - b.Value.Number) })
		}
	case service.KindSaga:
		if v, ok := read[saga.Record](e, d, owner); ok {
			s := e.of(owner)
			s.Sagas = insert(s.Sagas, v, func(a, b service.Doc[saga.Record]) int { return strings.Compare(a.Value.ID, b.Value.ID) })
		}
	case service.KindEvent:
		s := e.of(owner)
		s.Events = insert(s.Events, service.Doc[string]{Value: d.Name, Version: d.Version}, byValue)
	default:
		e.putOther(d)
	}
}

func (e *edit) putOther(d store.Document) {
	switch d.Kind {
	case service.KindHostName:
		if v, ok := read[service.HostClaim](e, d, ""); ok {
			s := e.of(v.Value.Service)
			s.Claims = insert(s.Claims, service.Doc[string]{Value: d.Name, Version: d.Version}, byValue)
			e.m.claims[d.Name] = v.Value.Service
		}
	case service.KindGateway:
		v, ok := read[service.Gateway](e, d, "")
		if !ok {
			v.Version = d.Version // a member of which nothing else is known may route by anything
		}
		v.Value.Name = d.Name
		e.m.gateways[d.Name] = v
	case service.KindHost:
		if v, ok := read[service.Host](e, d, ""); ok {
			e.m.hosts[d.Name] = v
		}
	}
}

func byValue(a, b service.Doc[string]) int { return strings.Compare(a.Value, b.Value) }

// insert keeps list in order; what is equal is replaced.
func insert[T any](list []T, v T, order func(a, b T) int) []T {
	i, found := slices.BinarySearchFunc(list, v, order)
	if found {
		list[i] = v
		return list
	}
	return slices.Insert(list, i, v)
}

// drop takes what stood under the key out of the edited snapshots.
func (e *edit) drop(k store.Key) {
	delete(e.m.odd, k)
	switch k.Kind {
	case service.KindHostName:
		if owner, ok := e.m.claims[k.Name]; ok {
			s := e.of(owner)
			s.Claims = slices.DeleteFunc(s.Claims, func(d service.Doc[string]) bool { return d.Value == k.Name })
			delete(e.m.claims, k.Name)
		}
		return
	case service.KindGateway:
		delete(e.m.gateways, k.Name)
		return
	case service.KindHost:
		delete(e.m.hosts, k.Name)
		return
	}
	if owner := ownerOf(k); owner != "" {
		dropFrom(e.of(owner), k)
	}
}

func dropFrom(s *service.Snapshot, k store.Key) {
	s.Broken = slices.DeleteFunc(s.Broken, func(b service.Broken) bool { return b.Kind == k.Kind && b.Name == k.Name })
	switch k.Kind {
	case service.KindDesired:
		s.Desired, s.Intent = service.Doc[service.Desired]{}, ""
	case service.KindCatalog:
		s.Catalog = service.Doc[service.Catalog]{}
	case service.KindRoutes:
		s.Routes = service.Doc[service.Routes]{}
	case service.KindRevision:
		s.Revisions = slices.DeleteFunc(s.Revisions, func(d service.Doc[service.Revision]) bool { return d.Value.Name == k.Name })
	case service.KindSaga:
		s.Sagas = slices.DeleteFunc(s.Sagas, func(d service.Doc[saga.Record]) bool { return d.Value.ID == k.Name })
	case service.KindEvent:
		s.Events = slices.DeleteFunc(s.Events, func(d service.Doc[string]) bool { return d.Value == k.Name })
	}
}

// mark has the service looked at again.
func (m *mirror) mark(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirty[name] = true
}
