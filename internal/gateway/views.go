package gateway

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
)

// see has a service's instances chosen by a view: when it returns, no lease is
// granted by an earlier one. What the table does not allow is not leased,
// whatever the view says.
func (rm *room) see(v *view.Service) {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	rm.views[v.Name] = v
	for k, sh := range rm.shards {
		if k.Service == v.Name {
			sh.mu.Lock()
			sh.obey(sh.q.Consider(lease.StandingsOf(v, k.Group, rm.zone)), nil)
			sh.mu.Unlock()
		}
	}
}

// wantLocked has the views of a table's services held.
func (rm *room) wantLocked(ix *index) {
	if rm.holder == nil {
		return
	}
	names := make([]string, 0, len(ix.services))
	for name, s := range ix.services {
		if !s.deleted {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if rm.wanted != nil && slices.Equal(names, rm.wanted) {
		return
	}
	rm.wanted = names
	rm.holder.Want(names)
	for name := range rm.views {
		if _, found := slices.BinarySearch(names, name); !found {
			delete(rm.views, name)
		}
	}
}

// relent has requests that have waited for long answered by whoever can.
func (rm *room) relent(now time.Duration) {
	rm.mu.Lock()
	shards := make([]*shard, 0, len(rm.shards))
	for _, sh := range rm.shards {
		shards = append(shards, sh)
	}
	rm.mu.Unlock()
	for _, sh := range shards {
		sh.mu.Lock()
		sh.obey(sh.q.Relent(now), nil)
		sh.mu.Unlock()
	}
}

// inForce are the views that instances are chosen by, by name and version alone.
func (rm *room) inForce() []view.Service {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	out := make([]view.Service, 0, len(rm.views))
	for _, v := range rm.views {
		out = append(out, view.Service{Name: v.Name, Version: v.Version})
	}
	return out
}
