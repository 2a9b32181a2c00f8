package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	if cause := classified(probe(filepath.Dir(path))); errors.Is(cause, store.ErrFull) || errors.Is(cause, store.ErrReadOnly) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// probe writes 8 KiB to a new file in the folder, and takes it away again.
func probe(folder string) error {
	f, err := os.CreateTemp(folder, ".probe-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 8<<10))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
