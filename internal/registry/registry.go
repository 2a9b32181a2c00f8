// Package registry holds which instances exist, by the word of the authorities
// that run them, and the facts of each that evidence does not change. Read
// [Registry] first.
//
// An instance's identity is one process's, and never used again. No single
// answer empties a service: a source that cannot be reached says nothing, and
// one that suddenly lists far less than before is held, instance by instance,
// until something else confirms it.
//
// It has no clock, no I/O and no goroutine.
package registry

import (
	"cmp"
	"maps"
	"slices"
)

// Source is the authority that says that an instance exists.
type Source string

const (
	Host     Source = "host"     // our own hosts
	Lease    Source = "lease"    // registered by itself, and renewed
	External Source = "external" // declared by a person
)

// Instance is a row: what exists, where, and what of it never changes.
type Instance struct {
	ID       string `json:"id"`
	Handle   uint32 `json:"handle"` // its number in evidence; never used again within an incarnation
	Service  string `json:"service"`
	Revision string `json:"revision,omitempty"`
	Slot     string `json:"slot,omitempty"`
	Host     string `json:"host,omitempty"`
	Zone     string `json:"zone,omitempty"`
	// Address is host:port, or a URL.
	Address string `json:"address"`
	Source  Source `json:"source"`
	// By is who registered it, where it holds a lease.
	By string `json:"by,omitempty"`
	// Listening says that its authority sees it serve; Terminating that it
	// was asked to stop.
	Listening   bool `json:"listening,omitempty"`
	Terminating bool `json:"terminating,omitempty"`
	// EverReady is written once, when it first comes into rotation.
	EverReady bool `json:"everReady,omitempty"`
	// Gone says that its authority saw the process end.
	Gone bool `json:"gone,omitempty"`
	// Missing says that its authority no longer lists it, which is held until
	// something else confirms it. Listings are counted.
	Missing int `json:"missing,omitempty"`
}

// Registry is every row, by instance and by service.
type Registry struct {
	rows     map[string]*Instance            // :: instance → row
	services map[string]map[string]*Instance // :: service → instance → row
	handles  map[uint32]*Instance            // :: handle → row
	next     uint32
}

// New makes a registry whose first handle is the one after last.
func New(last uint32) *Registry {
	return &Registry{rows: map[string]*Instance{}, services: map[string]map[string]*Instance{}, handles: map[uint32]*Instance{}, next: last + 1}
}

// Get finds a row by the instance's identity.
func (r *Registry) Get(id string) (Instance, bool) {
	if x := r.rows[id]; x != nil {
		return *x, true
	}
	return Instance{}, false
}

// ByHandle finds a row by its number in evidence.
func (r *Registry) ByHandle(h uint32) (Instance, bool) {
	if x := r.handles[h]; x != nil {
		return *x, true
	}
	return Instance{}, false
}

// Of are a service's rows, by identity.
func (r *Registry) Of(service string) []Instance {
	out := make([]Instance, 0, len(r.services[service]))
	for _, x := range r.services[service] {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Only reports whether a service has rows, all of them of one source. It takes
// no copies, and ends at the first row of another source.
func (r *Registry) Only(service string, source Source) bool {
	for _, x := range r.services[service] {
		if x.Source != source {
			return false
		}
	}
	return len(r.services[service]) > 0
}

// Services names every service that has rows, sorted.
func (r *Registry) Services() []string { return slices.Sorted(maps.Keys(r.services)) }

// Next is the handle that the next new row is given.
func (r *Registry) Next() uint32 { return r.next }

// Len is the number of rows.
func (r *Registry) Len() int { return len(r.rows) }

// Put enters a row, or replaces one of the same identity. A row keeps its
// handle, and that it was ever ready; a row that never had a handle is given
// one. It reports whether anything changed.
func (r *Registry) Put(x Instance) (Instance, bool) {
	was := r.rows[x.ID]
	switch {
	case was != nil:
		x.Handle, x.EverReady = was.Handle, x.EverReady || was.EverReady
		if *was == x {
			return x, false
		}
		if was.Service != x.Service { // an identity never moves; the new word wins
			r.Remove(x.ID)
		}
	case x.Handle == 0:
		x.Handle, r.next = r.next, r.next+1
	default:
		r.next = max(r.next, x.Handle+1)
	}
	row := &x
	r.rows[x.ID], r.handles[x.Handle] = row, row
	if r.services[x.Service] == nil {
		r.services[x.Service] = map[string]*Instance{}
	}
	r.services[x.Service][x.ID] = row
	return x, true
}

// Remove forgets a row. Its identity and its handle are not used again.
func (r *Registry) Remove(id string) {
	x := r.rows[id]
	if x == nil {
		return
	}
	delete(r.rows, id)
	delete(r.handles, x.Handle)
	delete(r.services[x.Service], id)
	if len(r.services[x.Service]) == 0 {
		delete(r.services, x.Service)
	}
}
