package host

import (
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// family is all that an instance's processes are told by. Its leader must be
// held or unreaped: its number is the session's.
//
// A process that empties its environment and leaves the session is known only
// by whose child it was, which is lost when its parent ends; so descendants are
// remembered while they can be seen. Being the subreaper instead would show
// that a process is an orphan but not whose, and would end with the host.
type family struct {
	leader   *handle
	instance string
	kin      map[int]uint64 // :: pid → start of descendants seen earlier
}

func (h *Host) familyOf(in *instance) family {
	h.mu.Lock()
	defer h.mu.Unlock()
	return family{in.leader, in.rec.ID, in.kin}
}

// members are the running processes of a family besides its leader: those of
// its session, those that left it but carry its identity or were seen to
// descend from it, and what descends from any of these.
//
// One look that finds none proves nothing: a process that is listed may fork
// and end before it is read, and its child is not in the list. The next look
// has that child.
func (f family) members() (found []proc, err error) {
	for look := 0; look < 2 && len(found) == 0; look++ {
		all, err := allProcs()
		if err != nil {
			return nil, err
		}
		found = f.among(all, carries)
	}
	return found, nil
}

func carries(p proc, instance string) bool {
	id, ok := environOf(p.pid, envInstance)
	return ok && id == instance
}

// among finds the members among all processes; carries may be nil, which spares
// reading every environment.
func (f family) among(all []proc, carries func(proc, string) bool) []proc {
	reused := false // the number of an ended, reaped leader belongs to someone else
	children := map[int][]proc{}
	for _, p := range all {
		reused = reused || p.pid == f.leader.pid && p.start != f.leader.start
		children[p.parent] = append(children[p.parent], p)
	}
	var out []proc
	seen := map[int]bool{os.Getpid(): true, 1: true, f.leader.pid: true}
	var add func(p proc)
	add = func(p proc) {
		if seen[p.pid] {
			return
		}
		seen[p.pid] = true
		if !p.ended() {
			out = append(out, p)
		}
		for _, c := range children[p.pid] {
			add(c)
		}
	}
	if !reused {
		for _, c := range children[f.leader.pid] {
			add(c)
		}
	}
	for _, p := range all {
		start, known := f.kin[p.pid]
		if p.session == f.leader.pid && !reused || known && start == p.start || carries != nil && !seen[p.pid] && carries(p, f.instance) {
			add(p)
		}
	}
	return out
}

// trackKin remembers who descends from the instances now, by one look at all
// processes.
func (h *Host) trackKin() {
	h.mu.Lock()
	families := map[*instance]family{}
	for _, in := range h.instances {
		if in.runs() && in.leader != nil {
			families[in] = family{in.leader, in.rec.ID, in.kin}
		}
	}
	h.mu.Unlock()
	if len(families) == 0 {
		return
	}
	all, err := allProcs()
	if err != nil {
		h.log.Error("cannot look for descendants of instances", "error", err)
		return
	}
	for in, f := range families {
		h.remember(in, f.among(all, nil))
	}
}

// remember takes members down. The list is replaced, never changed: who has it
// may read on.
func (h *Host) remember(in *instance, members []proc) {
	kin := make(map[int]uint64, len(members))
	for _, p := range members {
		kin[p.pid] = p.start
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !maps.Equal(kin, in.kin) {
		in.kin = kin
	}
}

// killAll ends every member with SIGKILL and returns when none is left, or
// with an error after the given time. It looks again each time: a process may
// fork while it is being killed.
func (f family) killAll(most time.Duration) error {
	deadline := time.Now().Add(most)
	f.kin = maps.Clone(f.kin)
	if f.kin == nil {
		f.kin = map[int]uint64{}
	}
	for {
		left, err := f.members()
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of instance %s do not end, %d (%s) among them", len(left), f.instance, left[0].pid, left[0].name)
		}
		for _, p := range left {
			f.kin[p.pid] = p.start
		}
		for _, p := range left {
			killProc(p, deadline)
		}
	}
}

// settle is how long processes that are left when the first one ends well are
// given to show where they go: one that puts itself into the background first
// forks, and then leaves.
const settle = 250 * time.Millisecond

// wentOn says what goes on though the first process ended well, as a program
// does that puts itself into the background; empty means that nothing does, or
// that it was asked to end.
func (h *Host) wentOn(in *instance) string {
	h.mu.Lock()
	asked := in.retiring || in.state == service.InstanceExited
	h.mu.Unlock()
	if p, err := readProc(in.leader.pid); asked || err == nil && p.start == in.leader.start && p.exit != 0 {
		return ""
	}
	for deadline := time.Now().Add(settle); ; time.Sleep(settle / 50) {
		procs, err := h.familyOf(in).members()
		if err != nil {
			h.log.Error("cannot look for processes of an ended instance", "instance", in.rec.ID, "error", err)
		}
		for _, p := range procs {
			if p.session != in.leader.pid {
				return leftDetail(p)
			}
		}
		if len(procs) == 0 {
			return ""
		}
		h.remember(in, procs)
		if time.Now().After(deadline) {
			return fmt.Sprintf("%s went on (pid %d) when its first process ended: run it in the foreground", procs[0].name, procs[0].pid)
		}
	}
}

func leftDetail(p proc) string {
	return fmt.Sprintf("%s left its session (pid %d): run it in the foreground", p.name, p.pid)
}
