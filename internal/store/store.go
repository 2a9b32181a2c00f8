// Package store is the port to the system of record: small JSON documents,
// compare-and-swap, atomic multi-document Apply, and a Watch that gives whole
// commits in commit order. It holds no rules of the product and never
// interprets a body. Read [Store] first; every implementation passes the suite
// in storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Key names one document.
type Key struct {
	Kind string // lower-case noun, e.g. "desired"
	Name string // unique within its kind, e.g. a service name
}

func (k Key) String() string { return k.Kind + "/" + k.Name }

// Document is one stored document at one version.
type Document struct {
	Key
	// Version is the sequence of the commit that wrote the document. It is
	// never zero for a document that exists, and never used twice for one key.
	Version uint64
	// Body is JSON. Implementations keep it byte for byte.
	Body []byte
}

// Write is one change within an Apply, bound to the version it read.
type Write struct {
	Key
	// Expect is the version that must stand for the write to be done.
	// Zero means that the document must not exist. Any skips the check.
	Expect uint64
	// Any writes (or deletes) whatever stands, existing or not.
	Any bool
	// Delete removes the document; Body is then ignored. Deleting a document
	// that does not exist is a conflict unless Any is set, then it is nothing.
	Delete bool
	Body   []byte
}

// Check is a condition of an Apply on a document that it does not write.
// Zero Version means that the document must not exist.
type Check struct {
	Key
	Version uint64
}

// Apply is one atomic set of writes.
type Apply struct {
	// ID identifies the Apply. It is stored with what it writes, so that
	// a repeated Apply is done once: the second call returns the first one's
	// result. Required, at most 64 bytes; remembered for at least an hour.
	// An ID that comes again with other checks or writes is refused (ErrInvalid).
	ID     string
	Checks []Check
	// Writes are at most one per key. An Apply without any is a commit
	// without changes, once its checks hold.
	Writes []Write
	// Essential lets the Apply use what an engine keeps back for a full disk
	// (its ballast), as an Apply of deletes alone may anyway. It is for what
	// brings the system back to safety, e.g. the return to an earlier route,
	// and changes nothing while there is room.
	Essential bool
}

// Result says what a done Apply did.
type Result struct {
	// Sequence numbers the commit; every document that it wrote has this Version.
	Sequence uint64
	// Repeated says that an earlier call with this ID did the work.
	Repeated bool
}

// Commit is one whole commit as a watcher sees it.
type Commit struct {
	Sequence uint64
	ApplyID  string
	Changes  []Change
}

// Change is one document's new state within a commit.
type Change struct {
	Document      // Body is nil when Deleted
	Deleted  bool // the document was removed by this commit
}

// Guarantee says what survives, for status pages.
type Guarantee struct {
	Engine      string // "sqlite", "postgres", "memory"
	Description string // one sentence, e.g. "survives a crash and power loss, not the loss of its disk"
}

// Store is the system of record. All methods are safe for concurrent use.
//
// Apply has three answers: nil error (done, and on disk); a [*ConflictError]
// (nothing was written; what stands is in it); an error that wraps
// [ErrUnknown] (the connection died in mid-commit: it may or may not have been
// done, and repeating the same Apply, same ID, settles it). Any other error
// means that nothing was written, e.g. one wrapping [ErrFull] or [ErrReadOnly].
type Store interface {
	// Get returns one document, or an error wrapping ErrNotFound.
	Get(ctx context.Context, key Key) (Document, error)
	// List returns all documents of the kind, ordered by name, and the
	// sequence at which that list is true. An empty kind lists everything.
	List(ctx context.Context, kind string) ([]Document, uint64, error)
	Apply(ctx context.Context, a Apply) (Result, error)
	// Watch starts after sequence from: commits with a greater sequence are
	// given, each whole, in order, each once. A from below what is kept gives
	// an error wrapping ErrTooOld: list again, watch from the list's sequence.
	// A from above the newest sequence gives ErrFuture: the store is older
	// than the watcher.
	Watch(ctx context.Context, from uint64) (Watcher, error)
	// Incarnation is a random identity minted when the store was created.
	// Sequences are compared only within one incarnation.
	Incarnation() string
	Guarantee() Guarantee
	// Close ends all watchers and releases locks. Calls after it fail with ErrClosed.
	Close() error
}

// Watcher is one running Watch. It is used by one goroutine at a time.
type Watcher interface {
	// Next blocks for the next commit. Its errors are final: ctx's, ErrTooOld
	// when the watcher fell behind what is kept, ErrClosed after Close of
	// the watcher or of the store.
	Next(ctx context.Context) (Commit, error)
	Close()
}

// Errors that a caller may act on.
var (
	ErrNotFound = errors.New("not found")
	ErrUnknown  = errors.New("unknown whether it was done")
	ErrTooOld   = errors.New("older than what is kept")
	ErrFuture   = errors.New("newer than the store")
	ErrClosed   = errors.New("store is closed")
	ErrFull     = errors.New("disk is full")
	ErrReadOnly = errors.New("store is read-only")
	ErrLocked   = errors.New("store is in use by another process")
	ErrNewer    = errors.New("store was written by a newer program")
	ErrInvalid  = errors.New("invalid apply")
	// ErrGone: the files that the store has open are no longer those at their
	// paths, so that what it writes would be lost with the process. It is
	// final: no Apply is acknowledged any more, watchers end with it, and only
	// reading what was there goes on. An Apply that was in mid-commit then is
	// answered by ErrUnknown and ErrGone in one, and so is its repetition:
	// repeating settles nothing here. On its own it says that nothing was written.
	ErrGone = errors.New("store's files were removed or replaced")
)

// ConflictError is the second answer of Apply: nothing was written.
type ConflictError struct {
	Key Key
	// Expected is the version that the Apply was bound to; zero for absence.
	Expected uint64
	// Stands is what is there now; its Version is zero when nothing is.
	Stands Document
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflict on %s: expected version %d, version %d stands", e.Key, e.Expected, e.Stands.Version)
}

// AsConflict returns the conflict in err, or nil.
func AsConflict(err error) *ConflictError {
	var c *ConflictError
	if errors.As(err, &c) {
		return c
	}
	return nil
}

// Retention of commits for watchers and of Apply identities.
const Retention = time.Hour
