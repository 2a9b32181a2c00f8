// Package view is the pure half of everything below the assembler: a view, its
// versions, its deltas, its digest, and the guards that a client keeps. It has
// no clock, no I/O and no goroutine, and imports the standard library only.
// The first view is the route table that gateways hold; read [Table] first.
package view

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Table is the route table: the fold of all published routes. A Table is
// immutable once built; Apply makes a new one and shares what did not change.
type Table struct {
	Version Version
	// Epoch of the leader that sent it; its nonce is kept so that two leaders
	// of one number are told apart.
	Epoch  Epoch
	Digest Digest
	routes map[string]Route // :: service name → route, tombstones included
}

// Digest is the sum of the digests of a table's routes, so that it can be kept
// up to date by what changed. Two tables of one content have one digest.
type Digest [2]uint64

func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d[0], d[1]) }

func (d Digest) add(o Digest) Digest { return Digest{d[0] + o[0], d[1] + o[1]} }
func (d Digest) sub(o Digest) Digest { return Digest{d[0] - o[0], d[1] - o[1]} }

// DigestOf is the digest of one route.
func DigestOf(r Route) Digest {
	b, err := json.Marshal(r)
	if err != nil { // a Route holds nothing that JSON cannot say
		panic("view: cannot encode a route: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return Digest{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// NewTable folds routes into a table. A later route of a service replaces an earlier one.
func NewTable(v Version, e Epoch, routes []Route) *Table {
	t := &Table{Version: v, Epoch: e, routes: make(map[string]Route, len(routes))}
	for _, r := range routes {
		t.put(r)
	}
	return t
}

func (t *Table) put(r Route) {
	if old, ok := t.routes[r.Service]; ok {
		t.Digest = t.Digest.sub(DigestOf(old))
	}
	t.routes[r.Service] = r
	t.Digest = t.Digest.add(DigestOf(r))
}

func (t *Table) drop(service string) {
	if old, ok := t.routes[service]; ok {
		t.Digest = t.Digest.sub(DigestOf(old))
		delete(t.routes, service)
	}
}

// Route returns one service's route; a tombstone is returned with Deleted set.
func (t *Table) Route(service string) (Route, bool) {
	if t == nil {
		return Route{}, false
	}
	r, ok := t.routes[service]
	return r, ok
}

// Routes returns all routes, tombstones included, ordered by service.
func (t *Table) Routes() []Route {
	if t == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.routes), func(a, b Route) int {
		switch {
		case a.Service < b.Service:
			return -1
		case a.Service > b.Service:
			return 1
		}
		return 0
	})
}

// Len counts the routes, tombstones included.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.routes)
}

// Delta leads from one version of the table to another.
type Delta struct {
	// Base is the version that the delta starts from; zero means from nothing (a full table).
	Base Version
	To   Version
	// Epoch of the sender.
	Epoch Epoch
	// Changed routes, tombstones included.
	Changed []Route
	// Dropped services: whose tombstones every known gateway has kept.
	Dropped []string
	// Digest of the table that results.
	Digest Digest
}

// Full says that the delta replaces all that is held.
func (d Delta) Full() bool { return d.Base.Zero() }
