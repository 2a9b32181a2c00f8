package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// lookInterval is how often an idle store looks whether its files are there.
const lookInterval = time.Second

// heldFiles are those that the store has open, to be compared with what is at
// their paths: SQLite goes on writing to a file that was removed, and so would
// an acknowledgement be given that is worth nothing.
type heldFiles struct {
	path     string
	lock     *os.File
	database *os.File // nil before take; closed only after the engine, see close
	// own are the two above, by their paths; they stay to the end.
	own map[string]fs.FileInfo // :: path → file
	// log is SQLite's log and its index as they were when the engine was
	// opened; they stay as long as it is open. Nil while there is no engine.
	log map[string]fs.FileInfo // :: path → file
}

// take opens the database's file, or makes an empty one that only its owner
// can read (SQLite gives the files beside it the same mode), and locks it.
func (f *heldFiles) take() error {
	if f.database != nil {
		return nil
	}
	database, err := os.OpenFile(f.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return classified(err)
	}
	if err := lockDatabase(database); err != nil {
		return errors.Join(err, database.Close())
	}
	own := map[string]fs.FileInfo{}
	for _, file := range []*os.File{database, f.lock} {
		st, err := file.Stat()
		if err != nil {
			return errors.Join(err, database.Close())
		}
		own[file.Name()] = st
	}
	f.database, f.own = database, own
	writeHolder(f.lock)
	return nil
}

// lockByte is far beyond the bytes that SQLite locks and a file can have.
const lockByte = 1 << 62

// lockDatabase locks the file itself, so that a second process is refused also
// where the lock file was removed. The lock belongs to the open file, not to
// the process, and does not meet SQLite's own.
func lockDatabase(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: lockByte, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w, whose lock file was removed: stop that process first, or name another folder", store.ErrLocked)
	}
	if err != nil {
		return fmt.Errorf("cannot lock %s: %w", f.Name(), err)
	}
	return nil
}

// see remembers the log of the engine that was just opened.
func (f *heldFiles) see() error {
	log := map[string]fs.FileInfo{}
	for _, path := range []string{f.path + "-wal", f.path + "-shm"} {
		st, err := os.Stat(path)
		if err != nil {
			return errors.Join(goneIf(path, err), err)
		}
		log[path] = st
	}
	f.log = log
	return f.look()
}

// look returns an error wrapping store.ErrGone where another file, or none, is
// at a path.
func (f *heldFiles) look() error {
	for _, files := range []map[string]fs.FileInfo{f.own, f.log} {
		for path, st := range files {
			if err := there(path, st); err != nil {
				return err
			}
		}
	}
	return nil
}

func there(path string, want fs.FileInfo) error {
	got, err := os.Stat(path)
	if err != nil {
		return goneIf(path, err)
	}
	if !os.SameFile(got, want) {
		return fmt.Errorf("%w: %s is another file than this process has open", store.ErrGone, path)
	}
	return nil
}

// goneIf tells a file that is gone from one that cannot be seen at the moment,
// e.g. for the rights of its folder: what is written to that one is kept.
func goneIf(path string, err error) error {
	for _, missing := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.ESTALE} {
		if errors.Is(err, missing) {
			return fmt.Errorf("%w: %s is missing", store.ErrGone, path)
		}
	}
	return nil
}

// close gives the locks up. It must come after the engine's close: closing any
// descriptor of the database drops the locks that SQLite has on it.
func (f *heldFiles) close() error {
	var err error
	if f.database != nil {
		err = f.database.Close()
	}
	return errors.Join(err, f.lock.Close())
}

// look looks at the files, and ends the watchers where they are gone. Only the
// writing goroutine calls it: the files are open until that has ended.
func (s *Store) look() error {
	if err := s.lostError(); err != nil {
		return err
	}
	s.connections.RLock()
	defer s.connections.RUnlock()
	return s.lookLocked()
}

func (s *Store) lookLocked() error {
	if err := s.files.look(); err != nil {
		s.lose(err)
		return s.lostErr
	}
	return nil
}

func (s *Store) lose(cause error) {
	s.losing.Do(func() {
		s.lostErr = fmt.Errorf("%w; nothing more is recorded, and what was recorded can only be read while this process runs: "+
			"stop it, put the store's folder back from a copy or let it begin empty, and start it again", cause)
		s.options.Log.Error("the store's files are gone: nothing more is recorded", "path", s.options.Path, "error", s.lostErr)
		close(s.lost)
	})
}

// lostError returns why nothing is recorded any more, or nil.
func (s *Store) lostError() error {
	select {
	case <-s.lost:
		return s.lostErr
	default:
		return nil
	}
}

// Health looks at the store's files and returns nil where they are as the
// store has them open and no read found damage in them. Otherwise its error,
// which wraps store.ErrGone where they are gone, says what happened and what to
// do; it is final: the process should end. After Close it wraps store.ErrClosed. It is cheap, and safe for concurrent use.
func (s *Store) Health() error {
	s.connections.RLock()
	defer s.connections.RUnlock()
	if s.isClosed() {
		return store.ErrClosed // the files are being given up
	}
	if err := s.lostError(); err != nil {
		return err
	}
	if damage := s.damage.Load(); damage != nil {
		return *damage
	}
	return s.lookLocked()
}
