package hosttest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// Back-off between the processes of one slot, as the real host has it.
const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 30 * time.Second
)

// Behaviour is what a simulated program, and the machine under it, do. The
// zero Behaviour is ready at once and runs until it is stopped.
type Behaviour struct {
	// ReadyAfter is the time from start to live.
	ReadyAfter time.Duration
	// ExitAfter ends each process by itself, this long after its start; zero means never.
	ExitAfter time.Duration
	// ExitStatus shown then; empty means "exit status 1".
	ExitStatus string
	// NeverListens keeps it starting for ever.
	NeverListens bool
	// WrongPort makes it listen on this port instead of its own; zero means its own.
	WrongPort int
	// DrainFor is how long leases are held after a withdrawal, at most the stop's drain.
	DrainFor time.Duration
	// CommandDelay is between a command's call and its effect. A call whose
	// context ends meanwhile fails as unknown, and its effect still lands.
	CommandDelay time.Duration
	// Refuse makes the host refuse to prepare or assign, with this reason.
	Refuse string
	// RefuseCode of that; empty means fault.Invalid.
	RefuseCode fault.Code
}

// Command is one command that a host obeyed or refused, in the order of effect.
type Command struct {
	Epoch    view.Epoch
	Host     string
	Kind     string // "prepare", "assign" or "stop"
	Slot     string // of assign and stop
	Revision string // of prepare and assign
	Round    int32
	Err      error // the host's refusal
}

// Sim is a fleet of hosts in memory. It has no goroutine and no socket, only
// timers, so it runs inside a testing/synctest bubble; what happens depends on
// the order of calls and of instants alone. Several controllers may share one.
type Sim struct {
	mu      sync.Mutex
	hosts   map[string]*simHost // :: host name → host
	changed chan struct{}
	behave  func(host string, a service.Assignment) Behaviour
	minted  int
	log     []Command
	polls   Polls
	torn    []string // instances that ran when their host was let go as an empty one
}

type simHost struct {
	service.Host
	fence     host.Fence
	connected bool
	running   bool // its process; instances live on without it
	hushed    bool // connected, but nothing passes
	waiting   []func()
	heard     time.Time
	slots     map[string]*simSlot // :: slot → slot
	shown     []service.Instance  // what was told, frozen when nothing passes
	knew      bool                // reported since it connected
	forgotten bool                // not heard since the leader's process started
	leaving   bool
	left      bool
	full      string // why it takes no more instances
}

// NewSim makes a fleet whose hosts are connected and run nothing.
func NewSim(hosts ...service.Host) *Sim {
	s := &Sim{
		hosts:   map[string]*simHost{},
		changed: make(chan struct{}),
		behave:  func(string, service.Assignment) Behaviour { return Behaviour{} },
	}
	for _, h := range hosts {
		s.hosts[h.Name] = &simHost{
			Host: h, connected: true, running: true, knew: true, heard: time.Now(),
			slots: map[string]*simSlot{},
		}
	}
	return s
}

// Welcome says who leads to the hosts that are connected, as a stream's first
// message does: from then on they obey no earlier leader.
func (s *Sim) Welcome(e view.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hosts {
		if !h.connected || !h.running {
			continue
		}
		if v, err := h.fence.Judge(e); err == nil {
			h.fence = v.Fence
		}
	}
}

// Behave sets what programs do from now on; f is asked at each command and at
// each start of a process, and must not call the Sim.
func (s *Sim) Behave(f func(host string, a service.Assignment) Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behave = f
}

// Commands returns what took effect or was refused so far.
func (s *Sim) Commands() []Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// States is part of the port.
func (s *Sim) States() []service.HostState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]service.HostState, 0, len(s.hosts))
	for _, h := range s.hosts {
		if !h.forgotten {
			out = append(out, h.state())
		}
	}
	slices.SortFunc(out, func(a, b service.HostState) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (h *simHost) state() service.HostState {
	st := service.HostState{Host: h.Host, Connected: h.connected, Reported: h.knew, Leaving: h.leaving, Left: h.left, Refuses: h.full}
	if !h.connected || h.hushed {
		st.Silent = time.Since(h.heard)
		st.Instances = slices.Clone(h.shown)
		return st
	}
	st.Instances = h.instances()
	return st
}

// instances are all of the host's, as of now, ordered by identity.
func (h *simHost) instances() []service.Instance {
	var out []service.Instance
	for _, sl := range h.slots {
		for _, p := range sl.procs {
			out = append(out, p.now())
		}
	}
	sortInstances(out)
	return out
}

// Changed is part of the port.
func (s *Sim) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Sim) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Prepare is part of the port.
func (s *Sim) Prepare(ctx context.Context, e view.Epoch, hostName, revision string, t service.Template) error {
	c := Command{Epoch: e, Host: hostName, Kind: "prepare", Revision: revision}
	return s.do(ctx, c, service.Assignment{Revision: revision, Template: t}, func(*simHost) {})
}

