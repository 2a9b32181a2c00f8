package daemon

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/postgres"
	"github.com/fairlead-platform/fairlead/internal/store/sqlite"
)

// ballast is what the embedded store keeps back for a full disk, in bytes.
const ballast = 16 << 20

const storeForm = "give a URL such as postgres://USER@HOST:5432/DATABASE by --store or FAIRLEAD_STORE; the password may come by PGPASSWORD or ~/.pgpass instead"

// checkStore refuses what names no database. Nothing of the text is repeated: a
// password may be anywhere in it.
func checkStore(name string) error {
	if name == "" {
		return nil
	}
	scheme, _, _ := strings.Cut(name, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return fault.New(fault.Invalid, storeForm, "what --store says is no PostgreSQL URL")
	}
	if u, err := url.Parse(name); err != nil || u.Fragment != "" {
		return fault.New(fault.Invalid, storeForm+"; percent-encode what is special in a URL (a password's # as %23)", "what --store says cannot be read as a URL")
	}
	if _, err := pgx.ParseConfig(name); err != nil {
		return fault.New(fault.Invalid, storeForm, "what --store says cannot be read as a PostgreSQL URL")
	}
	return nil
}

// openStore opens the database, or the embedded store of the data folder.
func openStore(ctx context.Context, p *process, name string) (store.Store, error) {
	if name == "" {
		s, err := sqlite.Open(sqlite.Options{Path: filepath.Join(p.Data, dirControl, "store.db"), Ballast: ballast, Log: p.log})
		if err != nil {
			return nil, storeFault(err)
		}
		return s, nil
	}
	if err := checkStore(name); err != nil {
		return nil, err
	}
	s, err := postgres.Open(ctx, postgres.Options{URL: name, Log: p.log.With("part", "store")})
	if err != nil {
		return nil, databaseFault(err)
	}
	return s, nil
}

// storeFault gives the errors of opening the store their exit code.
func storeFault(err error) error {
	switch {
	case errors.Is(err, store.ErrLocked), errors.Is(err, store.ErrNewer), errors.Is(err, store.ErrReadOnly):
		return fault.Wrap(fault.Invalid, "name another folder by --data, or use the newer program", err)
	}
	return err
}

// databaseFault does so for a database: what the server answered with is the
// operator's to change, and what did not answer may come back by itself.
func databaseFault(err error) error {
	var answered *pgconn.PgError
	switch {
	case errors.Is(err, store.ErrNewer):
		return fault.Wrap(fault.Invalid, "use the newer program, or another database", err)
	case errors.Is(err, store.ErrReadOnly):
		return fault.Wrap(fault.Invalid, "name the primary, and a role that may create a schema and write in it", err)
	case errors.Is(err, store.ErrFull):
		return fault.Wrap(fault.Exhausted, "make room on the server's disk", err)
	case errors.As(err, &answered) && strings.HasPrefix(answered.Code, "28"):
		return fault.Wrap(fault.Invalid, "look at the user and the password (PGPASSWORD or ~/.pgpass, if not in the URL), and at the server's pg_hba.conf", err)
	case errors.As(err, &answered) && answered.Code == "3D000":
		return fault.Wrap(fault.Invalid, "create it, with ENCODING 'UTF8', or name another in --store", err)
	case isAway(err, answered):
		return fault.Wrap(fault.Unavailable, "start the server, or name another in --store; nothing was changed, and what is deployed goes on", err)
	}
	return fault.Wrap(fault.Invalid, "", err)
}

// isAway says that no server was reached, or one that is starting, ending or full of sessions.
func isAway(err error, answered *pgconn.PgError) bool {
	if answered != nil {
		return strings.HasPrefix(answered.Code, "57P") || strings.HasPrefix(answered.Code, "53") || strings.HasPrefix(answered.Code, "08")
	}
	var connecting *pgconn.ConnectError
	return errors.As(err, &connecting) || errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}

// tellStore says which guarantee is in force, where it is not the embedded one.
func (c *controlRole) tellStore() {
	if !c.shared() {
		return
	}
	g := c.store.Guarantee()
	c.p.say("store %s: %s", g.Engine, g.Description)
	if !c.leader.Leading() {
		c.p.say("%s", standing(c.leader.Leader()))
	}
}
