package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/queue"
)

// statements of the writing connection.
type statements struct {
	earlier, stands, put, remove     *sql.Stmt
	commit, change, head             *sql.Stmt
	ages, pruneCommits, pruneChanges *sql.Stmt
}

// queries :: text → where its statement is kept
func (s *statements) queries() map[string]**sql.Stmt {
	return map[string]**sql.Stmt{
		`SELECT sequence, digest FROM commits WHERE apply_id = ?`:                              &s.earlier,
		`SELECT version, body FROM documents WHERE kind = ? AND name = ?`:                      &s.stands,
		`INSERT OR REPLACE INTO documents (kind, name, version, body) VALUES (?, ?, ?, ?)`:     &s.put,
		`DELETE FROM documents WHERE kind = ? AND name = ?`:                                    &s.remove,
		`INSERT INTO commits (sequence, apply_id, digest, at, bytes) VALUES (?, ?, ?, ?, ?)`:   &s.commit,
		`INSERT INTO changes (sequence, position, kind, name, body) VALUES (?, ?, ?, ?, ?)`:    &s.change,
		`UPDATE head SET sequence = ?, floor = ?, log_bytes = ?`:                               &s.head,
		`SELECT sequence, at, bytes FROM commits WHERE sequence > ? ORDER BY sequence LIMIT ?`: &s.ages,
		`DELETE FROM commits WHERE sequence <= ?`:                                              &s.pruneCommits,
		`DELETE FROM changes WHERE sequence <= ?`:                                              &s.pruneChanges,
	}
}

// transaction is one group on its way. Its position counts once it is committed.
type transaction struct {
	*statements
	ctx      context.Context
	position position
	now      int64 // milliseconds since 1970
	commits  []store.Commit
}

// do does one request: all of its conditions are looked at before the first
// write, so that a conflict leaves nothing to undo.
func (t *transaction) do(r *queue.Request, full bool) (store.Result, error) {
	if result, found, err := t.find(r); found || err != nil {
		return result, err
	}
	if err := r.Apply.Judge(t.lookup); err != nil {
		return store.Result{}, err
	}
	if full && !r.Apply.Essential && !r.Apply.OnlyDeletes() {
		return store.Result{}, errKeptForEssentials
	}
	sequence := t.position.sequence + 1
	c := store.Commit{Sequence: sequence, ApplyID: r.Apply.ID}
	for _, w := range r.Apply.Writes {
		if err := t.writeOne(&c, w); err != nil {
			return store.Result{}, err
		}
	}
	size := int64(r.Bytes())
	if _, err := t.commit.ExecContext(t.ctx, sequence, r.Apply.ID, r.Digest[:], t.now, size); err != nil {
		return store.Result{}, err
	}
	t.position.sequence = sequence
	t.position.logBytes += size
	if t.position.oldest == 0 {
		t.position.oldest = t.now
	}
	t.commits = append(t.commits, c)
	return store.Result{Sequence: sequence}, nil
}

// find returns what an earlier Apply of this identity did.
func (t *transaction) find(r *queue.Request) (_ store.Result, found bool, _ error) {
	var sequence uint64
	var digest []byte
	err := t.earlier.QueryRowContext(t.ctx, r.Apply.ID).Scan(&sequence, &digest)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Result{}, false, nil
	}
	if err != nil {
		return store.Result{}, false, err
	}
	if !bytes.Equal(digest, r.Digest[:]) {
		return store.Result{}, true, fmt.Errorf("%w: its ID was used for other content at sequence %d", store.ErrInvalid, sequence)
	}
	return store.Result{Sequence: sequence, Repeated: true}, true, nil
}

func (t *transaction) lookup(key store.Key) (store.Document, error) {
	d := store.Document{Key: key}
	err := t.stands.QueryRowContext(t.ctx, key.Kind, key.Name).Scan(&d.Version, &d.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Document{}, nil
	}
	return d, err
}

// writeOne does one write and adds to c what it changed.
func (t *transaction) writeOne(c *store.Commit, w store.Write) error {
	change := store.Change{Document: store.Document{Key: w.Key, Version: c.Sequence, Body: w.Body}, Deleted: w.Delete}
	var body any = string(w.Body)
	if w.Delete {
		done, err := t.remove.ExecContext(t.ctx, w.Kind, w.Name)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); n == 0 || err != nil {
			return err
		}
		change.Body, body = nil, nil
	} else if _, err := t.put.ExecContext(t.ctx, w.Kind, w.Name, c.Sequence, body); err != nil {
		return err
	}
	if _, err := t.change.ExecContext(t.ctx, c.Sequence, len(c.Changes), w.Kind, w.Name, body); err != nil {
		return err
	}
	c.Changes = append(c.Changes, change)
	return nil
}

// finish prunes the log and records where it stands.
func (t *transaction) finish(o Options) error {
	if err := t.pruneByAge(o); err != nil {
		return err
	}
	if err := t.pruneBySize(o); err != nil {
		return err
	}
	_, err := t.head.ExecContext(t.ctx, t.position.sequence, t.position.floor, t.position.logBytes)
	return err
}
