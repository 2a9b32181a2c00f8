package host

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

const (
	ballastSize = 1 << 20  // bytes
	ballastStep = 64 << 10 // given up at a time, so that others who write cannot take all at once
)

// ballast is room that the host has taken beside its records, to be given up
// when the disk is full: who fills a disk must not keep a stop or a restart from
// being recorded. It is taken again when there is room for it twice.
type ballast struct {
	path string
	log  *slog.Logger
	room func(*os.File) (int64, error) // bytes that are left on the disk of a file

	mu    sync.Mutex
	short error // why it is not whole; nil means that it is
}

// noRoom says that a write failed because the disk, or a quota, is full.
func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// with does a write, and again each time that room could be made for it.
func (b *ballast) with(do func() error) error {
	for {
		err := do()
		if !noRoom(err) || !b.give(err) {
			return err
		}
	}
}

// give frees one step; false when nothing is left to be given.
func (b *ballast) give(why error) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.short == nil {
		b.log.Error("the disk is full: the host gives up room that it kept for its records", "ballast", b.path, "error", why)
	}
	b.short = why
	st, err := os.Stat(b.path)
	if err != nil || st.Size() == 0 {
		return false
	}
	if err := os.Truncate(b.path, max(st.Size()-ballastStep, 0)); err != nil {
		b.log.Error("cannot give up room", "ballast", b.path, "error", err)
		return false
	}
	return true
}

// fill takes what is missing when there is room for the whole twice. It is
// cheap while the ballast is whole.
func (b *ballast) fill(first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.short == nil && !first {
		return
	}
	err := b.take()
	switch {
	case err == nil && b.short != nil:
		b.log.Info("the disk has room again", "ballast", b.path)
	case err != nil && b.short == nil:
		b.log.Error("the host keeps no room for its records", "ballast", b.path, "error", err)
	}
	b.short = err
}

func (b *ballast) take() error {
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	left, rerr := b.room(f)
	err = errors.Join(rerr, unix.Fstat(int(f.Fd()), &st))
	switch {
	case err != nil || st.Size == ballastSize && st.Blocks*512 >= ballastSize:
	case left < 2*ballastSize:
		err = fmt.Errorf("%d bytes are left: %w", left, unix.ENOSPC)
	default:
		err = allocate(f)
	}
	return errors.Join(err, f.Close())
}

func roomBy(f *os.File) (int64, error) {
	var fs unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &fs)
	return int64(fs.Bavail) * int64(fs.Bsize), err
}

// allocate takes real blocks, by writing where the file system cannot reserve.
func allocate(f *os.File) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, ballastSize)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if _, err := io.Copy(io.NewOffsetWriter(f, 0), io.LimitReader(noise(), ballastSize)); err != nil {
		return err
	}
	return f.Sync()
}

// Health is nil as long as the host can do its duty. It is [fault.Exhausted]
// when the disk that its records are on is full: what runs goes on, and what is
// left of the room that the host kept is used for stops and restarts.
func (h *Host) Health() error {
	b := h.folder.ballast
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.short == nil {
		return nil
	}
	return fault.New(fault.Exhausted, "make room on the disk of "+h.folder.dir,
		"cannot count on this host: the disk of its records is full: %w", b.short)
}
