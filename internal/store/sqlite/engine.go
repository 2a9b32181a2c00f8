package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	driver "modernc.org/sqlite"

	"github.com/fairlead-platform/fairlead/internal/store"
)

const (
	// schemaVersion is kept in PRAGMA user_version.
	schemaVersion = 1
	// applicationID is "Fair" in ASCII, kept in PRAGMA application_id.
	applicationID = 0x46616972
)

const schema = `
CREATE TABLE head (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	incarnation TEXT NOT NULL,
	sequence INTEGER NOT NULL,   -- of the newest commit
	floor INTEGER NOT NULL,      -- changes of commits up to this one are no longer kept
	log_bytes INTEGER NOT NULL,  -- of the bodies in changes
	recoveries INTEGER NOT NULL  -- times that a failed commit had to be looked up
);
CREATE TABLE documents (
	kind TEXT NOT NULL, name TEXT NOT NULL,
	version INTEGER NOT NULL,    -- sequence of the commit that wrote it
	body TEXT NOT NULL,          -- JSON
	PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE commits (
	sequence INTEGER PRIMARY KEY,
	apply_id TEXT NOT NULL UNIQUE,
	digest BLOB NOT NULL,        -- of what the apply asked for
	at INTEGER NOT NULL,         -- milliseconds since 1970
	bytes INTEGER NOT NULL       -- of its bodies in changes
);
CREATE TABLE changes (
	sequence INTEGER NOT NULL, position INTEGER NOT NULL,
	kind TEXT NOT NULL, name TEXT NOT NULL,
	body TEXT,                   -- NULL where the document was deleted
	PRIMARY KEY (sequence, position)
) WITHOUT ROWID;
`

// position is where the log stands.
type position struct {
	incarnation     string
	sequence, floor uint64
	logBytes        int64
	oldest          int64 // time of the oldest kept commit, ms since 1970; zero: none
}

// engine is the set of connections: one writes, two read.
type engine struct {
	writers *sql.DB
	writer  *sql.Conn
	readers *sql.DB

	get, list, listAll, log, head *sql.Stmt // on readers
	apply                         statements
	prepared                      []*sql.Stmt // all of them
}

// openEngine opens the connections and makes the schema where there is none.
// The file must exist: it is never made again under a name that it has lost.
// It opens for writing only after it has seen that the schema is not newer.
func openEngine(o Options) (*engine, position, error) {
	e, p, err := connect(o)
	if err != nil {
		return nil, position{}, diagnosed(o.Path, err)
	}
	return e, p, nil
}

