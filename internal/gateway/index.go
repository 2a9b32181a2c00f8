package gateway

import (
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
)

// index is a table made ready for look-ups. It is immutable.
type index struct {
	version  view.Version
	hosts    map[string]target   // :: clean host name → where it leads
	services map[string]*service // :: service name → service
	// known are the host names that lead to a live service, sorted, without tags.
	known []string
}

// target is where a host name leads.
type target struct {
	svc *service
	tag string
}

// service is one route made ready.
type service struct {
	name    string
	deleted bool
	chooser *lease.Chooser
	splits  []view.Split
	shards  []*shard // of each split
	limits  view.Limits
	meter   *meter
}

func (s *service) firstByte() time.Duration {
	if s.limits.FirstByte > 0 {
		return s.limits.FirstByte
	}
	return view.DefaultFirstByte
}

// buildIndex indexes a table. Where two claim one name, a live service comes
// before a deleted one, a service's own NAME.localhost before a declared host,
// and of two declared the older route.
func buildIndex(t *view.Table, ready func(view.Route) *service) *index {
	ix := &index{version: t.Version, hosts: map[string]target{}, services: map[string]*service{}}
	routes := t.Routes()
	slices.SortStableFunc(routes, func(a, b view.Route) int {
		switch {
		case a.Deleted != b.Deleted && b.Deleted:
			return -1
		case a.Deleted != b.Deleted:
			return 1
		case a.Sequence < b.Sequence:
			return -1
		case a.Sequence > b.Sequence:
			return 1
		}
		return strings.Compare(a.Service, b.Service)
	})
	for _, r := range routes {
		ix.services[r.Service] = ready(r)
	}
	for _, r := range routes {
		if !r.Deleted {
			ix.claim(r, r.Service+localSuffix)
		}
	}
	for _, r := range routes {
		for _, h := range r.Hosts {
			ix.claim(r, h)
		}
		if r.Deleted {
			ix.claim(r, r.Service+localSuffix)
		}
	}
	slices.Sort(ix.known)
	return ix
}

func (ix *index) claim(r view.Route, host string) {
	if _, taken := ix.hosts[host]; taken {
		return
	}
	svc := ix.services[r.Service]
	ix.hosts[host] = target{svc: svc}
	if r.Deleted {
		return
	}
	ix.known = append(ix.known, host)
	for _, s := range r.Splits {
		if s.Tag != "" {
			ix.hosts[s.Tag+tagMark+host] = target{svc: svc, tag: s.Tag}
		}
	}
}

// find says where a Host header leads.
func (ix *index) find(host string) (target, bool) {
	t, ok := ix.hosts[cleanHost(host)]
	return t, ok
}
