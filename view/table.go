package view

import (
	"maps"
	"slices"
	"strings"
)

// Table is the route table: the fold of all published routes. A Table is
// immutable once built; Apply makes a new one and shares what did not change.
type Table struct {
	Version Version
	// Epoch of the leader that sent it; its nonce is kept so that two leaders
	// of one number are told apart.
	Epoch  Epoch
	Digest Digest
	// Floor is the counter under which tombstones may be missing: a delta by
	// sequence from below it would forget that a service ended. Zero means
	// that none was ever dropped.
	Floor uint64

	shards [shardCount]*shard // nil where empty
	count  int
}

// A change copies one shard of the table and the list of shards, so that its
// cost hardly grows with the number of services.
const shardCount = 256

// shard is never changed once its table is built; tables share it.
type shard struct {
	entries map[string]*entry // :: service name → route, tombstones included
}

func (s *shard) get(service string) *entry {
	if s == nil {
		return nil
	}
	return s.entries[service]
}

func (s *shard) all() map[string]*entry {
	if s == nil {
		return nil
	}
	return s.entries
}

// entry is shared between tables and never changed.
type entry struct {
	route  Route
	digest Digest
}

// NewTable folds routes into a table. A later route of a service replaces an
// earlier one. The routes' slices must not be changed afterwards.
func NewTable(v Version, e Epoch, routes []Route) *Table {
	b := edit(nil)
	for _, r := range routes {
		b.put(&entry{route: r, digest: DigestOf(r)})
	}
	return b.done(v, e)
}

// Route returns one service's route; a tombstone is returned with Deleted set.
func (t *Table) Route(service string) (Route, bool) {
	if e := t.entry(service); e != nil {
		return e.route, true
	}
	return Route{}, false
}

func (t *Table) entry(service string) *entry {
	if t == nil {
		return nil
	}
	return t.shards[shardOf(service)].get(service)
}

// Routes returns all routes, tombstones included, ordered by service.
func (t *Table) Routes() []Route {
	if t == nil {
		return nil
	}
	out := make([]Route, 0, t.count)
	for i := range t.shards {
		for _, e := range t.shards[i].all() {
			out = append(out, e.route)
		}
	}
	slices.SortFunc(out, byService)
	return out
}

func byService(a, b Route) int { return strings.Compare(a.Service, b.Service) }

// Len counts the routes, tombstones included.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return t.count
}

// shardOf is FNV-1a, folded to one byte.
func shardOf(service string) int {
	h := uint32(2166136261)
	for i := range len(service) {
		h = (h ^ uint32(service[i])) * 16777619
	}
	return int((h ^ h>>8 ^ h>>16 ^ h>>24) % shardCount)
}

// editor builds a table from an earlier one; it copies a shard when it first changes it.
type editor struct {
	t     Table
	owned [shardCount]bool
}

func edit(from *Table) *editor {
	b := &editor{}
	if from != nil {
		b.t = *from
	}
	return b
}

// own returns the entries of a shard that may be changed.
func (b *editor) own(i int) map[string]*entry {
	if !b.owned[i] {
		b.owned[i] = true
		entries := maps.Clone(b.t.shards[i].all())
		if entries == nil {
			entries = map[string]*entry{}
		}
		b.t.shards[i] = &shard{entries: entries}
	}
	return b.t.shards[i].entries
}

func (b *editor) put(e *entry) {
	i := shardOf(e.route.Service)
	old := b.t.shards[i].get(e.route.Service)
	if old != nil && old.digest == e.digest {
		return
	}
	b.own(i)[e.route.Service] = e
	b.t.Digest = b.t.Digest.add(e.digest)
	if old == nil {
		b.t.count++
		return
	}
	b.t.Digest = b.t.Digest.sub(old.digest)
}

func (b *editor) drop(service string) {
	i := shardOf(service)
	old := b.t.shards[i].get(service)
	if old == nil {
		return
	}
	delete(b.own(i), service)
	b.t.Digest = b.t.Digest.sub(old.digest)
	b.t.count--
}

func (b *editor) done(v Version, e Epoch) *Table {
	b.t.Version, b.t.Epoch = v, e
	return &b.t
}
