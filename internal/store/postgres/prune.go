package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// pruneLimit bounds the commits, and the changes, that one transaction prunes.
	pruneLimit = 4096
	// pruneFraction of the retention passes between two prunings.
	pruneFraction = 64
)

func (s *Store) now() time.Time {
	if s.options.Now != nil {
		return s.options.Now()
	}
	return time.Now()
}

// pruneIfDue forgets a portion of what is past its retention, between two
// groups. Of several processes whoever comes first does it. It says whether
// there is more to do.
func (s *Store) pruneIfDue() bool {
	now := s.now()
	if s.writer.conn == nil || s.isClosed() || now.Sub(s.writer.pruned) < s.options.Retention/pruneFraction {
		return false
	}
	ctx, cancel := context.WithTimeout(s.alive, s.options.limits.commit)
	defer cancel()
	more, err := s.prune(ctx)
	if err != nil {
		s.abort(!refused(err))
		if !s.isClosed() && code(err) != codeReadOnly {
			s.options.Log.Warn("the store's log could not be pruned", "store", s.place(), "error", err)
		}
	}
	more = more && err == nil
	if !more {
		s.writer.pruned = now
	}
	return more
}

// prune says whether there is more to do.
func (s *Store) prune(ctx context.Context) (more bool, _ error) {
	q, conn := &s.queries, s.writer.conn
	var at *time.Time
	if s.options.Now != nil {
		now := s.options.Now()
		at = &now
	}
	var mine bool
	var expired, past, excess int64
	var b pgx.Batch
	b.Queue(q.begin)
	b.Queue(q.tryLock, q.pruneKey).QueryRow(func(row pgx.Row) error { return row.Scan(&mine) })
	b.Queue(q.expired, at, s.options.Retention, pruneLimit).QueryRow(func(row pgx.Row) error { return row.Scan(&expired, &past) })
	b.Queue(q.excess, s.options.LogRows, pruneLimit).QueryRow(func(row pgx.Row) error { return row.Scan(&excess) })
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return false, err
	}
	upto := max(expired, excess)
	if !mine || upto == 0 {
		s.abort(false)
		return false, nil
	}
	return past == pruneLimit || excess > expired, s.forget(ctx, expired, upto)
}

// forget forgets the identities up to one sequence and the changes up to another.
func (s *Store) forget(ctx context.Context, identities, changes int64) error {
	q, conn := &s.queries, s.writer.conn
	if _, err := conn.Exec(ctx, q.pruneCommits, identities); err != nil {
		return err
	}
	tag, err := conn.Exec(ctx, q.pruneChanges, changes)
	if err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(q.raise, changes, tag.RowsAffected())
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errRolledBack
		}
		return nil
	})
	return conn.SendBatch(ctx, &b).Close()
}
