// Package sqlite keeps the documents of a region in one SQLite file: the
// default system of record. What Apply acknowledged survives a crash and power
// loss. One process at a time has the file, and the lock that says so is held
// for life. Files that are removed or replaced meanwhile end all acknowledging:
// see gone.go. An operator may read the file with sqlite3: table documents has
// what stands, commits and changes what was done in the last hour.
//
// Read [Store] first, then group.go: one goroutine writes, and groups what
// waits into one transaction.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/queue"
)

// Options of Open.
type Options struct {
	// Path of the database. Its folder is made (0700) where it is missing;
	// the lock, the ballast and SQLite's own files lie beside it.
	Path string
	// Ballast is the size in bytes of the file that is kept allocated for the
	// day the disk is full; zero keeps none.
	Ballast int64
	// Retention of commits and Apply identities; zero is store.Retention.
	Retention time.Duration
	// LogBytes bounds the bodies kept for watchers, in bytes, whatever their
	// age; zero is 64 MiB. Identities are kept for Retention all the same.
	LogBytes int64
	// Now is the clock by which commits age; nil is time.Now.
	Now func() time.Time
	// Log is told of a full disk, of room again, and of recoveries; nil discards.
	Log *slog.Logger

	// synchronous is SQLite's setting; empty is FULL. Tests turn it off to
	// show that they would notice.
	synchronous string
	// checkpoint is the size of SQLite's log, in pages, from which it is
	// brought into the file; zero is 1000. Tests see more of them with less.
	checkpoint int
}

func (o Options) withDefaults() Options {
	if o.Retention == 0 {
		o.Retention = store.Retention
	}
	if o.LogBytes == 0 {
		o.LogBytes = 64 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.checkpoint == 0 {
		o.checkpoint = 1000
	}
	if o.synchronous == "" {
		o.synchronous = "FULL"
	}
	return o
}

// Store is an open database.
type Store struct {
	options     Options
	files       *heldFiles
	ballast     *ballast // used by the writing goroutine, after Open
	incarnation string
	queue       *queue.Queue
	tail        *tail

	// connections guards engine, and what files knows of its log: held for
	// reading by every query and look, for writing while the engine is exchanged.
	connections sync.RWMutex
	engine      *engine // nil while the database cannot be opened, and after Close

	// Only the writing goroutine uses these, after Open.
	position position // of the last commit
	torn     bool     // a COMMIT has failed and engine was not exchanged since
	doubtful doubtful
	// foreign is SQLite's count of the commits that other connections made, and
	// foreignAt when it was looked at.
	foreign   int64
	foreignAt time.Time

	lost    chan struct{} // closed when the files are found gone
	lostErr error         // says which; read once lost is closed
	losing  sync.Once
	damage  atomic.Pointer[error] // the first damage that a read found

	closing sync.Once
	done    chan struct{} // closed when Close begins
	ended   chan struct{} // closed when the writing goroutine has ended
}

var _ store.Store = (*Store)(nil)

// Open opens the database, or makes it. Its errors wrap store.ErrLocked (another
// process has it), ErrNewer (nothing was changed), ErrReadOnly or ErrFull where they apply.
func Open(o Options) (*Store, error) {
	o = o.withDefaults()
	s, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("cannot open the store %s: %w", o.Path, err)
	}
	return s, nil
}

func open(o Options) (_ *Store, err error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	o.Path = path
	if err := prepareFolder(o.Path); err != nil {
		return nil, err
	}
	lock, err := takeLock(o.Path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{
		options: o, files: &heldFiles{path: o.Path, lock: lock},
		ballast: newBallast(o),
		queue:   queue.New("hung in the disk"), doubtful: doubtful{},
		lost:  make(chan struct{}),
		done:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, s.files.close())
	}
	go s.write()
	return s, nil
}

// start opens the engine, on a full disk with the ballast's room.
func (s *Store) start() error {
	e, p, err := s.openFirst()
	if errors.Is(err, store.ErrFull) && s.ballast.releaseAll() {
		e, p, err = s.openFirst()
	}
	if errors.Is(err, store.ErrFull) || isDamaged(err) {
		return s.explained(err)
	}
	if err != nil {
		return err
	}
	s.engine, s.position, s.incarnation = e, p, p.incarnation
	s.tail = newTail(p.sequence)
	if err := s.ballast.allocate(); err != nil {
		s.options.Log.Warn("no room for the store's ballast: only deletes and essential writes are recorded", "path", s.ballast.path, "error", err)
	}
	return nil
}

// openFirst takes the database's file, or makes it, and opens the engine on it.
func (s *Store) openFirst() (*engine, position, error) {
	if err := s.files.take(); err != nil {
		return nil, position{}, err
	}
	return s.openEngine()
}

// openEngine opens the engine on the file that is held, and remembers its log.
func (s *Store) openEngine() (*engine, position, error) {
	e, p, err := openEngine(s.options)
	if err != nil {
		return nil, position{}, err
	}
	if err := errors.Join(s.files.see(), s.ownWrites(e)); err != nil {
		return nil, position{}, errors.Join(err, e.close())
	}
	return e, p, nil
}

// Incarnation implements store.Store.
func (s *Store) Incarnation() string { return s.incarnation }

// Guarantee implements store.Store.
func (s *Store) Guarantee() store.Guarantee {
	return store.Guarantee{Engine: "sqlite", Description: "survives a crash and power loss, not the loss of its disk"}
}

// Full says that the disk was full at the last write: until there is room
// again, Apply does only deletes and what is essential.
func (s *Store) Full() bool { return s.ballast.full.Load() }

// Close implements store.Store. What the writer has begun is finished first.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.done)
		s.queue.Close()
		<-s.ended
		s.connections.Lock()
		defer s.connections.Unlock()
		if s.engine != nil {
			err = s.engine.close()
			s.engine = nil
		}
		err = errors.Join(err, s.files.close())
	})
	if err != nil {
		return fmt.Errorf("cannot close the store %s: %w", s.options.Path, err)
	}
	return nil
}

// reading runs one read on the engine.
func (s *Store) reading(ctx context.Context, read func(*engine) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.connections.RLock()
	defer s.connections.RUnlock()
	if s.isClosed() {
		return store.ErrClosed
	}
	if s.engine == nil {
		return errors.New("the database cannot be opened at the moment")
	}
	err := read(s.engine)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if isDamaged(err) {
		err = s.explained(err)
		s.damage.CompareAndSwap(nil, &err)
	}
	return err
}

func (s *Store) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
