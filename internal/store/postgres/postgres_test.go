package postgres

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
	"github.com/fairlead-platform/fairlead/internal/store/storetest"
)

// shared is the server of all tests that leave it as it is; each has a schema
// of its own. It starts when it is first needed.
var shared struct {
	once   sync.Once
	server *postgrestest.Server
	err    error
}

func sharedServer(t testing.TB) *postgrestest.Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = postgrestest.New() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

func TestMain(m *testing.M) {
	runChild()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

var schemas atomic.Int64

// newSchema returns the name of a schema that no other test uses.
func newSchema() string { return fmt.Sprintf("test_%d", schemas.Add(1)) }

// fresh are the options of a store of its own.
func fresh(t testing.TB) Options {
	t.Helper()
	return Options{URL: sharedServer(t).URL, Schema: newSchema()}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// raw is a session without the store.
func raw(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeNow(conn) })
	return conn
}

func rawExec(t testing.TB, conn *pgx.Conn, query string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// within is a context with the deadline of a test's waits.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition of the server that nobody signals.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// count returns the number that the query gives.
func count(t testing.TB, conn *pgx.Conn, query string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// writing is the Apply that writes the named document.
func writing(name string) store.Apply {
	return store.Apply{ID: name, Writes: []store.Write{{Key: store.Key{Kind: "thing", Name: name}, Body: fmt.Appendf(nil, `{"name":%q}`, name)}}}
}

func TestPostgreSQLIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		o := fresh(t)
		return storetest.Harness{
			Open: func(t testing.TB, so storetest.Options) store.Store {
				o := o
				o.Now = so.Now
				return mustOpen(t, o)
			},
			Second: func(testing.TB) (store.Store, error) { return Open(context.Background(), o) },
			Shared: true,
		}
	})
}
