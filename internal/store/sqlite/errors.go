package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// primary returns SQLite's primary result code in err, or zero.
func primary(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isDamaged says that SQLite found content that it never writes.
func isDamaged(err error) bool {
	code := primary(err)
	return code == codes.SQLITE_CORRUPT || code == codes.SQLITE_NOTADB
}

// classified wraps err in the port's error for a full disk or a read-only file.
func classified(err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrFull), errors.Is(err, store.ErrReadOnly):
		return err
	case primary(err) == codes.SQLITE_FULL, errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case primary(err) == codes.SQLITE_READONLY, errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	return err
}

// diagnosed is classified, and looks where SQLite only says that a file could
// not be opened or written: it tries to write beside the database.
func diagnosed(path string, err error) error {
	err = classified(err)
	if code := primary(err); code != codes.SQLITE_IOERR && code != codes.SQLITE_CANTOPEN {
		return err
	}
	if cause := classified(probe(path)); errors.Is(cause, store.ErrFull) || errors.Is(cause, store.ErrReadOnly) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// explained leads with what happened and what to do about it.
func (s *Store) explained(cause error) error {
	folder := filepath.Dir(s.options.Path)
	switch {
	case errors.Is(cause, store.ErrGone), errors.Is(cause, store.ErrClosed):
		return cause
	case isDamaged(cause):
		return explanation{cause, "the store's file " + s.options.Path + " is damaged: stop this process, put the store's folder back from a copy or let it begin empty, and start it again; what is served goes on"}
	case errors.Is(cause, store.ErrFull):
		return explanation{cause, store.ErrFull.Error() + ": make room in " + folder + "; until then only deletes and essential writes are recorded"}
	case errors.Is(cause, store.ErrReadOnly):
		return explanation{cause, store.ErrReadOnly.Error() + ": make " + folder + " writable for this user, on a disk that is mounted so"}
	}
	return explanation{cause, "the store's disk or database failed: look at the disk of " + folder}
}

// explanation is an error that says first what it means to who reads it.
type explanation struct {
	cause error
	text  string
}

func (e explanation) Error() string {
	if strings.HasPrefix(e.text, e.cause.Error()) {
		return e.text
	}
	return e.text + " (" + e.cause.Error() + ")"
}

func (e explanation) Unwrap() error { return e.cause }

// probe writes 8 KiB to a file beside the database, and takes it away again.
func probe(path string) error {
	name := path + ".probe"
	err := os.WriteFile(name, make([]byte, 8<<10), 0o600)
	if e := os.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
