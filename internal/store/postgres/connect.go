package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// oldestServer is the oldest version that is supported, as the server counts.
const oldestServer = 130000

func parse(o Options) (*pgxpool.Config, error) {
	if o.URL == "" {
		return nil, errors.New("no database is named")
	}
	if !regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`).MatchString(o.Schema) {
		return nil, fmt.Errorf("a schema's name has up to 40 lower-case letters, digits and underscores, and does not begin with a digit, not %q", o.Schema)
	}
	p, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	c := p.ConnConfig
	c.ConnectTimeout = o.limits.connect
	p.MaxConns, p.MinConns, p.MinIdleConns = poolSize, 0, 0
	if _, set := c.RuntimeParams["application_name"]; !set {
		c.RuntimeParams["application_name"] = "fairlead"
	}
	c.RuntimeParams["client_encoding"] = "UTF8"
	for _, f := range c.Fallbacks {
		if (f.Host != c.Host || f.Port != c.Port) && c.ValidateConnect == nil {
			c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
		}
	}
	return p, nil
}

// connect returns a session that is ready: it acknowledges what is on disk
// only, is bounded in what it waits for, and its database is the one that was opened.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.limits.connect)
	defer cancel()
	c := s.config.ConnConfig.Copy()
	c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			s.warned.Store(true)
		}
	}
	forbidCancel := onlyWhileConnecting(&c.Config)
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	forbidCancel()
	if err := s.prepareSession(ctx, conn); err != nil {
		return nil, errors.Join(err, closeNow(conn))
	}
	return conn, nil
}

// onlyWhileConnecting makes c dial until the function it returns is called.
// The driver dials once more for a session that it gives up, to cancel what
// runs there: that could end a COMMIT's wait for its standby.
func onlyWhileConnecting(c *pgconn.Config) (forbid func()) {
	var forbidden atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if forbidden.Load() {
			return nil, errors.New("what this session runs is not to be cancelled")
		}
		return dial(ctx, network, address)
	}
	return func() { forbidden.Store(true) }
}

// newPool returns the pool for reads. It connects when it is first needed.
func (s *Store) newPool(ctx context.Context) (*pgxpool.Pool, error) {
	c := s.config.Copy()
	c.AfterConnect = s.prepareSession
	return pgxpool.NewWithConfig(ctx, c)
}

// prepareSession sets what every session of ours relies on, and verifies it.
func (s *Store) prepareSession(ctx context.Context, conn *pgx.Conn) error {
	if err := s.set(ctx, conn); err != nil {
		return fmt.Errorf("cannot prepare the session: %w", err)
	}
	if err := s.observe(ctx, conn); err != nil {
		return err
	}
	if s.incarnation == "" {
		return nil
	}
	h, err := s.readHead(ctx, conn)
	if err != nil {
		return err
	}
	return s.recognise(h)
}

// set sets the session's bounds and plans. A writer that froze within its transaction
// would keep every other one waiting for ever: the server ends it.
func (s *Store) set(ctx context.Context, conn *pgx.Conn) error {
	l := s.options.limits
	settings := [][2]string{
		{"lock_timeout", milliseconds(l.lock)},
		{"idle_in_transaction_session_timeout", milliseconds(l.idle)},
		{"tcp_keepalives_idle", "10"},
		{"tcp_keepalives_interval", "5"},
		{"tcp_keepalives_count", "3"},
		// Every query has an index. A plan that was made while the tables were
		// small, and kept, must not read them whole when they have grown.
		{"enable_seqscan", "off"},
		{"enable_hashjoin", "off"},
		{"enable_mergejoin", "off"},
		{"jit", "off"},
	}
	if serverVersion(conn) >= 170000 {
		settings = append(settings, [2]string{"transaction_timeout", milliseconds(l.lock + l.commit)})
	}
	var b pgx.Batch
	b.Queue(`SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') <> 'remote_apply'`)
	for _, x := range settings {
		b.Queue(`SELECT set_config($1, $2, false)`, x[0], x[1])
	}
	return conn.SendBatch(ctx, &b).Close()
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", max(d.Milliseconds(), 1)) }

// serverVersion returns e.g. 150018; zero where the server does not say.
func serverVersion(conn *pgx.Conn) int {
	var major, minor int
	if n, _ := fmt.Sscanf(conn.PgConn().ParameterStatus("server_version"), "%d.%d", &major, &minor); n < 1 {
		return 0
	}
	return major*10000 + minor
}

// observe verifies the session and notes which guarantee is in force.
func (s *Store) observe(ctx context.Context, conn *pgx.Conn) error {
	var commit, standbys, fsync, encoding, number string
	err := conn.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
		current_setting('fsync'), current_setting('server_encoding'), current_setting('server_version_num')`).Scan(&commit, &standbys, &fsync, &encoding, &number)
	if err != nil {
		return fmt.Errorf("cannot read the server's settings: %w", err)
	}
	version, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return fmt.Errorf("cannot read the server's version: %w", err)
	case version < oldestServer:
		return fmt.Errorf("the server has version %d.%d: PostgreSQL 13 or newer is needed", version/10000, version%10000)
	case encoding != "UTF8":
		return fmt.Errorf("the database has the encoding %s: create one with ENCODING 'UTF8'", encoding)
	case commit != "on" && commit != "remote_apply":
		return fmt.Errorf("the session acknowledges what is not on disk: synchronous_commit is %s and could not be set to on", commit)
	}
	s.guarantee.Store(&store.Guarantee{Engine: "postgres", Description: guaranteed(standbys, fsync)})
	return nil
}

func guaranteed(standbys, fsync string) string {
	switch {
	case fsync == "off":
		return "does not survive power loss: the server runs with fsync=off"
	case standbys != "":
		return fmt.Sprintf("survives a crash, power loss and the loss of the server's disk: each commit waits for a synchronous standby (%s)", standbys)
	}
	return "survives a crash and power loss, not the loss of the server's disk: no synchronous standby is in force"
}

// closeNow ends a session without waiting for the server.
func closeNow(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := conn.Close(ctx)
	sever(conn)
	<-conn.PgConn().CleanupDone()
	return err
}

// sever closes the socket. A wait on it ends; the server is told nothing. Its
// error tells nothing either: most often, that it is closed already.
func sever(conn *pgx.Conn) { _ = conn.PgConn().Conn().Close() }
