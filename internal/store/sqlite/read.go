package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Each query is one statement, so that it sees one state of the database.
const (
	queryGet  = `SELECT version, body FROM documents WHERE kind = ? AND name = ?`
	queryHead = `SELECT sequence, floor FROM head`
	queryList = `SELECT h.sequence, d.kind, d.name, d.version, d.body
		FROM head h LEFT JOIN documents d ON d.kind = ? ORDER BY d.kind, d.name`
	queryListAll = `SELECT h.sequence, d.kind, d.name, d.version, d.body
		FROM head h LEFT JOIN documents d ORDER BY d.kind, d.name`
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key store.Key) (store.Document, error) {
	d := store.Document{Key: key}
	err := s.reading(ctx, func(e *engine) error {
		// A point read takes microseconds: it is not worth an interruption.
		return e.get.QueryRow(key.Kind, key.Name).Scan(&d.Version, &d.Body)
	})
	if errors.Is(err, sql.ErrNoRows) {
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
	err := s.reading(ctx, func(e *engine) (err error) {
		list, sequence, err = e.listKind(ctx, kind)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list %q: %w", kind, err)
	}
	return list, sequence, nil
}

func (e *engine) listKind(ctx context.Context, kind string) (_ []store.Document, sequence uint64, err error) {
	rows, err := e.queryList(ctx, kind)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var list []store.Document
	for rows.Next() {
		// All but the sequence is NULL where there is no document.
		var k, name sql.NullString
		var version sql.NullInt64
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

func (e *engine) queryList(ctx context.Context, kind string) (*sql.Rows, error) {
	if kind == "" {
		return e.listAll.QueryContext(ctx)
	}
	return e.list.QueryContext(ctx, kind)
}
