package hosttest

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// Polls is who hears what hosts tell gateways of their instances. It is called
// under the Sim's lock, and must not call the Sim.
type Polls interface {
	// Offered says that a process is live, and that its slots for requests are free.
	Offered(i service.Instance, group string)
	// Withdrawn says that it takes no new request.
	Withdrawn(instance string)
	// Ended says that it is gone, and how long it was left to drain: negative
	// when nobody asked for its end.
	Ended(instance string, drained time.Duration)
	// Busy says that it still holds requests.
	Busy(instance string) bool
}

// Poll has p told of every instance from now on. A withdrawn process then ends
// when it holds no request any more, or when its time to drain has passed.
func (s *Sim) Poll(p Polls) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls = p
}

// drainEvery is how often a process that drains is looked at.
const drainEvery = 50 * time.Millisecond

func (s *Sim) liveLocked(sl *simSlot, p *simProc) {
	p.inst.State, p.inst.Detail, p.liveSince = service.InstanceLive, service.DetailAfter("", p.before), time.Now()
	if s.polls != nil {
		s.polls.Offered(p.inst, sl.assignment.Group)
	}
}

func (s *Sim) retireLocked(h *simHost, sl *simSlot, p *simProc, drain time.Duration) {
	p.retiring, p.retired = true, time.Now()
	p.inst.State = service.InstanceDraining
	p.liveSince = time.Time{}
	if s.polls != nil {
		s.polls.Withdrawn(p.inst.ID)
	}
	s.drainLocked(h, sl, p, drain, max(min(p.does.DrainFor, drain), time.Millisecond))
}

// drainLocked ends a process after wait, or later while it is busy.
func (s *Sim) drainLocked(h *simHost, sl *simSlot, p *simProc, drain, wait time.Duration) {
	s.later(h, sl, p, wait, func() {
		switch {
		case !h.running:
		case s.polls != nil && s.polls.Busy(p.inst.ID) && time.Since(p.retired) < drain:
			s.drainLocked(h, sl, p, drain, drainEvery)
		default:
			s.exitLocked(h, sl, p, "signal: terminated")
		}
	})
}

func (s *Sim) endedLocked(p *simProc) {
	if s.polls == nil {
		return
	}
	drained := time.Duration(-1)
	if p.retiring {
		drained = time.Since(p.retired)
	}
	s.polls.Ended(p.inst.ID, drained)
}

// loseLocked ends every process of the host, as the end of its machine does.
func (s *Sim) loseLocked(h *simHost) {
	for _, sl := range h.slots {
		for _, p := range slices.Clone(sl.procs) {
			for _, t := range p.timers {
				t.Stop()
			}
			p.retiring = false
			s.endedLocked(p)
		}
		sl.procs = nil
	}
}
