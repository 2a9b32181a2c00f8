package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// querier is a connection, or the pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// reading runs one read on the pool. Connections that died while they lay idle
// are found out only by use: then it is tried once more, on a new one.
func (s *Store) reading(ctx context.Context, read func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isClosed() {
		return store.ErrClosed
	}
	bounded, cancel := context.WithTimeout(ctx, s.options.limits.read)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	err := read(bounded)
	if err != nil && mayBeStale(err) && bounded.Err() == nil {
		s.pool.Reset()
		err = read(bounded)
	}
	switch {
	case err == nil:
		return nil
	case s.isClosed():
		return store.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key store.Key) (store.Document, error) {
	d := store.Document{Key: key}
	if key.Validate() != nil { // e.g. a NUL, which no query may carry
		return store.Document{}, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	err := s.reading(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.queries.get, key.Kind, key.Name).Scan(&d.Version, &d.Body)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Document{}, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	if err != nil {
		return store.Document{}, fmt.Errorf("cannot get %s: %w", key, err)
	}
	return d, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, kind string) ([]store.Document, uint64, error) {
	var list []store.Document
	var sequence uint64
	err := s.reading(ctx, func(ctx context.Context) (err error) {
		list, sequence, err = s.list(ctx, kind)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list %q: %w", kind, err)
	}
	return list, sequence, nil
}

func (s *Store) list(ctx context.Context, kind string) (list []store.Document, sequence uint64, _ error) {
	query, args := s.queries.list, []any{kind}
	if (store.Key{Kind: kind, Name: "any"}).Validate() != nil {
		args[0] = "?" // no kind either, and without e.g. a NUL, which no query may carry
	}
	if kind == "" {
		query, args = s.queries.listAll, nil
	}
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		// All but the sequence is NULL where there is no document.
		var k, name pgtype.Text
		var version pgtype.Int8
		var body []byte
		if err := rows.Scan(&sequence, &k, &name, &version, &body); err != nil {
			return nil, 0, err
		}
		if version.Valid {
			list = append(list, store.Document{Key: store.Key{Kind: k.String, Name: name.String}, Version: uint64(version.Int64), Body: body})
		}
	}
	return list, sequence, rows.Err()
}

// fillConflicts reads the bodies that stand where an Apply met a conflict.
// What it reads is what was judged: the lock is held.
func (s *Store) fillConflicts(ctx context.Context, t *transaction) error {
	conflicts := t.conflicting()
	if len(conflicts) == 0 {
		return nil
	}
	var kinds, names []string
	for _, c := range conflicts {
		kinds, names = append(kinds, c.Key.Kind), append(names, c.Key.Name)
	}
	rows, err := s.writer.conn.Query(ctx, s.queries.bodies, kinds, names)
	if err != nil {
		return err
	}
	defer rows.Close()
	bodies := map[store.Key][]byte{} // :: key → body
	for rows.Next() {
		var k store.Key
		var body []byte
		if err := rows.Scan(&k.Kind, &k.Name, &body); err != nil {
			return err
		}
		bodies[k] = body
	}
	for _, c := range conflicts {
		c.Stands.Body = bodies[c.Key]
	}
	return rows.Err()
}
