package host

import (
	"context"
	"net/netip"
	"os"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// A gateway that is silent may lease, and have no connection open when one looks:
// what it owns stays its own. One on this machine tells which process it is, and
// the host holds that, so that its end is seen for sure. What the process owned
// returns when the instance has closed what was open to it.

// Looks at the connections of instances whose credits a process left.
const (
	reclaimFirst = 50 * time.Millisecond // growing
	reclaimMost  = 2 * time.Second
)

// holdGateway takes hold of the process that a gateway is; nil when it is none
// that can be seen from here. Whichever process has the number, the gateway's
// has ended when that has.
func (h *Host) holdGateway(p *pb.GatewayProcess) *handle {
	if p.GetPid() <= 0 || p.GetBoot() != h.boot || p.GetNamespace() == "" || p.GetNamespace() != pidNamespace() {
		return nil
	}
	held, err := hold(int(p.GetPid()), 0)
	if err != nil {
		h.log.Debug("the process of a gateway cannot be held", "pid", p.GetPid(), "error", err)
		return nil
	}
	return held
}

// pidNamespace in which the numbers of processes count here; empty when it
// cannot be told.
func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// watchGatewayLocked has a gateway's process waited for, in place of an earlier one.
func (h *Host) watchGatewayLocked(name string, p *handle) {
	h.letGatewayGoLocked(name)
	if p == nil {
		return
	}
	h.processes[name] = p
	h.life.Go(func() { h.awaitGateway(name, p) })
}

func (h *Host) letGatewayGoLocked(name string) {
	if old := h.processes[name]; old != nil {
		old.close()
		delete(h.processes, name)
	}
}

// awaitGateway returns what a process owned, once it has ended.
func (h *Host) awaitGateway(name string, p *handle) {
	letGo := context.AfterFunc(h.ctx, p.close)
	err := p.wait()
	if !letGo() || err != nil {
		return // another one took its place, or the host ends
	}
	h.log.Warn("the process of a gateway has ended; its credits return", "gateway", name, "pid", p.pid)
	for wait := reclaimFirst; h.reclaim(name, p); wait = min(2*wait, reclaimMost) {
		if !sleep(h.ctx, wait) {
			return
		}
	}
	p.close()
}

// reclaim returns what a process that has ended owned of each instance that has
// closed its end of all connections which were closed from afar. It says whether
// there is more.
func (h *Host) reclaim(name string, p *handle) (more bool) {
	open := map[string]bool{} // :: instance → has such a connection
	for id, addr := range h.ownedBy(name, p) {
		open[id] = halfClosed(addr)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.processes[name] != p {
		return false
	}
	for id, busy := range open {
		if busy {
			more = true
			continue
		}
		h.sendLocked(h.ledger.ended(name, id))
		if in := h.instances[id]; in != nil {
			h.touchLocked(in)
			in.stirLocked()
		}
	}
	return more
}

// ownedBy are the addresses of the instances of which a process that has ended
// owned something, :: instance → address. Its stream says nothing any more.
func (h *Host) ownedBy(name string, p *handle) map[string]netip.AddrPort {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.processes[name] != p {
		return nil
	}
	h.ledger.disconnect(name)
	out := map[string]netip.AddrPort{}
	for id, in := range h.instances {
		if h.ledger.has(name, id) {
			out[id] = in.addr
		}
	}
	return out
}

// touchAllLocked has the leader told anew of everything that runs.
func (h *Host) touchAllLocked() {
	for _, in := range h.instances {
		if in.runs() {
			h.touchLocked(in)
		}
	}
}
