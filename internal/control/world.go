package control

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// clocks hold since when the leader has seen things, by its own monotonic
// clock. A new term begins them again.
type clocks struct {
	mu           sync.Mutex
	waiting      map[string]waited    // :: saga identity → its wait
	unreferenced map[string]time.Time // :: revision → since when nothing refers to it
	ends         map[string]ends      // :: service.StrayKey of a slot → what the history tells of it
	polls        map[string]polled    // :: host name → who last said that it polls
}

// polled is the last word of a gateway that a host polls it.
type polled struct {
	gateway string
	at      time.Time
}

// ends of a slot's processes that happened by themselves.
type ends struct {
	told int
	at   time.Time // of the last telling; zero means none
}

type waited struct {
	attempt int32
	undo    bool      // what it did is to be undone
	retryAt time.Time // as recorded: another one is another wait
	until   time.Time
}

func newClocks() clocks {
	return clocks{waiting: map[string]waited{}, unreferenced: map[string]time.Time{}, ends: map[string]ends{}, polls: map[string]polled{}}
}

// due says that a saga has waited its back-off since the leader first saw it wait.
func (c *clocks) due(r saga.Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.waiting[r.ID]
	if !ok || w.attempt != r.Attempt || !w.retryAt.Equal(r.RetryAt) {
		c.waiting[r.ID] = waited{attempt: r.Attempt, undo: r.State == saga.Compensating, retryAt: r.RetryAt, until: time.Now().Add(r.Backoff)}
		return r.Backoff == 0
	}
	return !time.Now().Before(w.until)
}

// until is when a saga that waits is due, as due has seen it; zero where it has not.
func (c *clocks) until(id string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[id].until
}

// hurry ends the waits of what is to be undone.
func (c *clocks) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.waiting {
		if w.undo {
			w.until = time.Now()
			c.waiting[id] = w
		}
	}
}

func (c *clocks) unreferencedFor(revision string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.unreferenced[revision]
	if !ok {
		c.unreferenced[revision] = time.Now()
		return 0
	}
	return time.Since(since)
}

// Strays and what is warm are kept under names that no revision can have.
const (
	strayPrefix = "stray "
	warmPrefix  = "warm "
)

// strayFor is for how long nobody has been seen to ask for a life of a slot.
// One that somebody asks for again begins anew by forgetting, see forget.
func (c *clocks) strayFor(key string) time.Duration {
	return c.unreferencedFor(strayPrefix + key)
}

// warmFor is for how long a revision has been seen to be kept warm.
func (c *clocks) warmFor(revision string) time.Duration {
	return c.unreferencedFor(warmPrefix + revision)
}

// untold says how many of all the ends in a slot are to be told of now. What a
// leader finds when it begins was told by the one before.
func (c *clocks) untold(key string, all int, begins bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.ends[key]
	switch {
	case !known && begins:
		c.ends[key] = ends{told: all}
		return 0
	case all < e.told: // counted anew, as for another round
		e = ends{at: e.at}
		c.ends[key] = e
	}
	if !e.at.IsZero() && time.Since(e.at) < service.EndsEvery {
		return 0
	}
	return all - e.told
}

func (c *clocks) tell(key string, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[key] = ends{told: all, at: time.Now()}
}

// polling says which hosts poll a gateway, by the word of those that are heard.
// A word stands for pollsFor, so that a gateway that starts anew, or follows
// anew, takes nothing back before its hosts have found it again.
func (c *clocks) polling(gateways []service.KnownGateway) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for host, gateway := range service.Polls(gateways) {
		c.polls[host] = polled{gateway: gateway, at: now}
	}
	out := map[string]string{}
	for host, p := range c.polls {
		if now.Sub(p.at) < pollsFor {
			out[host] = p.gateway
		} else {
			delete(c.polls, host)
		}
	}
	return out
}

// see ends what a snapshot says has ended.
func (c *clocks) see(s *service.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range s.Revisions {
		for _, slot := range r.Value.Slots {
			delete(c.unreferenced, strayPrefix+service.StrayKey(slot.ID, r.Value.Minted))
			delete(c.unreferenced, strayPrefix+service.StrayKey(slot.ID, ""))
		}
		if s.Catalog.Value.Warm != r.Value.Name {
			delete(c.unreferenced, warmPrefix+r.Value.Name)
		}
		if s.KeptBy(r.Value) != "" || r.Value.State == service.RevisionRetired && len(r.Value.Slots)+len(r.Value.Leaving) == 0 {
			delete(c.unreferenced, r.Value.Name)
		}
	}
	for _, r := range s.Sagas {
		if !r.Value.Open() {
			delete(c.waiting, r.Value.ID)
		}
	}
}

