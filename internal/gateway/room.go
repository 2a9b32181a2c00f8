package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
)

// room is the shell around the waiting rooms: one lock for each group, and one
// for what moves between them. Lock order: a host's,
// mu, a shard's, an outbox's.
type room struct {
	mu      sync.Mutex
	shards  map[lease.Key]*shard
	members map[string]*member       // :: instance → member
	ended   []*pb.OutcomeRow         // of instances that are gone since outcomes were taken last
	hosts   map[string]*host         // :: host name → host
	views   map[string]*view.Service // :: service → what its instances are chosen by
	wanted  []string                 // services whose views are held
	holder  Views                    // of them; may be nil
	zone    string                   // whose instances are preferred; empty prefers none

	index atomic.Pointer[index]
	boxes atomic.Pointer[[]*outbox] // of the connected hosts; replaced, never changed
	meter func(service string) *meter
}

// shard is one group's waiting room and its lock.
type shard struct {
	key lease.Key
	mu  sync.Mutex
	q   *lease.Queue
	// answers counts those that began to come, of any of its instances.
	answers atomic.Uint64
	// room is told of demand.
	room *room
}

// member is one instance as the gateway holds it.
type member struct {
	inst  *lease.Instance
	shard *shard
	pool  *pool
	host  *host
	seen  seen
	// silence since it was heard last.
	silence silence
}

// ticket is a request's place, and the answer that it got.
type ticket struct {
	lease.Request
	ready   chan struct{} // of one; sent to when the answer came to who waits
	verdict lease.Verb
	reason  lease.Reason
	inst    *lease.Instance
	rules   *lease.Rules
}

func newRoom(meter func(string) *meter, holder Views, zone string) *room {
	return &room{
		shards: map[lease.Key]*shard{}, members: map[string]*member{},
		hosts: map[string]*host{}, views: map[string]*view.Service{}, holder: holder, zone: zone, meter: meter,
	}
}

// apply puts a table in force: when it returns, no lease is granted under an
// earlier one.
func (rm *room) apply(t *view.Table) {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	rm.applyLocked(t)
}

// begin puts the table that was held at the start in force, unless a later one is.
func (rm *room) begin(t *view.Table) {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	if rm.index.Load() == nil {
		rm.applyLocked(t)
	}
}

func (rm *room) applyLocked(t *view.Table) {
	if t == nil {
		return
	}
	rules := map[*shard]*lease.Rules{}
	ix := buildIndex(t, func(r view.Route) *service {
		s := &service{
			name: r.Service, deleted: r.Deleted, splits: r.Splits, limits: r.Limits,
			chooser: lease.NewChooser(r.Splits), meter: rm.meter(r.Service),
		}
		of := lease.RulesOf(t.Version, r)
		for _, sp := range r.Splits {
			sh := rm.shardLocked(lease.Key{Service: r.Service, Group: sp.Group})
			s.shards = append(s.shards, sh)
			rules[sh] = of[sp.Group]
		}
		return s
	})
	for _, sh := range rm.shards {
		sh.mu.Lock()
		sh.obey(sh.q.Govern(rules[sh]), nil)
		sh.mu.Unlock()
	}
	rm.index.Store(ix)
	rm.collectLocked()
	rm.wantLocked(ix)
}

// settled waits for a change of table that is under way.
func (rm *room) settled() {
	rm.mu.Lock()
	defer rm.mu.Unlock()
}

func (rm *room) shardLocked(k lease.Key) *shard {
	sh := rm.shards[k]
	if sh == nil {
		sh = &shard{key: k, q: lease.NewQueue(), room: rm}
		sh.q.Consider(lease.StandingsOf(rm.views[k.Service], k.Group, rm.zone))
		rm.shards[k] = sh
	}
	return sh
}

// collectLocked forgets the groups that nobody uses. A request that still holds
// one finds that no table leads there, and chooses again.
func (rm *room) collectLocked() {
	for k, sh := range rm.shards {
		sh.mu.Lock()
		if sh.q.Idle() {
			delete(rm.shards, k)
		}
		sh.mu.Unlock()
	}
}

// waiting counts what waits, by service.
func (rm *room) waiting() map[string]int {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	out := map[string]int{}
	for k, sh := range rm.shards {
		sh.mu.Lock()
		if n := sh.q.Waiting(); n > 0 {
			out[k.Service] += n
		}
		sh.mu.Unlock()
	}
	return out
}

// obey carries out what the queue asks; the shard is locked. It says whether
// self was answered; others are woken.
func (sh *shard) obey(cs []lease.Command, self *ticket) (answered bool) {
	for i := range cs {
		c := &cs[i]
		switch c.Verb {
		case lease.Grant, lease.Reject, lease.Displace:
			t := c.Request.Owner.(*ticket)
			t.verdict, t.reason, t.inst, t.rules = c.Verb, c.Reason, c.Instance, c.Rules
			if t == self {
				answered = true
			} else {
				t.ready <- struct{}{}
			}
		case lease.Demand:
			sh.room.demand(sh.key.Group, c.N)
		case lease.Close: // by who brought the news, without the lock
		default:
			c.Instance.Owner.(*member).host.tell(c)
		}
	}
	return answered
}

// enter lets a request in. It says whether the answer is there.
func (sh *shard) enter(t *ticket, now time.Duration, again bool) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if again {
		return sh.obey(sh.q.Rejoin(&t.Request, now), t)
	}
	return sh.obey(sh.q.Arrive(&t.Request, now), t)
}

// leave takes a request out of the queue; false means that it was answered.
func (sh *shard) leave(t *ticket) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	waited, cs := sh.q.Leave(&t.Request)
	sh.obey(cs, nil)
	return waited
}

// expire answers a request whose deadline has passed, if nothing else has.
func (sh *shard) expire(t *ticket, now time.Duration) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.obey(sh.q.Expire(&t.Request, now), t)
}

// end gives a lease up; its exchange is closed.
func (m *member) end() {
	m.shard.mu.Lock()
	m.shard.obey(m.shard.q.End(m.inst), nil)
	m.shard.mu.Unlock()
}

// refused gives up a lease whose connection was refused.
func (m *member) refused() {
	m.shard.mu.Lock()
	m.shard.obey(m.shard.q.Refused(m.inst), nil)
	m.shard.mu.Unlock()
	m.pool.closeIdle(0)
}
