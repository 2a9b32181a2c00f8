package host

import (
	"os"
	"slices"
	"strings"
	"time"
)

const houseEvery = 250 * time.Millisecond

func isRoot() bool { return os.Geteuid() == 0 }

func sortByID(list []*instance) {
	slices.SortFunc(list, func(a, b *instance) int { return strings.Compare(a.rec.ID, b.rec.ID) })
}

// housekeepSoon has endings settled at once.
func (h *Host) housekeepSoon() {
	select {
	case h.chores <- struct{}{}:
	default: // about to be done anyway
	}
}

// houseKeep does what is due from time to time: output is rotated, standing
// demands are repeated, endings settled, artifacts collected.
func (h *Host) houseKeep() {
	tick := time.NewTicker(houseEvery)
	defer tick.Stop()
	look := time.NewTicker(h.cfg.Timing.Look)
	defer look.Stop()
	collect := time.NewTicker(min(time.Minute, h.cfg.Timing.KeepArtifact))
	defer collect.Stop()
	for {
		select {
		case <-h.chores:
			h.settleEndings()
		case <-tick.C:
			h.rotateAll()
			h.folder.ballast.fill(false)
			h.mu.Lock()
			h.sendLocked(h.ledger.again())
			h.mu.Unlock()
		case <-look.C:
			h.trackKin()
		case <-collect.C:
			h.collectArtifacts()
		case <-h.ctx.Done():
			return
		}
	}
}

func (h *Host) rotateAll() {
	h.mu.Lock()
	list := make([]*instance, 0, len(h.instances))
	for _, in := range h.instances {
		if in.runs() {
			list = append(list, in)
		}
	}
	h.mu.Unlock()
	for _, in := range list {
		if err := in.journal.rotate(); err != nil {
			h.log.Error("output is not rotated", "instance", in.rec.ID, "error", err)
		}
	}
}

func (h *Host) collectArtifacts() {
	inUse := map[string]bool{} // :: digest
	h.mu.Lock()
	for _, s := range h.slots {
		inUse[s.rec.Assignment.Template.Artifact] = true
	}
	for _, in := range h.instances {
		inUse[in.rec.Assignment.Template.Artifact] = true
	}
	h.mu.Unlock()
	if err := h.artifacts.collect(inUse, time.Now().Add(-h.cfg.Timing.KeepArtifact)); err != nil {
		h.log.Error("cannot collect artifacts", "error", err)
	}
}
