package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/flock"
)

// Folders within the data folder. Each role has its own, with a lock.
const (
	dirControl   = "control"
	dirAuthority = "authority"
	dirBucket    = "bucket"
	dirGateway   = "gateway"
	dirHost      = "host"
	dirProber    = "prober"
	dirAgent     = "agent"
	dirRelay     = "relay"
	fileLock     = "lock"
	fileFormat   = "format"
)

// format of the data folder as this program lays it out.
const format = 1

// lock is the control folder's: whoever holds it runs the control plane there.
type lock struct{ f *os.File }

// inUse says whether another process has the data folder, without making
// anything.
func inUse(data string) error {
	f, err := os.OpenFile(filepath.Join(data, dirControl, fileLock), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Invalid, "use another folder by --data, or give this one to this user", "cannot use data folder %s: %w", data, err)
	}
	defer f.Close()
	return take(f, data)
}

// take locks the file for as long as it is open.
func take(f *os.File, data string) error {
	err := flock.Take(f)
	if errors.Is(err, flock.ErrHeld) {
		who := ""
		if pid := flock.Holder(f); pid != "" {
			who = ", with pid " + pid
		}
		return fault.New(fault.Invalid, "stop that one first, or name another folder by --data", "data folder %s is in use by another process%s", data, who)
	}
	if err != nil {
		return fmt.Errorf("cannot lock data folder %s: %w", data, err)
	}
	return nil
}

// openData makes the data folder or takes it, checks that this program knows
// its format, and locks it.
func openData(data string) (*lock, error) {
	if err := os.MkdirAll(filepath.Join(data, dirControl), 0o700); err != nil {
		return nil, fault.New(fault.Invalid, "name another folder by --data", "cannot make data folder %s: %w", data, err)
	}
	f, err := os.OpenFile(filepath.Join(data, dirControl, fileLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Invalid, "name another folder by --data", "cannot use data folder %s: %w", data, err)
	}
	l := &lock{f}
	if err := l.enter(data); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *lock) enter(data string) error {
	if err := take(l.f, data); err != nil {
		return err
	}
	if err := checkFormat(data); err != nil {
		return err
	}
	// For the message of the next one that comes; the lock itself needs no room.
	if l.f.Truncate(0) == nil {
		_, _ = l.f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return nil
}

// Close gives the folder to others.
func (l *lock) Close() error { return l.f.Close() }

// checkFormat refuses a folder that a newer program laid out, unchanged.
func checkFormat(data string) error {
	path := filepath.Join(data, dirControl, fileFormat)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", format), 0o600); err != nil {
			return fmt.Errorf("cannot write %s: %w", path, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n > format {
		return fault.New(fault.Invalid, "use the newer program, or another folder by --data",
			"data folder %s has format %q and was written by a newer program: this one knows formats up to %d", data, strings.TrimSpace(string(b)), format)
	}
	return nil
}
