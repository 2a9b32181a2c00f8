package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// adopt takes over what an earlier process of this host left running, notes
// what has ended since, and ends what no record knows.
func (h *Host) adopt() error {
	records, err := readAll[record](h.folder, dirInstances, h.log)
	if err != nil {
		return err
	}
	known := map[string]bool{} // :: instance
	var lost []*instance
	h.mu.Lock()
	for id := range h.endings {
		known[id] = true
	}
	for id, r := range records {
		known[id] = true
		if in := h.adoptLocked(r); in != nil {
			lost = append(lost, in)
		}
	}
	for _, s := range h.slots {
		slices.SortFunc(s.instances, func(a, b *instance) int { return int(a.rec.Start) - int(b.rec.Start) })
	}
	h.mu.Unlock()
	if err := h.endStrays(); err != nil {
		return err
	}
	for _, in := range lost {
		h.clean(in)
	}
	if err := h.sweep(records); err != nil {
		return err
	}
	return h.ports.keepOnly(known)
}

// adoptLocked takes one recorded process over, or returns it as lost: its boot,
// number and start time do not all match what runs.
func (h *Host) adoptLocked(r record) (lost *instance) {
	in := h.newInstance(r)
	in.adopted = true
	in.wasLive = r.Offered
	if s := h.slots[in.slot()]; r.Boot == h.boot && r.Pid != 0 && s != nil {
		if held, err := hold(r.Pid, r.Start); err == nil {
			in.leader = held
			h.instances[r.ID] = in
			s.instances = append(s.instances, in)
			if r.Offered {
				h.ledger.open(r.ID, r.Assignment.Group, concurrencyOf(r.Assignment.Template), true)
			}
			h.log.Info("instance is adopted", "instance", r.ID, "slot", in.slot(), "pid", r.Pid)
			h.tend(in)
			return nil
		}
		if s.rec.Stop == nil && r.Assignment.Round == s.rec.Assignment.Round {
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

// endStrays ends every process that carries this folder's marker and belongs to
// no adopted instance: one that was made but not recorded, or that outlived
// its instance.
func (h *Host) endStrays() error {
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
		if in != nil && (p.session == in.rec.Pid || p.pid == in.rec.Pid) {
			continue
		}
		h.log.Warn("a stray process is ended", "pid", p.pid, "program", p.name, "instance", id)
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

// sweep removes folders and outputs of instances that no record knows.
func (h *Host) sweep(records map[string]record) error {
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
			if _, ok := records[id]; !ok {
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