// forget ends the clocks of revisions and sagas that are no more.
func (c *clocks) forget(revision, record func(name string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.unreferenced {
		slot, stray := strings.CutPrefix(name, strayPrefix)
		if stray { // long enough for its host to have ended it, after which nobody asks
			if time.Since(c.unreferenced[name]) > absenceRule {
				delete(c.unreferenced, strayPrefix+slot)
			}
		} else if !revision(strings.TrimPrefix(name, warmPrefix)) {
			delete(c.unreferenced, name)
		}
	}
	for k := range c.ends {
		slot, _, _ := strings.Cut(k, " ")
		if !revision(slot[:max(strings.LastIndexByte(slot, '.'), 0)]) {
			delete(c.ends, k)
		}
	}
	for id := range c.waiting {
		if !record(id) {
			delete(c.waiting, id)
		}
	}
}

// world is what is seen beside the store now.
func (t *term) world() *service.World {
	sequence, _ := t.mirror.reached()
	w := &service.World{
		Hosts:        map[string]service.HostState{},
		Instances:    map[string][]service.Instance{},
		Of:           map[string][]service.Instance{},
		Gone:         map[string]bool{},
		Load:         map[string]int{},
		Gateways:     t.gateways(),
		Incarnation:  t.led.Epoch().Incarnation,
		Sequence:     sequence,
		Due:          t.clocks.due,
		Parked:       t.parked,
		Unreferenced: t.clocks.unreferencedFor,
		Stray:        t.clocks.strayFor,
		Retired:      t.mirror.retired,
		MayPick:      t.c.cfg.Callers.MayPick,
		Draining:     t.mirror.draining(),
		Ends:         func(key string, all int) int { return t.clocks.untold(key, all, time.Since(t.began) < reportWait) },
		Cooled:       func(revision string) bool { return t.clocks.warmFor(revision) >= t.c.cfg.Warm },
	}
	w.Out = func(service, instance string) bool {
		v := t.c.cfg.Verdicts.Of(service, instance)
		return v.Before && !v.Ready
	}
	w.Doubts = func(service, instance string) bool {
		v := t.c.cfg.Verdicts.Of(service, instance)
		return !v.Ready || v.Unseen
	}
	poor := sync.OnceValue(w.PoorHosts)
	w.Poor = func(host string) string { return poor()[host] }
	w.Polls = t.clocks.polling(w.Gateways)
	if leading := time.Since(t.began); leading >= hostGone {
		for _, name := range t.mirror.hostNames() {
			w.Gone[name] = w.Polls[name] == "" // unless it was heard
		}
	}
	for _, h := range t.c.cfg.Hosts.States() {
		w.Hosts[h.Name] = h
		w.Gone[h.Name] = min(h.Silent, time.Since(t.began)) >= hostGone && w.Polls[h.Name] == ""
		w.Load[h.Name] = len(h.Instances)
		for _, i := range h.Instances {
			w.Instances[i.Slot] = append(w.Instances[i.Slot], i)
			w.Of[i.Service] = append(w.Of[i.Service], i)
		}
	}
	return w
}

// gateways known to the store, with what is seen of them now.
func (t *term) gateways() []service.KnownGateway {
	docs := t.mirror.members()
	members := make([]service.Gateway, len(docs))
	for i, d := range docs {
		members[i] = d.Value
	}
	return service.Known(members, t.c.cfg.Gateways.States(), time.Since(t.began))
}

// parked says why this program cannot drive a saga; empty when it can.
func (t *term) parked(r saga.Record) string {
	d, ok := (&job{term: t, service: r.Owner}).definition(r.Kind)
	if !ok {
		return fmt.Sprintf("saga %s is of kind %q, which this program does not know: it is for a newer one", r.ID, r.Kind)
	}
	if r.State == saga.Parked {
		return fmt.Sprintf("saga %s is parked: %s", r.ID, r.Error)
	}
	if _, err := d.Adopt(r); err != nil {
		return err.Error() + "; run a program that knows it, or remove the record"
	}
	return ""
}
