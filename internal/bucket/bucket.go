// Package bucket is the port to object storage: whole, immutable-by-convention
// blobs under slash-separated names. Artifacts live here by digest, and later
// the sealed segments of evidence and history. Read [Bucket] first; every
// implementation passes the suite in buckettest.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Info describes one blob.
type Info struct {
	Name     string
	Size     int64
	Modified time.Time
}

// Bucket stores blobs. All methods are safe for concurrent use.
type Bucket interface {
	// Put stores r under name, whole or not at all, and on disk before it
	// returns. ifAbsent refuses with ErrExists where the name is taken.
	Put(ctx context.Context, name string, r io.Reader, ifAbsent bool) (Info, error)
	// Open returns the blob, or an error wrapping ErrNotFound.
	Open(ctx context.Context, name string) (io.ReadCloser, Info, error)
	Stat(ctx context.Context, name string) (Info, error)
	// List returns the blobs whose name starts with prefix, ordered by name.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Delete removes the blob; one that does not exist is not an error.
	// One that is retained is not deleted before its date, with an error
	// wrapping ErrRetained, and never replaced, with one wrapping ErrExists.
	Delete(ctx context.Context, name string) error
}

const (
	retainedMark = ".until-"
	retainedDay  = "2006-01-02"
)

// Retained gives a name the day, in UTC, until whose end its blob is neither
// deleted nor replaced.
func Retained(name string, until time.Time) string {
	return name + retainedMark + until.UTC().Format(retainedDay)
}

// RetainedUntil is the instant that [Retained] gave a name; false where it gave
// none.
func RetainedUntil(name string) (time.Time, bool) {
	i := strings.LastIndex(name, retainedMark)
	if i < 0 {
		return time.Time{}, false
	}
	day, err := time.Parse(retainedDay, name[i+len(retainedMark):])
	return day.AddDate(0, 0, 1), err == nil
}

// MaxName is the longest name, in bytes; MaxPart that of what is between two
// slashes.
const (
	MaxName = 512
	MaxPart = 200
)

// CheckName returns an error wrapping ErrBadName where name is not 1 to
// MaxName bytes of UTF-8 without control characters, in parts of 1 to MaxPart
// bytes that are neither "." nor "..".
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: it must have 1 to %d bytes of UTF-8: %q", ErrBadName, MaxName, name)
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f {
			return fmt.Errorf("%w: it has control characters: %q", ErrBadName, name)
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > MaxPart {
			return fmt.Errorf("%w: its parts must have 1 to %d bytes and be neither . nor ..: %q", ErrBadName, MaxPart, name)
		}
	}
	return nil
}

// Errors that a caller may act on.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrBadName  = errors.New("bad name") // empty, absolute, "..", control characters, over 512 bytes
	ErrFull     = errors.New("disk is full")
	ErrRetained = errors.New("is retained") // until the day in its name
)
