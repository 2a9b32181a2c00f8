package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// probe writes 8 KiB to a file beside the database, and takes it away again.
func probe(path string) error {
	name := path + ".probe"
	err := os.WriteFile(name, make([]byte, 8<<10), 0o600)
	if e := os.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
