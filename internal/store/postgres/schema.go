package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// head is what the schema says of itself.
type head struct {
	version     int
	incarnation string
	sequence    uint64
}

func (s *Store) readHead(ctx context.Context, conn *pgx.Conn) (head, error) {
	var h head
	err := conn.QueryRow(ctx, s.queries.head).Scan(&h.version, &h.incarnation, &h.sequence)
	if err != nil {
		return h, fmt.Errorf("cannot read what the schema %s says of itself: %w", s.queries.schema, err)
	}
	return h, nil
}

// recognise says whether h is of a schema that this program knows, and of the
// store that was opened.
func (s *Store) recognise(h head) error {
	if h.version > schemaVersion {
		return fmt.Errorf("%w: its schema has version %d, this program knows up to %d; nothing was changed: run the newer program, or restore a copy from before the upgrade", store.ErrNewer, h.version, schemaVersion)
	}
	if s.incarnation != "" && h.incarnation != s.incarnation {
		return fmt.Errorf("the database was exchanged for another one, of incarnation %s: start again to use it", h.incarnation)
	}
	return nil
}

// prepareSchema makes the schema where there is none, and reads its head.
func (s *Store) prepareSchema(ctx context.Context, conn *pgx.Conn) (head, error) {
	made, err := s.isMade(ctx, conn)
	if err != nil {
		return head{}, err
	}
	if !made {
		if err := s.create(ctx, conn); err != nil {
			return head{}, fmt.Errorf("cannot make the schema: %w", err)
		}
	}
	h, err := s.readHead(ctx, conn)
	if err != nil {
		return h, err
	}
	return h, s.recognise(h)
}

// isMade says whether the schema holds a store. One that holds anything else
// belongs to another program.
func (s *Store) isMade(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var ours bool
	var relations int
	err := conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE c.relname = 'head' AND EXISTS (
			SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'incarnation')) = 1, count(*)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1`, s.queries.schema).Scan(&ours, &relations)
	if err != nil {
		return false, fmt.Errorf("cannot look for the schema: %w", err)
	}
	if relations > 0 && !ours {
		return false, fmt.Errorf("the schema %s holds tables of another program: name another schema", s.queries.schema)
	}
	return ours, nil
}

// create makes the schema under a lock: of processes that start at once, one
// makes it and the others find it.
func (s *Store) create(ctx context.Context, conn *pgx.Conn) (err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() {
		if e := tx.Rollback(ctx); e != nil && !errors.Is(e, pgx.ErrTxClosed) {
			err = errors.Join(err, e)
		}
	}()
	if _, err := tx.Exec(ctx, s.queries.lock, s.queries.schemaLockKey); err != nil {
		return err
	}
	if made, err := s.isMade(ctx, conn); err != nil || made {
		return err
	}
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, s.queries.schema).Scan(&there); err != nil {
		return err
	}
	if !there { // asked first: an operator may have made it for a role that may not
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{s.queries.schema}.Sanitize()); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, s.queries.tables); err != nil {
		return err
	}
	var b [16]byte
	rand.Read(b[:]) // never fails, by its contract
	if _, err := tx.Exec(ctx, s.queries.firstHead, schemaVersion, hex.EncodeToString(b[:])); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
