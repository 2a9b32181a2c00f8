package host

import (
	"slices"
	"time"
)

// ending is an instance whose process has ended, as long as some gateway may
// still have a connection to its port.
type ending struct {
	Port  int       `json:"port"`
	Ended time.Time `json:"ended"`
	// Waiting are the gateways that have not acknowledged it.
	Waiting []string `json:"waiting"`
}

func (h *Host) loadEndings() error {
	err := h.folder.read(fileEndings, &h.endings)
	if ignoreMissing(err) != nil {
		// What is lost is only how early ports may be given away: they stay held.
		h.log.Error("the ends of earlier instances are unknown, their ports stay held", "error", err)
		h.endings = map[string]*ending{}
	}
	return nil
}

func (h *Host) saveEndings() error {
	h.endingsMu.Lock()
	defer h.endingsMu.Unlock()
	h.mu.Lock()
	all := make(map[string]ending, len(h.endings)) // :: instance → ending
	for id, e := range h.endings {
		all[id] = ending{e.Port, e.Ended, slices.Clone(e.Waiting)}
	}
	h.mu.Unlock()
	return h.folder.write(fileEndings, all)
}

// endLocked notes that an instance has ended, and tells every known gateway
// if any was ever told of it.
func (h *Host) endLocked(in *instance) {
	h.ledger.close(in.rec.ID)
	if in.rec.Port == 0 {
		return
	}
	e := &ending{Port: in.rec.Port, Ended: h.cfg.Now()}
	if in.wasLive {
		for name, l := range h.links {
			e.Waiting = append(e.Waiting, name)
			l.out.end(in.rec.ID)
		}
		slices.Sort(e.Waiting)
	}
	h.endings[in.rec.ID] = e
	h.housekeepSoon()
}

// acknowledged notes that a gateway has no connection left to an ended instance.
func (h *Host) acknowledged(gateway, instance string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.endings[instance]; e != nil {
		e.Waiting = slices.DeleteFunc(e.Waiting, func(n string) bool { return n == gateway })
		h.housekeepSoon()
	}
}

// settleEndings begins the rest of ports whose ends all gateways acknowledged,
// and puts on disk what is left.
func (h *Host) settleEndings() {
	h.mu.Lock()
	done := map[string]*ending{} // :: instance → ending
	for id, e := range h.endings {
		if len(e.Waiting) == 0 {
			done[id] = e
		}
	}
	h.mu.Unlock()
	for id, e := range done {
		if err := h.ports.release(e.Port, id, e.Ended); err != nil {
			h.log.Error("cannot give up a port; it is tried again", "error", err)
			continue
		}
		h.mu.Lock()
		delete(h.endings, id)
		h.mu.Unlock()
	}
	if err := h.saveEndings(); err != nil {
		h.log.Error("cannot keep the ends of instances", "error", err)
	}
}

// clean removes what is kept of an ended instance. Its record goes last, after
// its ending is on disk: until then a restart finds it again.
func (h *Host) clean(in *instance) {
	if err := h.saveEndings(); err != nil {
		h.log.Error("cannot keep the end of an instance", "instance", in.rec.ID, "error", err)
		return
	}
	if err := in.journal.remove(); err != nil {
		h.log.Error("cannot remove an instance's output", "instance", in.rec.ID, "error", err)
	}
	if err := removeTree(in.rec.Folder); err != nil {
		h.log.Error("cannot remove an instance's folder", "instance", in.rec.ID, "error", err)
	}
	if err := h.folder.remove(instanceFile(in.rec.ID)); err != nil {
		h.log.Error("cannot forget an instance", "instance", in.rec.ID, "error", err)
	}
}

// offeredOnce says that gateways were told of the instance, or may have been.
func (in *instance) offeredOnce() bool { return in.rec.Offered }

// recordOffer puts on disk that gateways are about to be told. The look is the
// only one that calls it, before the first offer.
func (h *Host) recordOffer(in *instance) {
	in.rec.Offered = true
	if err := h.folder.write(instanceFile(in.rec.ID), in.rec); err != nil {
		h.log.Error("cannot record an offer", "instance", in.rec.ID, "error", err)
	}
}

// offerLocked tells every connected gateway of an instance that became live,
// with the credits that each is given.
func (h *Host) offerLocked(in *instance) {
	if !in.wasLive {
		in.wasLive = true
		moves := h.ledger.open(in.rec.ID, in.rec.Assignment.Group, in.rec.Assignment.Template.AtOnce(), false)
		for _, l := range h.links {
			l.out.offer(in, 0)
		}
		h.sendLocked(moves)
	}
}
