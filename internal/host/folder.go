package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/flock"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// safeName is what may become a file's name.
var safeName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,200}$`)

// slotRecord is what a host was last asked for one slot.
type slotRecord struct {
	Assignment service.Assignment `json:"assignment"`
	Stop       *service.Stop      `json:"stop,omitempty"` // set: the slot is to end
	// Restarts counts its earlier processes under this assignment.
	Restarts int `json:"restarts"`
}

// record is one process. It is written before the process is made, then again
// with Pid: where a host dies in between, the identity in the environment of
// the process finds it.
type record struct {
	ID         string             `json:"id"`
	Assignment service.Assignment `json:"assignment"` // as of its start
	Restarts   int                `json:"restarts"`
	Port       int                `json:"port"`
	Folder     string             `json:"folder,omitempty"` // of its own, removed with it
	// Offered says that gateways were told of it.
	Offered bool   `json:"offered,omitempty"`
	Boot    string `json:"boot"`
	Pid     int    `json:"pid,omitempty"`
	Start   uint64 `json:"start,omitempty"`
}

// folder is the host's own, locked.
type folder struct {
	dir  string
	lock *os.File
	// marker is the folder's random identity, in the environment of all that it started.
	marker  string
	ballast *ballast
	replace func(path string, b []byte) error // replaceFile, on a disk that may be full
}

const (
	dirSlots     = "slots"
	dirInstances = "instances"
	dirLogs      = "logs"
	dirWork      = "work"
	dirArtifacts = "artifacts"
	fileFence    = "fence.json"
	fileGateways = "gateways.json"
	fileRelays   = "relays.json"
	fileBallast  = "ballast"
	fileMarker   = "marker.json"
	fileEndings  = "endings.json"
)

// openFolder makes and locks the host's folder. A folder in use is [fault.Conflict].
func openFolder(dir string, log *slog.Logger) (*folder, error) {
	for _, d := range []string{dir, dirSlots, dirInstances, dirLogs, dirWork, dirArtifacts} {
		if d != dir {
			d = filepath.Join(dir, d)
		}
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make the host's folder: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the host's folder: %w", err)
	}
	if err := flock.Take(lock); err != nil {
		holder := flock.Holder(lock)
		lock.Close()
		return nil, fault.New(fault.Conflict, "stop the other process, or give this host another folder",
			"cannot lock %s: another process%s is this host: %w", dir, strings.TrimRight(" "+holder, " "), err)
	}
	if err := removeUnfinished(dir); err != nil {
		lock.Close()
		return nil, err
	}
	f := &folder{dir: dir, lock: lock, ballast: &ballast{path: filepath.Join(dir, fileBallast), log: log, room: roomBy}, replace: replaceFile}
	err = f.ballast.with(func() error {
		return errors.Join(lock.Truncate(0), writeAt(lock, fmt.Sprintf("%d\n", os.Getpid())))
	})
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("cannot lock the host's folder: %w", err)
	}
	if f.marker, err = f.ownMarker(log); err != nil {
		lock.Close()
		return nil, err
	}
	f.ballast.fill(true)
	return f, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

func (f *folder) close() { _ = f.lock.Close() }

func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// write replaces a record as a whole; when it returns, the record is on disk.
func (f *folder) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	if err := f.ballast.with(func() error { return f.replace(f.path(name), seal(b)) }); err != nil {
		return fault.New(fault.Exhausted, "", "cannot write %s: %w", f.path(name), err)
	}
	return nil
}

// removeUnfinished removes what a host that was killed had begun to write.
func removeUnfinished(dir string) error {
	for _, d := range []string{"", dirSlots, dirInstances, dirArtifacts} {
		begun, err := filepath.Glob(filepath.Join(dir, d, unfinished))
		if err != nil {
			return fmt.Errorf("cannot look for what was begun: %w", err)
		}
		for _, name := range begun {
			if err := os.Remove(name); err != nil {
				return fmt.Errorf("cannot remove what was begun: %w", err)
			}
		}
	}
	return nil
}

// unfinished is how a file is named until it is whole and takes its own name.
const unfinished = ".new-*"

func replaceFile(path string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), unfinished)
	if err != nil {
		return err
	}
	_, werr := tmp.Write(b)
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove erases a record; one that is not there is removed already.
func (f *folder) remove(name string) error {
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove %s: %w", name, err)
	}
	return syncDir(filepath.Dir(f.path(name)))
}
