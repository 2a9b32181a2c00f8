package host

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// slot is one place for an instance. Its goroutine does one thing at a time;
// all fields are under the host's mu.
type slot struct {
	rec  slotRecord
	wake chan struct{}
	// instances, oldest first: at most two that run, and at most one that
	// ended, which is shown until the next one starts.
	instances []*instance
	backoff   time.Duration // of the next start; zero means none
	notBefore time.Time     // of the next start
}

func (s *slot) id() string { return s.rec.Assignment.Slot }

func newSlot(r slotRecord) *slot { return &slot{rec: r, wake: make(chan struct{}, 1)} }

func (s *slot) stir() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is waiting already
	}
}

// endedLocked counts an instance that ended by itself, and sets the back-off.
func (s *slot) endedLocked(in *instance, lived time.Duration, t Timing) {
	defer s.stir()
	if in.retiring || in.rec.Assignment.Round < s.rec.Assignment.Round || !sameLife(in.rec.Assignment, s.rec.Assignment) {
		return
	}
	s.failedLocked(lived, t)
}

// failedLocked counts a process that is to be followed by another.
func (s *slot) failedLocked(lived time.Duration, t Timing) {
	s.rec.Restarts++
	if lived >= t.BackoffReset {
		s.backoff = 0
	}
	s.backoff = min(max(t.BackoffFirst, 2*s.backoff), t.BackoffMost)
	s.notBefore = time.Now().Add(s.backoff)
}

// deed is what a slot is to do next.
type deed struct {
	start  bool
	retire *instance
	drain  time.Duration
	why    string
	forget *instance     // ended and no longer of interest
	end    bool          // the slot is empty and to be erased
	wait   time.Duration // until it is to be asked again; zero means until it is woken
}

// nextLocked decides. Closing means that the host shuts down: all is retired,
// nothing is started, and the slot stays assigned.
func (s *slot) nextLocked(closing bool, now time.Time) deed {
	if closing || s.rec.Stop != nil {
		return s.emptyLocked(closing)
	}
	var current, old *instance
	running, others := 0, 0
	for _, in := range s.instances {
		if !in.runs() {
			continue
		}
		running++
		other := !sameLife(in.rec.Assignment, s.rec.Assignment)
		if other {
			others++
		}
		switch {
		case in.retiring:
		case other:
			return deed{retire: in, drain: drainOf(in), why: "it is of an earlier life of its slot's name"}
		case in.rec.Assignment.Round == s.rec.Assignment.Round:
			current = in
		default:
			old = in
		}
	}
	switch {
	case current != nil && current.deaf:
		return deed{retire: current, drain: drainOf(current), why: current.detail}
	case current == nil && others > 0 && s.rec.Assignment.Template.Handover == service.HandoverExclusive:
		return deed{} // until they have ended
	case current == nil && running < 2:
		if wait := s.notBefore.Sub(now); wait > 0 {
			return deed{wait: wait}
		}
		return deed{start: true}
	case current != nil && current.state == service.InstanceLive && old != nil:
		if wait := s.rec.Assignment.Dwell - current.liveFor(); wait > 0 {
			return deed{wait: wait}
		}
		return deed{retire: old, drain: drainOf(old), why: "replaced"}
	}
	return s.tidyLocked(current)
}

// tidyLocked forgets what ended once something else is shown in its place.
func (s *slot) tidyLocked(current *instance) deed {
	for _, in := range s.instances {
		if !in.runs() && (in.retiring || current != nil) {
			return deed{forget: in}
		}
	}
	return deed{}
}

func (s *slot) emptyLocked(closing bool) deed {
	for _, in := range s.instances {
		switch {
		case !in.runs():
			return deed{forget: in}
		case !in.retiring && closing:
			return deed{retire: in, drain: drainOf(in), why: "the host shuts down"}
		case !in.retiring:
			return deed{retire: in, drain: stopDrain(s.rec.Stop), why: s.rec.Stop.Reason}
		}
	}
	return deed{end: len(s.instances) == 0}
}

func drainOf(in *instance) time.Duration {
	if d := in.rec.Assignment.Template.Drain; d > 0 {
		return d
	}
	return 30 * time.Second
}

func stopDrain(st *service.Stop) time.Duration {
	if st.Drain > 0 {
		return st.Drain
	}
	return 30 * time.Second
}

// keep runs a slot until it is erased or the host has closed.
func (h *Host) keep(s *slot) {
	for {
		h.mu.Lock()
		d := s.nextLocked(h.closing, time.Now())
		if d.retire != nil {
			h.beginRetireLocked(d.retire)
			if d.retire.deaf {
				s.failedLocked(d.retire.lived, h.cfg.Timing)
			}
		}
		if d.end && !h.closing {
			delete(h.slots, s.id())
		}
		h.mu.Unlock()
		switch {
		case d.start:
			h.start(s)
		case d.retire != nil:
			h.life.Go(func() { h.retire(d.retire, d.drain, d.why) })
		case d.forget != nil:
			h.forget(s, d.forget)
		case d.end:
			h.erase(s)
			return
		case !h.pause(s, d.wait):
			return
		}
	}
}

// pause waits until the slot is woken, the time has passed or the host closes;
// false means the last.
func (h *Host) pause(s *slot, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-s.wake:
	case <-after:
	case <-h.ctx.Done():
		return false
	}
	return true
}

// forget drops an ended instance and all that is kept of it.
func (h *Host) forget(s *slot, in *instance) {
	h.mu.Lock()
	s.instances = slices.DeleteFunc(s.instances, func(o *instance) bool { return o == in })
	delete(h.instances, in.rec.ID)
	h.goneLocked(in)
	h.mu.Unlock()
	h.clean(in)
}

// erase removes the record of an emptied slot, unless it was assigned again
// meanwhile, or the host shuts down and is to run it again at its next start.
func (h *Host) erase(s *slot) {
	lock := h.stripe(s.id())
	lock.Lock()
	defer lock.Unlock()
	h.mu.Lock()
	again := h.slots[s.id()] != nil || h.closing
	h.mu.Unlock()
	if again {
		return
	}
	// What was put aside of it goes too: it would stand for a slot that may still be assigned.
	if err := errors.Join(h.folder.remove(slotFile(s.id())), h.folder.remove(slotFile(s.id())+asideExt)); err != nil {
		h.log.Error("cannot forget a slot", "slot", s.id(), "error", err)
	}
}

func slotFile(id string) string { return filepath.Join(dirSlots, id+".json") }

func instanceFile(id string) string { return filepath.Join(dirInstances, id+".json") }
