// Package postgres keeps the documents of a region in one schema of a
// PostgreSQL database (13 or newer), which several processes may share. What
// Apply acknowledged is on the server's disk, and on a synchronous standby
// where the server has one. An operator may read it with psql: table documents
// has what stands, commits and changes what was done in the last hour. It
// needs sessions of its own: a pooler that shares sessions between
// transactions cannot pass LISTEN.
//
// Read [Store] first, then group.go: one goroutine writes, and groups what
// waits into one transaction, under a lock that puts the sequence of commits
// into the order in which they become visible. follow.go brings the commits of
// every process to the watchers.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/queue"
)

// Options of Open.
type Options struct {
	// URL of the database, or a connection string, as libpq knows them.
	// Where it names several hosts, the primary among them is used.
	URL string
	// Schema that holds the tables; it is made where it is missing. Empty is
	// "fairlead". One database may hold several stores in schemas of their own.
	Schema string
	// Retention of commits and Apply identities; zero is store.Retention.
	Retention time.Duration
	// LogRows bounds the changes kept for watchers, whatever their age; zero
	// is 500,000. Identities are kept for Retention all the same.
	LogRows int64
	// Now is the clock by which commits age; nil is the server's own, which
	// all processes share.
	Now func() time.Time
	// Log is told of lost connections, and of their return; nil discards.
	Log *slog.Logger

	limits limits // zero fields are the defaults
	faults faults
}

// limits are bounds of time; tests make them shorter.
type limits struct {
	connect time.Duration // for a connection to be ready; zero is 5 s
	read    time.Duration // for one read; zero is 30 s
	lock    time.Duration // for the writers' lock; zero is 10 s
	idle    time.Duration // after which the server ends the transaction of a writer that says nothing; zero is 5 s
	commit  time.Duration // for the writes and the COMMIT of one group; zero is 15 s
	settle  time.Duration // for the look-up of a commit whose answer was lost; zero is 15 s
	poll    time.Duration // between reads of the log without a wake-up; zero is 5 s
}

// faults are what tests do to a store; nothing else sets them.
type faults struct {
	unlocked     bool   // the sequence is taken without the lock
	mute         bool   // nobody is woken
	beforeWrites func() // called once the sequence is taken
}

func (o Options) withDefaults() Options {
	if o.Schema == "" {
		o.Schema = "fairlead"
	}
	if o.Retention == 0 {
		o.Retention = store.Retention
	}
	if o.LogRows == 0 {
		o.LogRows = 500_000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.limits = o.limits.withDefaults()
	return o
}

func (l limits) withDefaults() limits {
	defaults := map[*time.Duration]time.Duration{
		&l.connect: 5 * time.Second, &l.read: 30 * time.Second, &l.lock: 10 * time.Second, &l.idle: 5 * time.Second,
		&l.commit: 15 * time.Second, &l.settle: 15 * time.Second, &l.poll: 5 * time.Second,
	}
	for field, value := range defaults {
		if *field == 0 {
			*field = value
		}
	}
	return l
}

// poolSize is the number of connections that serve Get, List and watchers who
// are far behind. One more writes, and one more listens.
const poolSize = 4

// Store is an open database.
type Store struct {
	options     Options
	config      *pgxpool.Config
	queries     queries
	incarnation string // empty until the schema was read
	pool        *pgxpool.Pool
	queue       *queue.Queue
	tail        *tail
	guarantee   atomic.Pointer[store.Guarantee]
	warned      atomic.Bool // the server warned of something while the writer committed

	writer writer // used by the writing goroutine, after Open

	closing sync.Once
	alive   context.Context // ends when Close begins
	end     context.CancelFunc
	running sync.WaitGroup // the writing and the following goroutine
}

var _ store.Store = (*Store)(nil)

// Open opens the store in the database, or makes it. Its errors wrap
// store.ErrNewer (nothing was changed), ErrReadOnly or ErrFull where they apply.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	config, err := parse(o)
	if err != nil {
		return nil, fmt.Errorf("cannot open the store: %w", err)
	}
	s := &Store{options: o, config: config, queries: queriesFor(o.Schema), queue: queue.New("was on its way to the server")}
	s.alive, s.end = context.WithCancel(context.Background())
	if err := s.start(ctx); err != nil {
		s.end()
		return nil, fmt.Errorf("cannot open the store %s: %w", s.place(), classified(err))
	}
	return s, nil
}

// place says which store this is, without its password.
func (s *Store) place() string {
	c := s.config.ConnConfig
	return fmt.Sprintf("%s:%d/%s, schema %s", c.Host, c.Port, c.Database, s.options.Schema)
}

func (s *Store) start(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	h, err := s.prepareSchema(ctx, conn)
	if err == nil {
		s.incarnation = h.incarnation
		s.tail = newTail(h.sequence)
		s.pool, err = s.newPool(ctx)
	}
	if err != nil {
		return errors.Join(err, closeNow(conn))
	}
	s.writer = newWriter(conn)
	s.running.Go(s.write)
	s.running.Go(s.follow)
	return nil
}

// Incarnation implements store.Store.
func (s *Store) Incarnation() string { return s.incarnation }

// Guarantee implements store.Store. It is as of the last connection, or of
// the last look at the log, whichever is newer.
func (s *Store) Guarantee() store.Guarantee { return *s.guarantee.Load() }

// Close implements store.Store. What the writer has begun is finished first.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.end()
		s.queue.Close()
		s.running.Wait()
		s.pool.Close()
	})
	return nil
}

func (s *Store) isClosed() bool { return s.alive.Err() != nil }
