package hosttest

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// simSlot is one slot: what is asked for, and at most two processes that run
// beside the last one that exited.
type simSlot struct {
	assignment service.Assignment
	stopped    bool
	drain      time.Duration // of the stop
	procs      []*simProc    // oldest first; an exited one stays until the next starts
	restarts   int
	backoff    time.Duration
	pending    *time.Timer // of the next start; nil means none is due
}

type simProc struct {
	inst      service.Instance
	does      Behaviour
	template  service.Template
	liveSince time.Time // zero means not live
	retiring  bool
	retired   time.Time
	before    string // how the process before it ended
	timers    []*time.Timer
}

func (p *simProc) now() service.Instance {
	in := p.inst
	if in.State == service.InstanceLive {
		in.LiveFor = time.Since(p.liveSince)
	}
	return in
}

func (p *simProc) runs() bool { return p.inst.State != service.InstanceExited }

func (s *Sim) assignLocked(h *simHost, a service.Assignment) {
	sl := h.slots[a.Slot]
	if sl == nil {
		sl = &simSlot{assignment: a}
		h.slots[a.Slot] = sl
	}
	anew := sl.stopped || !view.SameLife(a.Minted, sl.assignment.Minted)
	if a.Round > sl.assignment.Round || anew {
		sl.restarts, sl.backoff = 0, 0
	}
	if a.Round >= sl.assignment.Round || anew {
		sl.assignment = a
	}
	sl.stopped = false
	s.pumpLocked(h, sl)
}

func (s *Sim) stopLocked(h *simHost, st service.Stop) {
	sl := h.slots[st.Slot]
	if sl == nil || !view.SameLife(st.Minted, sl.assignment.Minted) {
		return
	}
	sl.stopped, sl.drain = true, st.Drain
	if sl.drain == 0 {
		sl.drain = 30 * time.Second
	}
	s.pumpLocked(h, sl)
}

// pumpLocked brings a slot one step nearer to what is asked of it.
func (s *Sim) pumpLocked(h *simHost, sl *simSlot) {
	if h.slots[sl.assignment.Slot] != sl || !h.running {
		return
	}
	if sl.stopped {
		s.endLocked(h, sl)
		return
	}
	var current, old *simProc
	alive, others := 0, 0
	for _, p := range slices.Clone(sl.procs) {
		other := !view.SameLife(p.inst.Minted, sl.assignment.Minted)
		if other && p.runs() {
			others++
		}
		switch {
		case !p.runs():
			continue
		case p.retiring:
		case other:
			s.retireLocked(h, sl, p, drainOf(p.template))
		case p.inst.Round == sl.assignment.Round:
			current = p
		default:
			old = p
		}
		alive++
	}
	if current == nil && others > 0 && sl.assignment.Template.Handover == service.HandoverExclusive {
		return
	}
	if current == nil && alive < 2 && sl.pending == nil {
		s.startLocked(h, sl)
		return
	}
	if current == nil || old == nil || current.inst.State != service.InstanceLive {
		return
	}
	if wait := sl.assignment.Dwell - time.Since(current.liveSince); wait > 0 {
		s.later(h, sl, current, wait, func() {})
		return
	}
	s.retireLocked(h, sl, old, drainOf(sl.assignment.Template))
}

func drainOf(t service.Template) time.Duration {
	if t.Drain == 0 {
		return 30 * time.Second
	}
	return t.Drain
}

// endLocked retires all of a stopped slot and forgets it when nothing runs.
func (s *Sim) endLocked(h *simHost, sl *simSlot) {
	if sl.pending != nil {
		sl.pending.Stop()
		sl.pending = nil
	}
	for _, p := range slices.Clone(sl.procs) {
		if p.runs() && !p.retiring {
			s.retireLocked(h, sl, p, sl.drain)
		}
	}
	if !slices.ContainsFunc(sl.procs, (*simProc).runs) {
		delete(h.slots, sl.assignment.Slot)
	}
}

func (s *Sim) startLocked(h *simHost, sl *simSlot) {
	s.minted++
	a := sl.assignment
	port := 20000 + s.minted%12000
	p := &simProc{does: s.behave(h.Name, a), template: a.Template, inst: service.Instance{
		ID: fmt.Sprintf("SIM%010d", s.minted), Slot: a.Slot, Service: a.Service, Revision: a.Revision, Minted: a.Minted,
		Host: h.Name, Zone: h.Zone, Address: fmt.Sprintf("127.0.0.1:%d", port), Round: a.Round,
		State: service.InstanceStarting, Pid: 1000 + s.minted, Restarts: sl.restarts,
		Detail: fmt.Sprintf("does not listen on its PORT %d yet", port),
	}}
	if p.does.WrongPort != 0 {
		p.inst.Detail = fmt.Sprintf("listens on 127.0.0.1:%d, not on its PORT %d", p.does.WrongPort, port)
	}
	if last := slices.IndexFunc(sl.procs, func(q *simProc) bool {
		return !q.runs() && view.SameLife(q.inst.Minted, a.Minted)
	}); last >= 0 {
		p.before = sl.procs[last].inst.Detail
		p.inst.Before = p.before
		p.inst.Detail = service.DetailAfter(p.inst.Detail, p.before)
	}
	sl.procs = append(slices.DeleteFunc(sl.procs, func(q *simProc) bool { return !q.runs() }), p)
	if p.does.ExitAfter > 0 {
		s.later(h, sl, p, p.does.ExitAfter, func() { s.exitLocked(h, sl, p, exitStatus(p.does)) })
	}
	if p.does.WrongPort == 0 && !p.does.NeverListens {
		s.becomeLiveLater(h, sl, p)
	}
}

func exitStatus(b Behaviour) string {
	if b.ExitStatus == "" {
		return "exit status 1"
	}
	return b.ExitStatus
}

func (s *Sim) becomeLiveLater(h *simHost, sl *simSlot, p *simProc) {
	live := func() {
		if p.inst.State == service.InstanceStarting {
			s.liveLocked(sl, p)
		}
	}
	if p.does.ReadyAfter > 0 {
		s.later(h, sl, p, p.does.ReadyAfter, live)
		return
	}
	live()
	s.pumpLocked(h, sl)
}

// later does f, and what follows from it, unless the process has ended by then.
func (s *Sim) later(h *simHost, sl *simSlot, p *simProc, d time.Duration, f func()) {
	p.timers = append(p.timers, time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !p.runs() {
			return
		}
		f()
		s.pumpLocked(h, sl)
		s.changedLocked()
	}))
}

// exitLocked ends a process and, where one is still wanted, has the next one follow.
func (s *Sim) exitLocked(h *simHost, sl *simSlot, p *simProc, status string) {
	p.inst.State, p.inst.ExitStatus, p.inst.Detail = service.InstanceExited, status, status
	for _, t := range p.timers {
		t.Stop()
	}
	s.endedLocked(p)
	if p.retiring {
		sl.procs = slices.DeleteFunc(sl.procs, func(q *simProc) bool { return q == p })
		return
	}
	sl.restarts++
	sl.backoff = min(max(backoffFirst, 2*sl.backoff), backoffMost)
	sl.pending = time.AfterFunc(sl.backoff, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		sl.pending = nil
		s.pumpLocked(h, sl)
		s.changedLocked()
	})
}
