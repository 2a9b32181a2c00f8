package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// follow is the following goroutine: it brings what any process commits into
// the tail, on a connection of its own. It ends with the store.
func (s *Store) follow() {
	pause := pauses{}
	lost := false
	for !s.isClosed() {
		err := s.followOnce(func() {
			if lost {
				s.options.Log.Info("the store's log can be followed again", "store", s.place())
			}
			lost, pause = false, pauses{}
		})
		if s.isClosed() {
			return
		}
		if !lost {
			lost = true
			s.options.Log.Warn("the store's log cannot be followed; watchers wait", "store", s.place(), "error", err)
		}
		pause.wait(s.alive)
	}
}

// followOnce follows until the connection fails. It listens first and reads
// then, so that nothing is missed; a wake-up is a hint to read, and without
// one it reads all the same, now and then.
func (s *Store) followOnce(ready func()) error {
	conn, err := s.connect(s.alive)
	if err != nil {
		return err
	}
	defer func() { _ = closeNow(conn) }() // it has failed, or the store ends
	for listens := false; ; {
		if !listens {
			if listens, err = s.listen(conn); err != nil {
				return err
			}
		}
		if err := s.catchUp(conn); err != nil {
			return err
		}
		ready()
		if err := s.awaitCommit(conn); err != nil {
			return err
		}
	}
}

// listen says false on a standby, which lets nobody listen: there the log is
// read now and then only, until it is one no more.
func (s *Store) listen(conn *pgx.Conn) (listens bool, _ error) {
	ctx, cancel := context.WithTimeout(s.alive, s.options.limits.connect)
	defer cancel()
	_, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.queries.channel}.Sanitize())
	if code(err) == codeReadOnly {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot listen: %w", err)
	}
	return true, nil
}

// awaitCommit waits until the tail may lack something.
func (s *Store) awaitCommit(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(s.alive, s.options.limits.poll)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(ctx)
		if errors.Is(err, context.DeadlineExceeded) && s.alive.Err() == nil {
			return s.observeIn(conn)
		}
		if err != nil {
			return err
		}
		sequence, err := strconv.ParseUint(n.Payload, 10, 64)
		if at, _ := s.tail.at(); err != nil || sequence > at {
			return nil
		}
	}
}

// observeIn notes which guarantee is in force now.
func (s *Store) observeIn(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(s.alive, s.options.limits.connect)
	defer cancel()
	return s.observe(ctx, conn)
}

// catchUp reads the log until the tail is at its end.
func (s *Store) catchUp(conn *pgx.Conn) error {
	for {
		more, err := s.readPortion(conn)
		if err != nil || !more {
			return err
		}
	}
}

func (s *Store) readPortion(conn *pgx.Conn) (more bool, _ error) {
	ctx, cancel := context.WithTimeout(s.alive, s.options.limits.read)
	defer cancel()
	at, _ := s.tail.at() // before the read: the writing goroutine may add to it meanwhile
	p, err := s.readLog(ctx, conn, at)
	if errors.Is(err, store.ErrTooOld) {
		return true, s.skip(ctx, conn)
	}
	switch {
	case err != nil:
		return false, err
	case p.sequence < at:
		s.options.Log.Error("the server has lost commits: watchers end, and list again", "store", s.place(), "had", at, "has", p.sequence)
		s.tail.rewind(p.sequence)
		return false, nil
	case len(p.commits) == 0:
		return false, nil
	}
	if !s.tail.append(at, p.commits) {
		return true, nil // the writing goroutine was faster; it may not have all of this
	}
	return p.commits[len(p.commits)-1].Sequence < p.sequence, nil
}

// skip moves the tail past what is no longer kept; watchers who need that are
// told so when they read.
func (s *Store) skip(ctx context.Context, conn *pgx.Conn) error {
	var sequence, floor uint64
	if err := conn.QueryRow(ctx, s.queries.bounds).Scan(&sequence, &floor); err != nil {
		return err
	}
	s.tail.reset(floor)
	return nil
}