// Assign is part of the port.
func (s *Sim) Assign(ctx context.Context, e view.Epoch, hostName string, a service.Assignment) error {
	c := Command{Epoch: e, Host: hostName, Kind: "assign", Slot: a.Slot, Revision: a.Revision, Round: a.Round}
	return s.do(ctx, c, a, func(h *simHost) { s.assignLocked(h, a) })
}

// Stop is part of the port.
func (s *Sim) Stop(ctx context.Context, e view.Epoch, hostName string, st service.Stop) error {
	c := Command{Epoch: e, Host: hostName, Kind: "stop", Slot: st.Slot}
	return s.do(ctx, c, service.Assignment{Slot: st.Slot}, func(h *simHost) { s.stopLocked(h, st) })
}

// Release is part of the port: a host that leaves stops what is left there, and
// has left once nothing runs.
func (s *Sim) Release(ctx context.Context, e view.Epoch, hostName string, r service.Release) error {
	kind := "release"
	if r.Empty {
		kind = "release empty"
	}
	return s.do(ctx, Command{Epoch: e, Host: hostName, Kind: kind}, service.Assignment{}, func(h *simHost) {
		if h.leaving {
			for _, in := range h.instances() {
				if r.Empty && in.State != service.InstanceExited {
					s.torn = append(s.torn, in.ID)
				}
			}
			s.endLeavingLocked(h)
		}
	})
}

// do carries a command to its host and waits for the answer as long as ctx allows.
func (s *Sim) do(ctx context.Context, c Command, a service.Assignment, effect func(*simHost)) error {
	answer := make(chan error, 1)
	if err := s.send(ctx, c, a, func(h *simHost) { answer <- s.obeyLocked(h, c, a, effect) }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	default:
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fault.New(fault.Unknown, "", "cannot say whether host %q did it: %w", c.Host, ctx.Err())
	}
}

// send runs deliver at once, after the command's delay, or when the host can be heard again.
func (s *Sim) send(ctx context.Context, c Command, a service.Assignment, deliver func(*simHost)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[c.Host]
	if h == nil || !h.connected {
		return fault.New(fault.Unavailable, "", "host %q is not connected", c.Host)
	}
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Unavailable, "", "cannot send to host %q: %w", c.Host, err)
	}
	delay := s.behave(c.Host, a).CommandDelay
	switch {
	case h.hushed:
		h.waiting = append(h.waiting, func() { deliver(h) })
	case delay > 0:
		time.AfterFunc(delay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			deliver(h)
		})
	default:
		deliver(h)
	}
	return nil
}

// obeyLocked judges a command as a real host does, and applies it.
func (s *Sim) obeyLocked(h *simHost, c Command, a service.Assignment, effect func(*simHost)) error {
	if !h.running {
		return fault.New(fault.Unknown, "", "cannot say whether host %q did it: it went away", h.Name)
	}
	verdict, err := h.fence.Judge(c.Epoch)
	if err == nil {
		h.fence = verdict.Fence
		if b := s.behave(h.Name, a); b.Refuse != "" && (c.Kind == "prepare" || c.Kind == "assign") {
			err = fault.New(cmp.Or(b.RefuseCode, fault.Invalid), "", "%s", b.Refuse)
		}
	}
	c.Err = err
	s.log = append(s.log, c)
	if err != nil {
		return fmt.Errorf("host %q refused: %w", h.Name, err)
	}
	effect(h)
	s.changedLocked()
	return nil
}

func sortInstances(list []service.Instance) {
	slices.SortFunc(list, func(a, b service.Instance) int { return strings.Compare(a.ID, b.ID) })
}
