// Package flock locks a file for as long as it is open. It holds one rule: who
// was killed has given its locks up. Read [Take].
package flock

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphaned is how long the lock of a dead holder is waited for. A process that
// was killed while it started another may have left a child between fork and
// exec, which has the holder's files open until it is given the processor.
const orphaned = 5 * time.Second

// ErrHeld says that another process has the file locked.
var ErrHeld = errors.New("the file is locked by another process")

// Take locks the file, whose content is the pid of its holder, or nothing. Where
// another process has it locked, the error is ErrHeld, at once, unless the one
// that is named has ended: then its lock is waited for.
func Take(f *os.File) error {
	for end := time.Now().Add(orphaned); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if !ended(Holder(f)) || time.Now().After(end) {
			return ErrHeld
		}
	}
}

// Holder is the pid that the file names; empty where it names none.
func Holder(f *os.File) string {
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// ended says that there is no process of this pid. One that waits to be reaped
// has given up its locks, and is as good as none.
func ended(pid string) bool {
	if _, err := strconv.Atoi(pid); err != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(state, "Z")
}
