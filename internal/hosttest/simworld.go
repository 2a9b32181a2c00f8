package hosttest

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// What happens to a simulated fleet. An unknown host or instance is ignored.

// Disconnect breaks the host's stream: what it runs goes on, what was last
// reported stays shown, and commands fail as unavailable.
func (s *Sim) Disconnect(hostName string) {
	s.with(hostName, func(h *simHost) {
		h.freeze()
		h.connected = false
	})
}

// Connect ends what Disconnect, Crash or Hush began. After a Crash the host
// adopts its instances: each begins its time live anew.
func (s *Sim) Connect(hostName string) {
	s.with(hostName, func(h *simHost) {
		if !h.running {
			h.running = true
			h.adopt()
			for _, sl := range h.slots {
				s.pumpLocked(h, sl)
			}
		}
		h.connected, h.hushed, h.knew, h.forgotten, h.leaving, h.left = true, false, true, false, false, false
		waiting := h.waiting
		h.waiting = nil
		for _, deliver := range waiting {
			deliver()
		}
	})
}

// Hush keeps the host connected but lets nothing pass until Connect: commands
// wait, and it grows silent.
func (s *Sim) Hush(hostName string) {
	s.with(hostName, func(h *simHost) {
		h.freeze()
		h.hushed = true
	})
}

// Crash ends the host's process and leaves its instances running.
func (s *Sim) Crash(hostName string) {
	s.with(hostName, func(h *simHost) {
		h.freeze()
		h.connected, h.running = false, false
	})
}

// Leave has the host's process begin to end in order, as SIGTERM does: it is
// gone when control releases it, or when EndLeaving says that its time has passed.
func (s *Sim) Leave(hostName string) {
	s.with(hostName, func(h *simHost) { h.leaving = true })
}

// EndLeaving has a host that leaves stop what it runs, and then end.
func (s *Sim) EndLeaving(hostName string) {
	s.with(hostName, s.endLeavingLocked)
}

// Fill has the host refuse more instances, for a reason; empty ends that.
func (s *Sim) Fill(hostName, why string) {
	s.with(hostName, func(h *simHost) { h.full = why })
}

// Torn are the instances that ran when their host was let go as an empty one.
func (s *Sim) Torn() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.torn)
}

func (s *Sim) endLeavingLocked(h *simHost) {
	s.loseLocked(h)
	h.freeze()
	h.connected, h.running, h.left, h.shown = false, false, true, nil
}

// Lose ends the machine: the host and all that it ran. Connect brings it back
// with its assignments, which it starts again.
func (s *Sim) Lose(hostName string) {
	s.with(hostName, func(h *simHost) {
		h.freeze()
		h.connected, h.running = false, false
		s.loseLocked(h)
	})
}

// Forget makes a host that is away one that the leader's process, which is a
// new one, has never heard of: nothing is shown of it until it connects.
func (s *Sim) Forget(hostName string) {
	s.with(hostName, func(h *simHost) { h.forgotten = !h.connected })
}

// Kill ends one process, as kill -9 does.
func (s *Sim) Kill(instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hosts {
		for _, sl := range h.slots {
			for _, p := range sl.procs {
				if p.inst.ID == instance && p.runs() {
					s.exitLocked(h, sl, p, "signal: killed")
					s.pumpLocked(h, sl)
					s.changedLocked()
					return
				}
			}
		}
	}
}

// Running returns the instances that really run now, connected or not, ordered by identity.
func (s *Sim) Running() []service.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []service.Instance
	for _, h := range s.hosts {
		for _, in := range h.instances() {
			if in.State != service.InstanceExited {
				out = append(out, in)
			}
		}
	}
	sortInstances(out)
	return out
}

func (s *Sim) with(hostName string, f func(*simHost)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hosts[hostName]; h != nil {
		f(h)
		s.changedLocked()
	}
}

// freeze keeps what is shown from now on; a second freeze changes nothing.
func (h *simHost) freeze() {
	if h.connected && !h.hushed {
		h.shown, h.heard = h.instances(), time.Now()
	}
}

func (h *simHost) adopt() {
	for _, sl := range h.slots {
		for _, p := range sl.procs {
			p.inst.Adopted = true
			p.retiring = false
			if p.inst.State == service.InstanceLive {
				p.liveSince = time.Now()
			}
		}
	}
}
