package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// SQLSTATE codes that mean something to a caller.
const (
	codeDiskFull  = "53100"
	codeReadOnly  = "25006"
	codeForbidden = "42501"
	codeLocked    = "55P03"
)

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// classified wraps err in the port's error for a server that has no room or
// takes no writes, and says what a lock that was not had means.
func classified(err error) error {
	switch code(err) {
	case codeDiskFull:
		return fmt.Errorf("%w: make room on the server's disk: %w", store.ErrFull, err)
	case codeReadOnly:
		return fmt.Errorf("%w: the server takes no writes, as a standby or by its settings: %w", store.ErrReadOnly, err)
	case codeForbidden:
		return fmt.Errorf("%w: the server's role may not write: %w", store.ErrReadOnly, err)
	case codeLocked:
		return fmt.Errorf("another process holds the writers' lock: %w", err)
	}
	return err
}

// isContent says that the server refused what an Apply holds, e.g. a body
// nested more deeply than it reads.
func isContent(err error) bool {
	class := code(err)
	return refused(err) && (strings.HasPrefix(class, "22") || strings.HasPrefix(class, "54"))
}

// mayBeStale says that a read failed by its connection, so that another
// connection may do better.
func mayBeStale(err error) bool {
	for _, known := range []error{pgx.ErrNoRows, store.ErrTooOld, store.ErrNewer} {
		if errors.Is(err, known) {
			return false
		}
	}
	return !refused(err)
}

// refused says that the server answered with an error and goes on: what was
// asked for was undone by it.
func refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.SeverityUnlocalized == "ERROR"
}
