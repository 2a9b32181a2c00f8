package host

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// beginRetireLocked withdraws an instance: no credit is granted any more, and
// every gateway is told.
func (h *Host) beginRetireLocked(in *instance) {
	in.retiring, in.state = true, service.InstanceDraining
	h.retired++
	in.retired = h.retired
	if !in.deaf {
		in.detail = ""
	}
	in.liveSince = time.Time{}
	h.ledger.withdraw(in.rec.ID)
	h.touchLocked(in)
}

// retire ends an instance in the order that loses no request: withdrawn at
// every gateway, drained, terminated, killed.
func (h *Host) retire(in *instance, drain time.Duration, why string) {
	begun := time.Now()
	h.log.Info("instance is withdrawn", "instance", in.rec.ID, "slot", in.slot(), "drain", drain, "why", why)
	h.mu.Lock()
	for _, l := range h.links {
		l.out.terminate(in.rec.ID, drain)
	}
	h.mu.Unlock()
	if !h.until(in, begun.Add(h.cfg.Timing.Withdraw), h.isWithdrawnLocked) {
		h.log.Warn("not every gateway acknowledged a withdrawal", "instance", in.rec.ID, "waited", time.Since(begun))
	}
	if !h.drained(in, begun.Add(drain)) {
		h.log.Warn("drain time has passed with leases held", "instance", in.rec.ID, "drain", drain)
	}
	if h.ctx.Err() != nil {
		return // the host lets go; the next one retires it again
	}
	h.trackKin()
	if err := in.signalLeader(unix.SIGTERM); err != nil && !isClosed(in.gone) {
		h.log.Error("cannot terminate an instance", "instance", in.rec.ID, "error", err)
	}
	if h.until(in, time.Now().Add(h.cfg.Timing.Kill), neverLocked) || isClosed(in.gone) || h.ctx.Err() != nil {
		return
	}
	if err := in.signalLeader(unix.SIGKILL); err != nil && !isClosed(in.gone) {
		h.log.Error("cannot kill an instance", "instance", in.rec.ID, "error", err)
	}
}

// drained waits until all credits are back, or those that are not belong to
// gateways whose streams are down and who have no connection to the instance:
// a dead gateway holds no lease.
func (h *Host) drained(in *instance, deadline time.Time) bool {
	for {
		turn := time.Now().Add(h.cfg.Timing.Look)
		if turn.After(deadline) {
			turn = deadline
		}
		if h.until(in, turn, h.isDrainedLocked) {
			return true
		}
		if h.onlySilentHold(in) && !connected(in.addr) {
			h.log.Info("silent gateways hold credits but no connection", "instance", in.rec.ID)
			return true
		}
		if h.crowdedOut(in) {
			h.log.Warn("drains no longer, since later revisions drain as well", "instance", in.rec.ID, "revisions", maxDrained)
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}

// maxDrained revisions of a service live on for what is open, such as upgraded
// connections, until their drain time has passed; of more the oldest ends.
const maxDrained = 5

// crowdedOut reports whether as many revisions as may live on were withdrawn
// after the instance's own.
func (h *Host) crowdedOut(in *instance) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	later := map[string]bool{} // :: revision that drains, and was withdrawn later
	for _, s := range h.slots {
		for _, other := range s.instances {
			of := other.rec.Assignment
			if of.Service == in.rec.Assignment.Service && of.Revision != in.rec.Assignment.Revision && other.retired > in.retired && !isClosed(other.gone) {
				later[of.Revision] = true
			}
		}
	}
	return len(later) >= maxDrained
}

func (h *Host) onlySilentHold(in *instance) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range h.ledger.holders(in.rec.ID) {
		if l := h.links[name]; l != nil && l.connected {
			return false
		}
	}
	return true
}

// until waits for a condition, for the instance's end or the host's, or until
// the deadline; false means the last.
func (h *Host) until(in *instance, deadline time.Time, ok func(*instance) bool) bool {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	for {
		h.mu.Lock()
		done, changed := ok(in), in.changed
		h.mu.Unlock()
		if done || isClosed(in.gone) || h.ctx.Err() != nil {
			return true
		}
		select {
		case <-changed:
		case <-in.gone:
		case <-h.ctx.Done():
		case <-t.C:
			return false
		}
	}
}

func neverLocked(*instance) bool { return false }

// isWithdrawnLocked: every gateway that is connected, or may hold credits,
// has acknowledged that it grants no further lease.
func (h *Host) isWithdrawnLocked(in *instance) bool {
	if !in.wasLive {
		return true
	}
	for name, l := range h.links {
		if l.connected && !in.withdrawn[name] {
			return false
		}
	}
	for _, name := range h.ledger.holders(in.rec.ID) {
		if !in.withdrawn[name] {
			return false
		}
	}
	return true
}

// isDrainedLocked: no gateway holds a lease, since all credits are back.
func (h *Host) isDrainedLocked(in *instance) bool { return h.ledger.held(in.rec.ID) == 0 }
