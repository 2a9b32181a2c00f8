package resolver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// folderLock has one process at a time write a folder. It is taken when something
// is first written, and given up when its holder ends, however that ends. Reading
// needs none: files are replaced whole.
type folderLock struct{ file *os.File }

const lockName = "lock"

// errShared is no reason to stop: what is held is in memory.
var errShared = errors.New("another process keeps views there: give each process a folder of its own")

func (l *folderLock) take(folder string) error {
	if l.file != nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot keep views: %w", err)
	}
	if err := lockFile(f); err != nil {
		return fmt.Errorf("cannot keep views in %s: %w", folder, errors.Join(err, f.Close()))
	}
	l.file = f
	return nil
}

func (l *folderLock) release() {
	if l.file != nil {
		_ = l.file.Close() // its lock goes with it
		l.file = nil
	}
}
