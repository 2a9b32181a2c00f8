package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// slack is the room in bytes that must be free beyond the ballast before it
// is taken again, so that it does not at once fill the disk itself.
const slack = 1 << 20

// ballast is a file that holds room on the disk. States:
//
//	held ──a write meets a full disk──► full ──room for the ballast again──► held
//
// While full an eighth is still kept, for the day that the store must be
// opened on the full disk: SQLite cannot do so without some room.
// Without a size it holds nothing, and full ends by the next look at the disk.
type ballast struct {
	path string
	size int64
	full atomic.Bool // read by anyone, changed by the writing goroutine
}

func newBallast(o Options) *ballast {
	return &ballast{path: o.Path + ".ballast", size: o.Ballast}
}

// release becomes full and frees the room, but for the part that opening
// needs. It reports whether there was any.
func (b *ballast) release() bool {
	b.full.Store(true)
	return b.held() > b.size/8 && os.Truncate(b.path, b.size/8) == nil
}

// releaseAll becomes full and frees all that is left.
func (b *ballast) releaseAll() bool {
	b.full.Store(true)
	return b.held() > 0 && os.Remove(b.path) == nil
}

// restore takes the room again if the disk has it, and reports whether the
// state changed to held.
func (b *ballast) restore() bool {
	if !b.full.Load() {
		return false
	}
	return b.allocate() == nil
}

// allocate takes the room and becomes held, or becomes full.
func (b *ballast) allocate() error {
	err := b.take()
	b.full.Store(err != nil)
	return err
}

func (b *ballast) take() error {
	held := b.held()
	if held >= b.size && b.size > 0 {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(b.path), &fs); err != nil {
		return err
	}
	if int64(fs.Bavail)*fs.Bsize < b.size-held+slack {
		return unix.ENOSPC
	}
	if b.size == 0 {
		return nil
	}
	err := fill(b.path, b.size)
	if err != nil {
		return errors.Join(err, os.Truncate(b.path, held))
	}
	return nil
}

// held returns the bytes that are really allocated.
func (b *ballast) held() int64 {
	var st unix.Stat_t
	if unix.Stat(b.path, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// fill allocates size bytes at path, by writing them where the file system
// cannot allocate.
func fill(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = writeOut(f, size)
	}
	return errors.Join(err, f.Close())
}

func writeOut(f *os.File, size int64) error {
	block := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(block)) {
		if _, err := f.WriteAt(block[:min(int64(len(block)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}
