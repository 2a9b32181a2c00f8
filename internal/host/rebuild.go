package host

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// carriers are the running processes with this folder's marker that lead a
// session, :: instance → its first one. The first process of an instance leads
// a session always; one that left it began later.
func (h *Host) carriers() (map[string]proc, error) {
	all, err := allProcs()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b proc) int { return cmp.Compare(a.start, b.start) })
	out := map[string]proc{}
	for _, p := range all {
		if p.ended() || p.session != p.pid || p.pid == os.Getpid() {
			continue
		}
		marker, _ := environOf(p.pid, envHost)
		id, ok := environOf(p.pid, envInstance)
		if _, seen := out[id]; marker == h.folder.marker && ok && !seen && safeName.MatchString(id) {
			out[id] = p
		}
	}
	return out, nil
}

// rebuildSlotsLocked makes again the slots whose records are damaged: from a
// whole record of an instance in it, or else from its process: that of the
// highest round, of two lives of its name of the one that began last. A running
// process whose own record is whole keeps its slot though that one's is lost.
func (h *Host) rebuildSlotsLocked(records map[string]record, carried map[string]proc) {
	found := map[string]slotRecord{} // :: slot → its record
	started := map[string]uint64{}   // :: slot → start of the process that told of it
	offer := func(r record) {
		was, ok := found[r.Assignment.Slot]
		newer := r.Assignment.Round > was.Assignment.Round
		if ok && !sameLife(r.Assignment, was.Assignment) {
			newer = r.Start > started[r.Assignment.Slot]
		}
		if !ok || newer {
			found[r.Assignment.Slot] = slotRecord{Assignment: r.Assignment, Restarts: r.Restarts}
			started[r.Assignment.Slot] = r.Start
		}
	}
	for id, r := range records {
		_, running := carried[id]
		if h.damagedSlots[r.Assignment.Slot] || running {
			offer(r)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(carried)) {
		if slot, _ := environOf(carried[id].pid, envSlot); h.damagedSlots[slot] && records[id].ID == "" {
			if r, err := h.recordOf(id, carried[id], records); err == nil {
				offer(r)
			}
		}
	}
	for name, r := range found {
		if h.slots[name] != nil {
			continue
		}
		h.log.Warn("a slot is rebuilt from what runs in it", "slot", name, "revision", r.Assignment.Revision)
		if err := h.folder.write(slotFile(name), r); err != nil {
			h.log.Error("a rebuilt slot is not recorded", "slot", name, "error", err)
		}
		h.slots[name] = newSlot(r)
	}
}

// adoptCarriersLocked takes over processes that no whole record knows, each
// into its slot while that is assigned and has room for it, otherwise into a
// slot of its own that is being stopped: withdrawn, drained, then ended.
func (h *Host) adoptCarriersLocked(records map[string]record, carried map[string]proc) (rebuilt, lost []*instance) {
	for _, id := range slices.Sorted(maps.Keys(carried)) {
		if h.instances[id] != nil || records[id].Pid != 0 {
			continue // adopted, or left over from a first process that is known to have ended
		}
		p := carried[id]
		r, err := h.recordOf(id, p, records)
		s := h.slots[r.Assignment.Slot]
		belongs := err == nil && s != nil && len(s.instances) < 2 && s.rec.Assignment.Revision == r.Assignment.Revision &&
			sameLife(r.Assignment, s.rec.Assignment)
		if !belongs {
			h.log.Warn("a stray process is withdrawn and drained", "pid", p.pid, "program", p.name, "instance", id, "slot", r.Assignment.Slot, "error", err)
			r.Assignment.Slot = "stray-" + id
			s = newSlot(slotRecord{Assignment: r.Assignment, Stop: &service.Stop{Slot: r.Assignment.Slot, Reason: "it belongs to no slot"}})
			h.slots[s.id()] = s
		}
		switch in := h.adoptLocked(r); {
		case in != nil:
			lost = append(lost, in)
		case belongs:
			rebuilt = append(rebuilt, h.instances[id])
		}
	}
	return rebuilt, lost
}

// keepRebuilt puts the records of instances on disk that were damaged. A stray
// is recorded nowhere: until it has ended it is found as it was this time, as
// is one whose record cannot be written.
func (h *Host) keepRebuilt(list []*instance) {
	for _, in := range list {
		if err := h.folder.write(instanceFile(in.rec.ID), in.rec); err != nil {
			h.log.Error("a rebuilt instance is not recorded", "instance", in.rec.ID, "error", err)
		}
	}
}

// recordOf is what the environment of a process says of its instance. Gateways
// may have been told of it. Its request group and limits are those of its
// revision as another record has them; when none does, the group that a
// revision has by default is assumed until control assigns. The error says what cannot be known; the record
// holds the rest.
func (h *Host) recordOf(id string, p proc, records map[string]record) (record, error) {
	r := record{ID: id, Boot: h.boot, Pid: p.pid, Start: p.start, Offered: true, Folder: h.folderOf(id)}
	if whole, ok := records[id]; ok {
		whole.Pid, whole.Start = p.pid, p.start
		return whole, nil
	}
	env := environAll(p.pid)
	r.Port, _ = strconv.Atoi(env[envPort])
	round, _ := strconv.ParseInt(env[envRound], 10, 32)
	r.Assignment = service.Assignment{
		Slot: env[envSlot], Service: env[envService], Revision: env[envRevision], Minted: env[envMinted], Group: env[envRevision], Round: int32(round),
	}
	a := &r.Assignment
	if !safeName.MatchString(a.Slot) || a.Service == "" || a.Revision == "" || r.Port <= 0 || r.Port > 65535 {
		if r.Port <= 0 || r.Port > 65535 {
			r.Port, r.Offered = 0, false // no gateway can know it
		}
		return r, fmt.Errorf("its environment does not name its slot, service, revision and port")
	}
	if known, ok := h.assignmentOfRevision(*a, records); ok {
		a.Group, a.Template, a.Dwell = known.Group, known.Template, known.Dwell
	} else {
		a.Template = templateOf(p.pid, env, r)
	}
	if s := h.slots[a.Slot]; s != nil {
		r.Restarts = s.rec.Restarts
	}
	return r, nil
}

// assignmentOfRevision finds a whole assignment of the same revision: its own
// slot's, or another's, which differs in slot and round only.
func (h *Host) assignmentOfRevision(a service.Assignment, records map[string]record) (service.Assignment, bool) {
	if s := h.slots[a.Slot]; s != nil && s.rec.Assignment.Revision == a.Revision && sameLife(a, s.rec.Assignment) {
		return s.rec.Assignment, true
	}
	for _, s := range h.slots {
		if o := s.rec.Assignment; o.Service == a.Service && o.Revision == a.Revision && sameLife(a, o) {
			return o, true
		}
	}
	for _, r := range records {
		if o := r.Assignment; o.Service == a.Service && o.Revision == a.Revision && sameLife(a, o) {
			return o, true
		}
	}
	return service.Assignment{}, false
}

// templateOf makes a template of what runs, when no record of its revision is
// whole: it starts the same program again until control assigns anew.
func templateOf(pid int, env map[string]string, r record) service.Template {
	t := service.Template{Env: map[string]string{}}
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil {
		for _, arg := range strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00") {
			t.Command = append(t.Command, strings.ReplaceAll(strings.ReplaceAll(arg, "$", "$$"), strconv.Itoa(r.Port), "$(PORT)"))
		}
	}
	reserved := []string{envPort, envService, envRevision, envMinted, envSlot, envRound, envInstance, envHost, "HOME", "TMPDIR", "PATH", "LANG"}
	for k, v := range env {
		if !slices.Contains(reserved, k) {
			t.Env[k] = v
		}
	}
	if dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd"); err == nil && dir != filepath.Join(r.Folder, "dir") {
		t.Dir = dir
	}
	return t
}

// folderOf finds the folder that an instance was given; empty when it is not there.
func (h *Host) folderOf(id string) string {
	for _, dir := range []string{h.folder.path(dirWork, id), filepath.Join(h.cfg.UserDir, id)} {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return ""
}