func connect(o Options) (_ *engine, _ position, err error) {
	ctx := context.Background()
	// The call that Linux distributions' own SQLite uses: half the time of
	// fsync for the same promise. Where it is missing nothing changes.
	if _, err := driver.Fdatasync(true); err != nil && !errors.Is(err, driver.ErrFdatasyncUnavailable) {
		return nil, position{}, err
	}
	if err := checkVersion(ctx, o.Path); err != nil {
		return nil, position{}, err
	}
	e := &engine{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if err := e.openWriter(ctx, o); err != nil {
		return nil, position{}, err
	}
	if err := e.openReaders(ctx, o); err != nil {
		return nil, position{}, err
	}
	p, err := e.readPosition(ctx)
	return e, p, err
}

func dsn(path string, settings ...string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path}
	q := url.Values{}
	for i := 0; i < len(settings); i += 2 {
		q.Add(settings[i], settings[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// checkVersion looks at the schema through a connection that cannot write.
func checkVersion(ctx context.Context, path string) error {
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		return nil // none yet; what is wrong with the path shows when it is made
	}
	db, err := sql.Open("sqlite", dsn(path, "mode", "ro", "_pragma", "busy_timeout(5000)"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	var version, application, tables int
	err = db.QueryRowContext(ctx, `SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version, pragma_application_id`).Scan(&version, &application, &tables)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if tables > 0 && application != applicationID {
		return fmt.Errorf("the file is a database of another program (application id %d): name another path", application)
	}
	if version > schemaVersion {
		return fmt.Errorf("%w: its schema has version %d, this program knows up to %d; nothing was changed: run the newer program, or restore a copy from before the upgrade", store.ErrNewer, version, schemaVersion)
	}
	return nil
}

func (e *engine) openWriter(ctx context.Context, o Options) error {
	db, err := sql.Open("sqlite", dsn(o.Path, "mode", "rw",
		"_pragma", "busy_timeout(5000)", "_pragma", "journal_mode(WAL)", "_pragma", "synchronous("+o.synchronous+")",
		"_pragma", "cache_size(-2000)", "_pragma", "journal_size_limit(8388608)", "_pragma", "temp_store(MEMORY)",
		"_pragma", fmt.Sprintf("wal_autocheckpoint(%d)", o.checkpoint)))
	if err != nil {
		return err
	}
	e.writers = db
	db.SetMaxOpenConns(1)
	if e.writer, err = db.Conn(ctx); err != nil {
		return err
	}
	var version int
	if err := e.writer.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version == 0 {
		if err := e.create(ctx); err != nil {
			return fmt.Errorf("cannot make the schema: %w", err)
		}
		if err := syncFolders(o.Path); err != nil {
			return err
		}
	}
	return e.prepare(ctx, e.writer, e.apply.queries())
}

func (e *engine) create(ctx context.Context) error {
	var b [16]byte
	rand.Read(b[:]) // never fails, by its contract
	if err := e.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, q := range []string{
		schema,
		fmt.Sprintf("INSERT INTO head VALUES (1, '%s', 0, 0, 0, 0)", hex.EncodeToString(b[:])),
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", schemaVersion),
		"COMMIT",
	} {
		if err := e.exec(ctx, q); err != nil {
			e.rollback(ctx)
			return err
		}
	}
	return nil
}

func (e *engine) exec(ctx context.Context, query string, args ...any) error {
	_, err := e.writer.ExecContext(ctx, query, args...)
	return err
}

// rollback ends the transaction. SQLite may have done so itself after an
// error, and then says that there is none.
func (e *engine) rollback(ctx context.Context) {
	_ = e.exec(ctx, "ROLLBACK")
}

func (e *engine) openReaders(ctx context.Context, o Options) error {
	db, err := sql.Open("sqlite", dsn(o.Path, "mode", "rw",
		"_pragma", "busy_timeout(5000)", "_pragma", "query_only(1)", "_pragma", "cache_size(-1000)", "_pragma", "temp_store(MEMORY)"))
	if err != nil {
		return err
	}
	e.readers = db
	db.SetMaxOpenConns(2)
	db.SetMaxIdleConns(2)
	return e.prepare(ctx, db, map[string]**sql.Stmt{
		queryGet: &e.get, queryList: &e.list, queryListAll: &e.listAll, queryLog: &e.log, queryHead: &e.head,
	})
}

type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func (e *engine) prepare(ctx context.Context, p preparer, queries map[string]**sql.Stmt) error {
	for query, stmt := range queries {
		var err error
		if *stmt, err = p.PrepareContext(ctx, query); err != nil {
			return err
		}
		e.prepared = append(e.prepared, *stmt)
	}
	return nil
}

func (e *engine) readPosition(ctx context.Context) (position, error) {
	var p position
	err := e.writer.QueryRowContext(ctx, "SELECT incarnation, sequence, floor, log_bytes FROM head").Scan(&p.incarnation, &p.sequence, &p.floor, &p.logBytes)
	if err != nil {
		return p, err
	}
	err = e.writer.QueryRowContext(ctx, "SELECT at FROM commits ORDER BY sequence LIMIT 1").Scan(&p.oldest)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return p, err
}

// close closes the connections; the last one brings the log into the file.
// A statement of a single connection that is left open would keep that open.
func (e *engine) close() error {
	var errs []error
	for _, stmt := range e.prepared {
		errs = append(errs, stmt.Close())
	}
	if e.readers != nil {
		errs = append(errs, e.readers.Close())
	}
	if e.writer != nil {
		errs = append(errs, e.writer.Close())
	}
	if e.writers != nil {
		errs = append(errs, e.writers.Close())
	}
	return errors.Join(errs...)
}

func milliseconds(t time.Time) int64 { return t.UnixMilli() }
