package host

import (
	"context"
	"hash/maphash"
	"reflect"
	"sync"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// stripe orders what is written of one slot.
func (h *Host) stripe(slot string) *sync.Mutex {
	return &h.stripes[maphash.String(h.seed, slot)%uint64(len(h.stripes))]
}

// admit judges an epoch; one that is accepted is on disk when it returns nil.
func (h *Host) admit(e view.Epoch) error {
	h.fenceMu.Lock()
	defer h.fenceMu.Unlock()
	v, err := h.fence.Judge(e)
	if err != nil || !v.Changed {
		return err
	}
	if err := h.folder.writeTwice(fileFence, v.Fence); err != nil {
		return err
	}
	if v.Foreign {
		h.log.Warn("another incarnation of the store leads from now on", "before", h.fence.Kept.String(), "now", e.String())
	}
	h.fence = v.Fence
	return nil
}

func (h *Host) kept() view.Epoch {
	h.fenceMu.Lock()
	defer h.fenceMu.Unlock()
	return h.fence.Kept
}

// obey does one command. Nil means that it is on disk.
func (h *Host) obey(ctx context.Context, c *pb.HostCommand) error {
	if err := h.admit(wire.Epoch(c.GetEpoch())); err != nil {
		return err
	}
	switch {
	case c.GetPrepare() != nil:
		return h.prepare(ctx, wire.Template(c.GetPrepare().GetTemplate()))
	case c.GetAssign() != nil:
		return h.assign(assignmentOf(c.GetAssign()))
	case c.GetStop() != nil:
		s := c.GetStop()
		return h.stop(service.Stop{Slot: s.GetSlot(), Minted: s.GetMinted(), Drain: s.GetDrain().AsDuration(), Reason: s.GetReason()})
	case c.GetRelease() != nil:
		h.release(service.Release{Empty: c.GetRelease().GetEmpty(), Reason: c.GetRelease().GetReason()})
		return nil
	default:
		return fault.New(fault.Invalid, "", "cannot obey a command of an unknown kind")
	}
}

// laneOf names what commands are obeyed in order: those of one slot.
func laneOf(c *pb.HostCommand) string {
	switch {
	case c.GetAssign() != nil:
		return "slot " + c.GetAssign().GetSlot()
	case c.GetStop() != nil:
		return "slot " + c.GetStop().GetSlot()
	case c.GetRelease() != nil:
		return "release"
	default:
		return "prepare " + c.GetPrepare().GetRevision()
	}
}

func assignmentOf(a *pb.AssignCommand) service.Assignment {
	return service.Assignment{
		Slot: a.GetSlot(), Service: a.GetService(), Revision: a.GetRevision(), Minted: a.GetMinted(), Group: a.GetGroup(),
		Template: wire.Template(a.GetTemplate()), Round: a.GetRound(), Dwell: a.GetDwell().AsDuration(),
	}
}

// prepare fetches the artifact and checks that the command can be run.
func (h *Host) prepare(ctx context.Context, t service.Template) error {
	if err := h.checkTemplate(t); err != nil {
		return err
	}
	if t.Artifact == "" {
		return nil
	}
	_, err := h.artifacts.get(ctx, t.Artifact)
	if noRoom(err) {
		return fault.New(fault.Exhausted, "make room on the disk of "+h.folder.dir, "cannot install %s: the disk is full: %w", t.Artifact, err)
	}
	return err
}

// assign puts a slot on disk and has it kept running.
func (h *Host) assign(a service.Assignment) error {
	if !safeName.MatchString(a.Slot) || a.Service == "" || a.Revision == "" {
		return fault.New(fault.Invalid, "", "cannot assign slot %q of revision %q: a name is missing or unsafe", a.Slot, a.Revision)
	}
	lock := h.stripe(a.Slot)
	lock.Lock()
	defer lock.Unlock()
	next, stands, err := h.nextRecord(a)
	if err != nil || stands {
		return err
	}
	if err := h.folder.write(slotFile(a.Slot), next); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slots[a.Slot]
	if s == nil {
		s = newSlot(next)
		h.slots[a.Slot] = s
		if h.running && !h.closing {
			h.keepers.Go(func() { h.keep(s) })
		}
		return nil
	}
	if next.Restarts == 0 {
		s.backoff, s.notBefore = 0, time.Time{}
	}
	next.Restarts = min(next.Restarts, s.rec.Restarts)
	s.rec = next
	s.stir()
	return nil
}

// nextRecord is what a slot's record becomes; stands says that it is so already,
// which a lower round is too. Rounds of another life of the slot's name say
// nothing: its processes are replaced.
func (h *Host) nextRecord(a service.Assignment) (next slotRecord, stands bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return next, false, fault.New(fault.Unavailable, "", "host %q shuts down", h.cfg.Name)
	}
	next = slotRecord{Assignment: a}
	s := h.slots[a.Slot]
	if s == nil || s.rec.Stop != nil || !sameLife(a, s.rec.Assignment) {
		return next, false, nil
	}
	if a.Round < s.rec.Assignment.Round || equalAssignments(a, s.rec.Assignment) {
		return next, true, nil
	}
	if a.Round == s.rec.Assignment.Round {
		next.Restarts = s.rec.Restarts
	}
	return next, false, nil
}

// stop puts the end of a slot on disk. Of an unknown slot it is done already,
// as it is of one that another life of its name has.
func (h *Host) stop(st service.Stop) error {
	lock := h.stripe(st.Slot)
	lock.Lock()
	defer lock.Unlock()
	h.mu.Lock()
	s := h.slots[st.Slot]
	if s == nil || s.rec.Stop != nil || !view.SameLife(st.Minted, s.rec.Assignment.Minted) {
		h.mu.Unlock()
		return nil
	}
	next := s.rec
	h.mu.Unlock()
	next.Stop = &st
	if err := h.folder.write(slotFile(st.Slot), next); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.rec.Stop = &st
	s.stir()
	return nil
}

// sameLife says that two assignments of a slot are of one life of its name.
func sameLife(a, b service.Assignment) bool { return view.SameLife(a.Minted, b.Minted) }

func equalAssignments(a, b service.Assignment) bool {
	return reflect.DeepEqual(normal(a), normal(b))
}

// normal gives empty lists and maps one form: on disk and on the wire they are left out.
func normal(a service.Assignment) service.Assignment {
	if len(a.Template.Command) == 0 {
		a.Template.Command = nil
	}
	if len(a.Template.Env) == 0 {
		a.Template.Env = nil
	}
	return a
}
