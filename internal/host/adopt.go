package host

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// adopt takes over what an earlier process of this host left running, notes
// what has ended since, and retires what belongs to nothing. A damaged record
// ends no process: what it said is told by the other records, or by the
// process itself.
func (h *Host) adopt() error {
	records, _, err := readAll[record](h.folder, dirInstances, h.log)
	if err != nil {
		return err
	}
	carried, err := h.carriers()
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.rebuildSlotsLocked(records, carried)
	var lost []*instance
	for id, r := range records {
		if _, runs := carried[id]; r.Pid == 0 && runs {
			continue // made, and not recorded before its host died: adopted below
		}
		if in := h.adoptLocked(r); in != nil {
			lost = append(lost, in)
		}
	}
	rebuilt, ended := h.adoptCarriersLocked(records, carried)
	lost = append(lost, ended...)
	for _, s := range h.slots {
		slices.SortFunc(s.instances, func(a, b *instance) int { return cmp.Compare(a.rec.Start, b.rec.Start) })
	}
	known := map[string]bool{} // :: instance
	for id := range h.endings {
		known[id] = true
	}
	for id := range h.instances {
		known[id] = true
	}
	for id := range records {
		known[id] = true
	}
	h.mu.Unlock()
	h.keepRebuilt(rebuilt)
	if err := h.endRemains(); err != nil {
		return err
	}
	for _, in := range lost {
		h.clean(in)
	}
	if err := h.sweep(known); err != nil {
		return err
	}
	return h.ports.keepOnly(known)
}

// adoptLocked takes one recorded process over, or returns it as lost: its boot,
// number and start time do not all match what runs.
func (h *Host) adoptLocked(r record) (lost *instance) {
	in := h.newInstance(r)
	in.adopted = true
	in.wasLive, in.heard = r.Offered, time.Now()
	if s := h.slots[in.slot()]; r.Boot == h.boot && r.Pid != 0 && s != nil {
		if held, err := hold(r.Pid, r.Start); err == nil {
			in.leader = held
			h.instances[r.ID] = in
			s.instances = append(s.instances, in)
			if r.Offered {
				h.ledger.open(r.ID, r.Assignment.Group, r.Assignment.Template.AtOnce(), true)
			}
			h.log.Info("instance is adopted", "instance", r.ID, "slot", in.slot(), "pid", r.Pid)
			h.tend(in)
			return nil
		}
		if s.rec.Stop == nil && r.Assignment.Round == s.rec.Assignment.Round && sameLife(r.Assignment, s.rec.Assignment) {
			s.rec.Restarts = max(s.rec.Restarts, r.Restarts+1)
		}
	}
	h.log.Info("instance has ended while the host was away", "instance", r.ID, "slot", in.slot())
	h.endAdoptedLocked(in)
	return in
}

// endAdoptedLocked is endLocked before links exist: every known gateway is waited for.
func (h *Host) endAdoptedLocked(in *instance) {
	e := &ending{Port: in.rec.Port, Ended: h.cfg.Now()}
	if in.wasLive {
		for name := range h.ledger.gateways {
			e.Waiting = append(e.Waiting, name)
		}
	}
	if in.rec.Port != 0 {
		h.endings[in.rec.ID] = e
	}
}

// endRemains ends every process that carries this folder's marker and belongs
// to no adopted instance: what outlived the first process of its instance.
func (h *Host) endRemains() error {
	all, err := allProcs()
	if err != nil {
		return err
	}
	for _, p := range all {
		marker, ok := environOf(p.pid, envHost)
		if !ok || marker != h.folder.marker || p.ended() || p.pid == os.Getpid() {
			continue
		}
		id, _ := environOf(p.pid, envInstance)
		h.mu.Lock()
		in := h.instances[id]
		h.mu.Unlock()
		if in != nil {
			continue // it ends with its instance
		}
		h.log.Warn("what outlived its instance is ended", "pid", p.pid, "program", p.name, "instance", id)
		if err := endStray(p); err != nil {
			return err
		}
	}
	return nil
}

func endStray(p proc) error {
	held, err := hold(p.pid, p.start)
	if err != nil {
		return nil // it ended meanwhile
	}
	defer held.close()
	if err := held.signal(unix.SIGKILL); err != nil {
		return fmt.Errorf("cannot end a stray process: %w", err)
	}
	return nil
}

// sweep removes folders and outputs of instances that are not known.
func (h *Host) sweep(known map[string]bool) error {
	var errs []error
	for _, dir := range []string{h.folder.path(dirWork), h.folder.path(dirLogs), h.cfg.UserDir} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			errs = append(errs, ignoreMissing(err))
			continue
		}
		for _, e := range entries {
			id := e.Name()
			for ext := filepath.Ext(id); ext != ""; ext = filepath.Ext(id) {
				id = id[:len(id)-len(ext)]
			}
			if !known[id] {
				errs = append(errs, removeTree(filepath.Join(dir, e.Name())))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot sweep the host's folder: %w", err)
	}
	return nil
}

// removeTree removes a folder, read-only ones inside it included.
func removeTree(dir string) error {
	if dir == "" {
		return nil
	}
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	werr := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil // what cannot be read is reported by the removal
	})
	return errors.Join(werr, os.RemoveAll(dir))
}
