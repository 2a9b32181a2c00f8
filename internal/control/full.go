package control

import (
	"cmp"
	"slices"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// fullHosts are the hosts that had no room for what was to be installed.
type fullHosts struct {
	mu  sync.Mutex
	why map[string]string // :: host → what it said
}

// withRefusals has hosts take no instance that refused one for want of room.
func (j *job) withRefusals(w *service.World) *service.World {
	j.full.mu.Lock()
	defer j.full.mu.Unlock()
	for name, why := range j.full.why {
		h := w.Hosts[name]
		h.Refuses = cmp.Or(h.Refuses, why)
		w.Hosts[name] = h
	}
	return w
}

// refuses notes that a host has no room.
func (j *job) refuses(host string, err error) {
	j.full.mu.Lock()
	defer j.full.mu.Unlock()
	if j.full.why == nil {
		j.full.why = map[string]string{}
	}
	j.full.why[host] = err.Error()
}

// refused says that a host of one of the slots has no room, so that another is to be tried.
func (j *job) refused(rev service.Revision) bool {
	j.full.mu.Lock()
	defer j.full.mu.Unlock()
	return slices.ContainsFunc(rev.Slots, func(s service.Slot) bool { return j.full.why[s.Host] != "" })
}
