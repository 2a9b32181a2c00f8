package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// prepareFolder makes the database's folder and file where they are missing,
// and refuses what cannot be written before anything is touched.
func prepareFolder(path string) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return classified(err)
	}
	for _, p := range []string{folder, path} {
		err := unix.Access(p, unix.W_OK)
		if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
			return fmt.Errorf("%s: %w: make it writable for this user, or name another folder", p, store.ErrReadOnly)
		}
	}
	return nil
}

// syncFolders makes the names of a new database survive power loss.
func syncFolders(path string) error {
	folder := filepath.Dir(path)
	for _, p := range []string{folder, filepath.Dir(folder)} {
		if err := syncFolder(p); err != nil {
			return err
		}
	}
	return nil
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // a parent that we may not read is not ours to sync
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// takeLock locks the file at path for the life of the process. The lock goes
// with the process, however it ends.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, classified(err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(lockedBy(f), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// writeHolder leaves the holder's pid for lockedBy. It is a courtesy that a
// full disk may deny: the lock itself needs no room.
func writeHolder(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
}

func lockedBy(f *os.File) error {
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	pid := strings.TrimSpace(string(b[:n]))
	if pid == "" {
		return fmt.Errorf("%w: stop it first, or name another folder", store.ErrLocked)
	}
	return fmt.Errorf("%w, with pid %s: stop it first, or name another folder", store.ErrLocked, pid)
}
