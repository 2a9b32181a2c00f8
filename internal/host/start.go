package host

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// start makes the next process of a slot. What fails is shown as an instance
// that exited, and tried again after the back-off.
func (h *Host) start(s *slot) {
	h.mu.Lock()
	r := record{ID: mint(h.cfg.Now), Assignment: s.rec.Assignment, Restarts: s.rec.Restarts, Boot: h.boot}
	before := lastEnded(s)
	h.mu.Unlock()
	in, err := h.launch(r)
	if noRoom(err) {
		h.folder.ballast.give(err) // for the next try
	}
	if err == nil && before != nil {
		if err := in.journal.inherit(before.journal, before.detail); err != nil {
			h.log.Warn("the output of the process before is lost", "slot", s.id(), "error", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instances[r.ID] = in
	s.instances = append(s.instances, in)
	h.touchLocked(in)
	if err != nil {
		h.log.Error("cannot start an instance", "slot", s.id(), "error", err)
		in.state, in.detail = service.InstanceExited, err.Error()
		close(in.gone)
		h.endLocked(in)
		s.endedLocked(in, 0, h.cfg.Timing)
		return
	}
	in.detail = silentDetail(r.Port)
	if before != nil {
		in.lastLines, in.before, in.linesBefore = before.lastLines, before.detail, before.lastLines
	}
	h.log.Info("instance started", "instance", r.ID, "slot", s.id(), "revision", r.Assignment.Revision, "pid", in.rec.Pid, "port", in.rec.Port)
	h.tend(in)
}

// lastEnded is the slot's process whose end the next one tells of; one of
// another life of the slot's name is none of its business.
func lastEnded(s *slot) *instance {
	for _, in := range slices.Backward(s.instances) {
		if (in.deaf || !in.runs() && !in.retiring) && sameLife(in.rec.Assignment, s.rec.Assignment) {
			return in
		}
	}
	return nil
}

// launch does all that precedes a process, and makes it. The instance is
// returned in any case; only without an error does it run.
func (h *Host) launch(r record) (*instance, error) {
	t := r.Assignment.Template
	failed := func(err error) (*instance, error) { return h.newInstance(r), err }
	if err := h.checkTemplate(t); err != nil {
		return failed(err)
	}
	user, err := accountOf(t.User)
	if err != nil {
		return failed(err)
	}
	if r.Port, err = h.ports.claim(r.ID); err != nil {
		return failed(err)
	}
	if r.Folder, err = h.folderFor(r.ID, user); err != nil {
		return failed(err)
	}
	if err := h.folder.write(instanceFile(r.ID), r); err != nil {
		return failed(err)
	}
	in := h.newInstance(r)
	if err := h.launchIn(in, user); err != nil {
		return in, err
	}
	return in, nil
}

// folderFor names an instance's folder: below the host's own, or, for another
// user, where that one can reach it without passing the host's.
func (h *Host) folderFor(id string, user *account) (string, error) {
	if user == nil {
		return h.folder.path(dirWork, id), nil
	}
	if err := trustedDir(h.cfg.UserDir); err != nil {
		return "", err
	}
	return h.cfg.UserDir + "/" + id, nil
}

func (h *Host) launchIn(in *instance, user *account) error {
	t := in.rec.Assignment.Template
	f, err := makeFolders(in.rec.Folder, user)
	if err != nil {
		return err
	}
	h.lent.lend(in, user)
	l := launch{user: user, dir: f.dir}
	home := f.dir
	if user != nil {
		home = user.home
	}
	if t.Dir != "" {
		l.dir = t.Dir
	}
	l.env = h.environment(in.rec, home, f.tmp)
	l.argv = expandAll(t.Command, l.env)
	if l.path, err = h.programFor(in.rec, l, user); err != nil {
		return err
	}
	if l.out, err = in.journal.open(); err != nil {
		return err
	}
	child, err := spawn(l)
	if err := errors.Join(err, l.out.Close()); err != nil {
		return err
	}
	return h.taken(in, child)
}

// taken holds the new process and records it. Where that fails the process is
// ended, since nobody would know of it.
func (h *Host) taken(in *instance, child *os.Process) error {
	in.child = child
	var err error
	if in.leader, err = hold(child.Pid, 0); err == nil {
		in.rec.Pid, in.rec.Start = child.Pid, in.leader.start
		err = h.folder.write(instanceFile(in.rec.ID), in.rec)
	}
	if err == nil {
		return nil
	}
	kerr := child.Kill()
	if in.leader != nil {
		kerr = errors.Join(kerr, family{leader: in.leader, instance: in.rec.ID}.killAll(h.cfg.Timing.Kill))
		in.leader.close()
	}
	_, werr := child.Wait()
	return errors.Join(err, kerr, werr)
}

// programFor is the file to run: the artifact's copy, or the command found.
func (h *Host) programFor(r record, l launch, user *account) (string, error) {
	t := r.Assignment.Template
	if t.Artifact == "" {
		return findCommand(l.argv[0], l.dir, l.env["PATH"])
	}
	ctx, cancel := context.WithTimeout(h.ctx, time.Minute)
	defer cancel()
	path, err := h.artifacts.get(ctx, t.Artifact)
	if err != nil || user == nil {
		return path, err
	}
	return copyForUser(path, r.Folder)
}
