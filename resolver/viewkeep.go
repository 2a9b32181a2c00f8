package resolver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

const (
	viewSuffix = ".view"
	marksName  = "marks"
	doorsName  = "relays"
)

// pathOf a service's file; any name makes one.
func (h *Views) pathOf(service string) string {
	return filepath.Join(h.cfg.Folder, url.PathEscape(service)+viewSuffix)
}

// load reads all that is on disk.
func (h *Views) load() {
	entries, err := os.ReadDir(h.cfg.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.noteLocked("cannot read the folder of the views: " + err.Error())
	}
	var services []string
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), viewSuffix)
		if service, err := url.PathUnescape(name); is && err == nil {
			services = append(services, service)
		}
	}
	for i, f := range h.read(services) {
		h.loaded(services[i], f)
	}
	got := marksFile.load(filepath.Join(h.cfg.Folder, marksName), &h.marks)
	notes := append(got.notes, doorsFile.load(filepath.Join(h.cfg.Folder, doorsName), &h.doors).notes...)
	for _, n := range notes {
		h.noteLocked(n)
	}
	h.keptDoors = h.doors
}

// onDisk is what the file of a view says.
type onDisk struct {
	loaded
	dormant
}

// read the files of services, as many at a time as there are processors.
func (h *Views) read(services []string) []onDisk {
	out := make([]onDisk, len(services))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(services)) {
		readers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(services)); i = next.Add(1) - 1 {
				out[i].loaded = viewFile.load(h.pathOf(services[i]), &out[i].dormant)
			}
		})
	}
	readers.Wait()
	return out
}

func (h *Views) loaded(service string, f onDisk) {
	for _, n := range f.notes {
		h.noteLocked("of " + service + ": " + n)
	}
	if !f.found {
		return
	}
	if f.Told.Name != service || f.Told.Version.Zero() {
		h.noteLocked(setAside(h.pathOf(service), fmt.Errorf("the view of %q is in the file of %q", f.Told.Name, service)))
		return
	}
	h.held[service] = &holding{asleep: &f.dormant}
	if f.written.After(h.heard) {
		h.heard = f.written
	}
}

// wakeLocked has a view that is on disk held, if that was still to be done.
func (h *Views) wakeLocked(service string, x *holding) {
	d := x.asleep
	if d == nil {
		return
	}
	x.asleep = nil
	if err := d.wake(); err != nil {
		h.noteLocked("of " + service + ": " + setAside(h.pathOf(service), fmt.Errorf("cannot read the view: %w", err)))
		return
	}
	x.held = view.RestoreService(d.ServiceSnapshot)
	x.kept, x.fromDisk = x.held, x.held
}

// keepLoop writes what is held whenever it is not what is on disk. It tries
// once more at the end.
func (h *Views) keepLoop(ctx context.Context) {
	var retry <-chan time.Time
	for {
		select { // something is to be kept, it is time to try again, or the end
		case <-h.dirty:
		case <-retry:
		case <-ctx.Done():
			h.keep()
			return
		}
		retry = nil
		if err := h.keep(); err != nil {
			retry = time.After(keepRetry)
		}
	}
}

// keep writes every file that is not as what is held.
func (h *Views) keep() error {
	err := h.write()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && (h.keepErr == nil || h.keepErr.Error() != err.Error()) {
		h.noteLocked(err.Error())
	}
	h.keepErr = err
	h.changedLocked()
	return err
}

func (h *Views) write() error {
	if err := h.lock.take(h.cfg.Folder); err != nil {
		return err
	}
	var errs []error
	for service, held := range h.unkept() {
		content, err := viewFile.encode(held.Snapshot())
		if err == nil {
			err = viewFile.replace(h.pathOf(service), content)
		}
		if err == nil {
			h.keptView(service, held)
		}
		errs = append(errs, err)
	}
	errs = append(errs, h.keepMarks(), h.keepDoors(), h.removeGone())
	return errors.Join(errs...)
}

func (h *Views) unkept() map[string]*view.HeldService {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]*view.HeldService{} // :: service → what is to be written
	for service, x := range h.held {
		if x.held != nil && x.held != x.kept {
			out[service] = x.held
		}
	}
	return out
}

func (h *Views) keptView(service string, held *view.HeldService) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.held[service]; x != nil {
		x.kept = held
	} else {
		h.gone[service] = true // it is wanted no more, and was written meanwhile
	}
}

func (h *Views) keepMarks() error {
	h.mu.Lock()
	marks, heeds, kept := h.marks, h.heeds, h.keptMarks
	h.mu.Unlock()
	if heeds == kept {
		return nil
	}
	content, err := marksFile.encode(marks)
	if err == nil {
		err = marksFile.replace(filepath.Join(h.cfg.Folder, marksName), content)
	}
	if err == nil {
		h.mu.Lock()
		h.keptMarks = heeds
		h.mu.Unlock()
	}
	return err
}

func (h *Views) removeGone() error {
	h.mu.Lock()
	var services []string
	for s := range h.gone {
		services = append(services, s)
	}
	h.mu.Unlock()
	var errs []error
	for _, s := range services {
		if err := os.Remove(h.pathOf(s)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("cannot remove the view of %s: %w", s, err))
			continue
		}
		h.mu.Lock()
		if x := h.held[s]; x != nil {
			x.kept = nil // it is wanted again, and was removed just now
		}
		delete(h.gone, s)
		h.mu.Unlock()
	}
	return errors.Join(errs...)
}
