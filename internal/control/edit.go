package control

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// edit is a set of snapshots being replaced.
type edit struct {
	m      *mirror
	before map[string]*service.Snapshot // :: service name → as it was; never edited
	edited map[string]*service.Snapshot // :: service name → copy that may be edited
}

// editLocked begins an edit of what was before.
func (m *mirror) editLocked(before map[string]*service.Snapshot) *edit {
	return &edit{m: m, before: before, edited: map[string]*service.Snapshot{}}
}

// lastRoutes is the plan that was read last of a service's routes; nil is none.
func (e *edit) lastRoutes(name string) *view.Route {
	switch s := e.before[name]; {
	case s == nil:
		return nil
	case s.Routes.Exists():
		return &s.Routes.Value.Plan
	default:
		return s.LastRoutes
	}
}

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
		} else {
			e.of(owner).LastRoutes = e.lastRoutes(owner)
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
		s.Routes, s.LastRoutes = service.Doc[service.Routes]{}, nil
	case service.KindRevision:
		s.Revisions = slices.DeleteFunc(s.Revisions, func(d service.Doc[service.Revision]) bool { return d.Value.Name == k.Name })
	case service.KindSaga:
		s.Sagas = slices.DeleteFunc(s.Sagas, func(d service.Doc[saga.Record]) bool { return d.Value.ID == k.Name })
	case service.KindEvent:
		s.Events = slices.DeleteFunc(s.Events, func(d service.Doc[string]) bool { return d.Value == k.Name })
	}
}
