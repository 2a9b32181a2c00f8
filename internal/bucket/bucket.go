// Package bucket is the port to object storage: whole, immutable-by-convention
// blobs under slash-separated names. Artifacts live here by digest, and later
// the sealed segments of evidence and history. Read [Bucket] first; every
// implementation passes the suite in buckettest.
package bucket

import (
	"context"
	"errors"
	"io"
	"time"
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
	Delete(ctx context.Context, name string) error
}

// Errors that a caller may act on.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrBadName  = errors.New("bad name") // empty, absolute, "..", control characters, over 512 bytes
	ErrFull     = errors.New("disk is full")
)
