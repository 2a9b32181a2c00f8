package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Another program may write to the database, e.g. an operator's sqlite3. No
// commit of the log says what it changed, so whoever watches is told to list
// again. SQLite counts the commits of all other connections; ours that read
// make none.

// noticeForeign looks, once per lookInterval, whether another program has
// written. Only the writing goroutine calls it.
func (s *Store) noticeForeign() {
	if s.torn || time.Since(s.foreignAt) < lookInterval {
		return
	}
	s.foreignAt = time.Now()
	// What cannot be asked now is asked again: the next write says what is wrong.
	ctx := context.Background()
	var count int64
	if err := s.engine.writer.QueryRowContext(ctx, "PRAGMA data_version").Scan(&count); err != nil || count == s.foreign {
		return
	}
	p, err := s.engine.readPosition(ctx)
	if err != nil {
		return
	}
	s.position, s.foreign = p, count
	s.options.Log.Warn("another program has written to the store: what stands in it is read anew", "path", s.options.Path)
	s.tail.disown(p.sequence)
}

// ownWrites remembers the count as it is, for an engine that was just opened.
func (s *Store) ownWrites(e *engine) error {
	if err := e.writer.QueryRowContext(context.Background(), "PRAGMA data_version").Scan(&s.foreign); err != nil {
		return fmt.Errorf("cannot read the count of foreign writes: %w", err)
	}
	return nil
}

func errForeign(from uint64) error {
	return fmt.Errorf("cannot watch from %d: %w: another program has written to it since", from, store.ErrTooOld)
}
