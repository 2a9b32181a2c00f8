// Package memory keeps the documents of a region in memory. It passes the same
// suite as the engines on disk and is what tests and harnesses run on, in
// virtual time too: it starts no goroutine and waits on channels only, with no
// lock held. Read [Backend] first; it is the disk, and a [Store] is one
// process's handle on it.
package memory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Options of a Backend.
type Options struct {
	// Now is the clock by which commits age; nil is time.Now.
	Now func() time.Time
	// Retention of commits and Apply identities; zero is store.Retention.
	Retention time.Duration
	// KeepCommits bounds the commits kept for watchers, whatever their age;
	// zero is no bound. Identities are kept for Retention all the same.
	KeepCommits int
	// Incarnation of the store; empty mints a random one.
	Incarnation string
}

// Backend holds what a disk would hold. Handles opened on it share all of it.
// Within a testing/synctest bubble it must be made in the bubble.
type Backend struct {
	options Options

	mu sync.Mutex
	// documents :: kind → name → document as it stands
	documents map[string]map[string]store.Document
	sequence  uint64
	// log has the commits floor+1 to sequence, without a gap.
	log   []entry
	floor uint64
	// identities :: Apply ID → what it did; ages lists them, oldest first.
	identities map[string]identity
	ages       []identity
	// wake is closed and replaced by each commit.
	wake chan struct{}
}

type entry struct {
	commit store.Commit
	at     time.Time
}

type identity struct {
	id       string
	digest   store.Digest
	sequence uint64
	at       time.Time
}

// New returns an empty Backend.
func New(o Options) *Backend {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Retention == 0 {
		o.Retention = store.Retention
	}
	if o.Incarnation == "" {
		var b [16]byte
		rand.Read(b[:]) // never fails, by its contract
		o.Incarnation = hex.EncodeToString(b[:])
	}
	return &Backend{
		options:    o,
		documents:  map[string]map[string]store.Document{},
		identities: map[string]identity{},
		wake:       make(chan struct{}),
	}
}

// Open returns a handle. Closing it ends its watchers and no other handle.
func (b *Backend) Open() *Store {
	return &Store{backend: b, done: make(chan struct{})}
}

// Open returns a handle on a new Backend of its own.
func Open(o Options) *Store { return New(o).Open() }

// Store is one handle on a Backend.
type Store struct {
	backend *Backend
	once    sync.Once
	done    chan struct{} // closed by Close
}

var _ store.Store = (*Store)(nil)

// Incarnation implements store.Store.
func (s *Store) Incarnation() string { return s.backend.options.Incarnation }

// Guarantee implements store.Store.
func (s *Store) Guarantee() store.Guarantee {
	return store.Guarantee{Engine: "memory", Description: "survives nothing: it ends with its process"}
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

// usable returns why a call cannot be answered, or nil.
func (s *Store) usable(ctx context.Context) error {
	select {
	case <-s.done:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}
