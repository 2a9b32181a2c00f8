package gateway

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/lease"
)

// host is one host as the gateway knows it, connected or not. A stream that
// breaks is silence, not death: its instances and their credits stay.
type host struct {
	name string
	box  atomic.Pointer[outbox] // of the present stream; nil while there is none

	mu      sync.Mutex
	offered map[string]bool // :: instance → offered on the present stream
}

// tell passes a command on to the host. Without a stream it is dropped: the
// next one begins with what is held.
func (h *host) tell(c *lease.Command) {
	if box := h.box.Load(); box != nil {
		box.command(c)
	}
}

// polled are the hosts whose streams are open, in order.
func (rm *room) polled() []string {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	var out []string
	for name, h := range rm.hosts {
		if h.box.Load() != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (rm *room) host(name string) *host {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	h := rm.hosts[name]
	if h == nil {
		h = &host{name: name}
		rm.hosts[name] = h
	}
	return h
}

// attach makes a new stream the host's present one. Its outbox begins with the
// welcome, which says exactly what is held: what is given back from here on is
// told after it, and nothing is told twice.
func (rm *room) attach(name string, welcome *pb.PollWelcome) (*host, *outbox) {
	box, h := newOutbox(), rm.host(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	rm.mu.Lock()
	defer rm.mu.Unlock()
	h.offered = map[string]bool{}
	old := h.box.Swap(box)
	if old != nil {
		close(old.replaced)
	}
	rm.listen(old, box)
	for id, m := range rm.members {
		if m.host != h {
			continue
		}
		m.shard.mu.Lock()
		welcome.Holdings = append(welcome.Holdings, &pb.Holding{Instance: id, Credits: int32(m.inst.Owned())})
		box.forget(id)
		m.shard.mu.Unlock()
	}
	for k, sh := range rm.shards {
		sh.mu.Lock()
		if n := sh.q.Told(); n > 0 {
			box.change(func() { box.demand[k.Group] = int32(n) })
		}
		sh.mu.Unlock()
	}
	box.change(func() { box.welcome = welcome })
	return h, box
}

// detach ends a stream, if it is still the present one.
func (rm *room) detach(h *host, box *outbox) {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	h.box.CompareAndSwap(box, nil)
	rm.listen(box, nil)
}

// listen replaces one of those who hear of demand.
func (rm *room) listen(old, now *outbox) {
	var boxes []*outbox
	if p := rm.boxes.Load(); p != nil {
		boxes = slices.Clone(*p)
	}
	boxes = slices.DeleteFunc(boxes, func(o *outbox) bool { return o == old })
	if now != nil {
		boxes = append(boxes, now)
	}
	rm.boxes.Store(&boxes)
}

// demand tells every connected host of a queue.
func (rm *room) demand(group string, n int) {
	if p := rm.boxes.Load(); p != nil {
		for _, box := range *p {
			box.change(func() { box.demand[group] = int32(n) })
		}
	}
}

// offer takes an instance and its credits in.
func (rm *room) offer(h *host, o *pb.InstanceOffer) error {
	key := lease.Key{Service: o.GetService(), Group: o.GetGroup()}
	if o.GetInstance() == "" || key.Service == "" || key.Group == "" || o.GetRevision() == "" || o.GetAddress() == "" {
		return fmt.Errorf("cannot take in instance %q of host %s: its offer is incomplete", o.GetInstance(), h.name)
	}
	rm.mu.Lock()
	defer rm.mu.Unlock()
	m := rm.members[o.GetInstance()]
	if m == nil {
		m = &member{shard: rm.shardLocked(key), pool: newPool(o.GetAddress()), host: h}
		rm.members[o.GetInstance()] = m
	} else if m.host != h || m.shard.key != key || m.inst.Revision != o.GetRevision() ||
		m.inst.Minted != o.GetMinted() || m.pool.address != o.GetAddress() {
		return fmt.Errorf("cannot take in instance %q of host %s: it is known otherwise", o.GetInstance(), h.name)
	}
	m.shard.mu.Lock()
	defer m.shard.mu.Unlock()
	in, cs := m.shard.q.Offer(o.GetInstance(), o.GetRevision(), o.GetMinted(), int(o.GetGrant()))
	if m.inst == nil {
		m.inst, in.Owner = in, m
	}
	m.shard.obey(cs, nil)
	return nil
}

// member finds an instance of a host.
func (rm *room) member(h *host, id string) *member {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	if m := rm.members[id]; m != nil && m.host == h {
		return m
	}
	return nil
}

// withdraw grants no lease on an instance any more. One that is not known has none.
func (rm *room) withdraw(h *host, id string) {
	m := rm.member(h, id)
	if m == nil {
		if box := h.box.Load(); box != nil {
			box.change(func() { box.withdrawn[id] = struct{}{} })
		}
		return
	}
	m.shard.mu.Lock()
	defer m.shard.mu.Unlock()
	m.shard.obey(m.shard.q.Terminate(id), nil)
}

func (rm *room) recall(h *host, id string, n int) {
	m := rm.member(h, id)
	if m == nil {
		return
	}
	m.shard.mu.Lock()
	defer m.shard.mu.Unlock()
	m.shard.obey(m.shard.q.Recall(id, n), nil)
}

// gone forgets an instance and closes its connections. The channel is closed
// when none is left.
func (rm *room) gone(h *host, id string) <-chan struct{} {
	rm.mu.Lock()
	m := rm.members[id]
	if m == nil || m.host != h {
		rm.mu.Unlock()
		none := make(chan struct{})
		close(none)
		return none
	}
	delete(rm.members, id)
	if r := m.seen.take(id); r != nil && len(rm.ended) < maxRows {
		rm.ended = append(rm.ended, r)
	}
	m.shard.mu.Lock()
	m.shard.obey(m.shard.q.Gone(id), nil)
	if m.shard.q.Idle() {
		delete(rm.shards, m.shard.key)
	}
	m.shard.mu.Unlock()
	rm.mu.Unlock()
	return m.pool.close()
}

// instancesOf a host that is not among those that keep says.
func (rm *room) instancesOf(h *host, keep map[string]bool) []string {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	var out []string
	for id, m := range rm.members {
		if m.host == h && !keep[id] {
			out = append(out, id)
		}
	}
	return out
}

// tidy closes connections that have been idle for too long.
func (rm *room) tidy() {
	rm.mu.Lock()
	pools := make([]*pool, 0, len(rm.members))
	for _, m := range rm.members {
		pools = append(pools, m.pool)
	}
	rm.mu.Unlock()
	for _, p := range pools {
		p.closeIdle(idleFor)
	}
}

// close ends every connection to every instance.
func (rm *room) close() {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	for _, m := range rm.members {
		<-m.pool.close()
	}
}
