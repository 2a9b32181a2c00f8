package host

import (
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// departure is the end of a host in order:
//
//	runs → leaves: control has others take what runs here → stopped: nothing runs here
type departure struct {
	leaves   chan struct{}        // closed when it begins
	released chan service.Release // holds the leader's last word
	stopped  chan struct{}        // closed when nothing runs any more
	detached chan struct{}        // closed when no stream to control is kept any more
}

func newDeparture() departure {
	return departure{
		leaves: make(chan struct{}), released: make(chan service.Release, 1),
		stopped: make(chan struct{}), detached: make(chan struct{}),
	}
}

// leave tells control that this host ends, and waits until it is released, or
// for as long as is configured. Without control nobody could take what runs.
func (h *Host) leave() {
	close(h.departure.leaves)
	if h.cfg.Leave <= 0 {
		return
	}
	if h.leader.Load() == nil {
		h.log.Warn("control is not connected: what runs here is stopped, and served elsewhere when control notices")
		return
	}
	h.log.Info("the host leaves: what runs here is served elsewhere first", "at_most", h.cfg.Leave)
	begun, heard := time.Now(), time.Now()
	look := time.NewTicker(h.cfg.Timing.Look)
	defer look.Stop()
	late := time.NewTimer(h.cfg.Leave)
	defer late.Stop()
	for {
		// One of: control lets it go, the time has passed, control went away.
		select {
		case r := <-h.departure.released:
			h.sayReleased(r, time.Since(begun))
			return
		case <-late.C:
			h.log.Warn("not all that runs here was served elsewhere in time: the rest is stopped", "waited", h.cfg.Leave)
			return
		case <-look.C:
			if h.leader.Load() != nil {
				heard = time.Now()
			}
			if time.Since(heard) > deafAfter {
				h.log.Warn("control is not connected any more: what runs here is stopped")
				return
			}
		}
	}
}

func (h *Host) sayReleased(r service.Release, waited time.Duration) {
	if r.Empty {
		h.log.Info("the host is empty", "waited", waited.Round(time.Millisecond))
		return
	}
	h.log.Warn("nothing else can take what runs here: it is stopped", "reason", r.Reason)
}

// release takes the leader's word that the host may end.
func (h *Host) release(r service.Release) {
	select {
	case <-h.departure.released: // the later word counts
	default:
	}
	select {
	case h.departure.released <- r:
	default: // another came just now
	}
}

// tellStopped says last of all that nothing runs here any more, so that nobody
// waits for this host's lease to end.
func (h *Host) tellStopped() {
	connected := h.leader.Load() != nil
	close(h.departure.stopped)
	if !connected {
		return
	}
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-h.departure.detached:
	case <-late.C:
	}
}
