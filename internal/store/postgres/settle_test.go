package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
)

// quiet are options under which only the writer speaks to the server.
func quiet(url, schema string) Options {
	return Options{URL: url, Schema: schema, limits: limits{poll: time.Hour}, faults: faults{mute: true}}
}

// cutTest applies one document through a proxy that cuts.
type cutTest struct {
	*testing.T
	proxy  *postgrestest.Proxy
	direct *Store // sees what is true
	s      *Store
	tried  int
	sizes  postgrestest.Cut // what passes for an Apply that is not cut
}

// newCutTest has what became of a lost commit looked for as long as settle.
func newCutTest(t *testing.T, settle time.Duration) *cutTest {
	o := fresh(t)
	c := &cutTest{T: t, proxy: sharedServer(t).Proxy(t)}
	c.direct = mustOpen(t, quiet(o.URL, o.Schema))
	through := quiet(c.proxy.URL, o.Schema)
	through.limits.settle = settle
	c.s = mustOpen(t, through)
	// The first prepares the statements, and prunes; and until the store has begun to
	// follow, that connection may be the one that speaks first.
	eventually(t, "nothing but what an Apply needs passes, three times in a row", func() bool {
		for again := range 3 {
			c.proxy.Arm(postgrestest.Cut{FromClient: -1, FromServer: -1})
			if _, err := c.try(); err != nil {
				t.Fatal(err)
			}
			passed := c.proxy.Passed()
			if again > 0 && passed != c.sizes {
				return false
			}
			c.sizes = passed
		}
		return true
	})
	return c
}

// try applies the next document.
func (c *cutTest) try() (store.Apply, error) {
	c.tried++
	a := writing(fmt.Sprintf("cut%04d", c.tried))
	_, err := c.s.Apply(within(c), a)
	return a, err
}

func (c *cutTest) isThere(a store.Apply) bool {
	_, err := c.direct.Get(within(c), a.Writes[0].Key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		c.Fatal(err)
	}
	return err == nil
}

// positions to cut at: across both round trips, and each of the last bytes.
func positions(size int) []int {
	var all []int
	for i := range 40 {
		all = append(all, size*i/40)
	}
	for i := range min(40, size) {
		all = append(all, size-i)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// The connection is cut at every part of a commit, in both directions; the
// server can be reached again at once.
func TestACommitThatIsCutAnywhereIsSettledByTheStore(t *testing.T) {
	c := newCutTest(t, 5*time.Second)
	outcomes := map[string]int{}
	for direction, size := range map[bool]int{true: c.sizes.FromClient, false: c.sizes.FromServer} {
		for _, at := range positions(size) {
			cut := postgrestest.Cut{FromClient: -1, FromServer: at}
			if direction {
				cut = postgrestest.Cut{FromClient: at, FromServer: -1}
			}
			// Statements are prepared again after each cut: one that is not cut comes first.
			if _, err := c.try(); err != nil {
				t.Fatal(err)
			}
			c.proxy.Arm(cut)
			a, err := c.try()
			there := c.isThere(a)
			switch {
			case errors.Is(err, store.ErrUnknown):
				t.Fatalf("%+v: unknown, though the server can be reached: %v", cut, err)
			case (err == nil) != there:
				t.Fatalf("%+v: it is there: %t, and the answer was %v", cut, there, err)
			case err == nil:
				outcomes["done"]++
			case !strings.Contains(err.Error(), errNothingWritten.Error()):
				t.Fatalf("%+v: the error does not say that nothing was written: %v", cut, err)
			default:
				outcomes["nothing written"]++
			}
		}
	}
	if outcomes["done"] < 20 || outcomes["nothing written"] < 10 {
		t.Fatalf("too few of one kind: %v", outcomes)
	}
	t.Logf("%v; settled %d times", outcomes, recoveries(t, c.s))
}

func recoveries(t *testing.T, s *Store) int {
	return count(t, raw(t, sharedServer(t).URL), "SELECT recoveries FROM "+pgx.Identifier{s.options.Schema, "head"}.Sanitize())
}

// As above, and the server cannot be reached after the cut: what was cut in
// the commit is unknown, stays so while it comes again, and is settled by
// coming again once the server is back.
func TestACommitThatCannotBeLookedUpIsUnknownAndSettledByRepeatingIt(t *testing.T) {
	c := newCutTest(t, 50*time.Millisecond)
	outcomes := map[string]int{}
	for i, at := range append(positions(c.sizes.FromServer), positions(c.sizes.FromClient)...) {
		cut := postgrestest.Cut{FromClient: -1, FromServer: at, Refuse: true}
		if i >= len(positions(c.sizes.FromServer)) {
			cut.FromClient, cut.FromServer = at, -1
		}
		if i%2 == 0 {
			outcomes[c.unreachable(cut)]++
		}
	}
	for _, kind := range []string{"unknown: true, there: true", "unknown: true, there: false", "unknown: false, there: false"} {
		if outcomes[kind] < 3 {
			t.Fatalf("too few of one kind: %v", outcomes)
		}
	}
	t.Log(outcomes)
}

// unreachable applies a document while the server goes away, again while it is
// gone, and again when it is back; it says what the first answer was.
func (c *cutTest) unreachable(cut postgrestest.Cut) string {
	if _, err := c.try(); err != nil { // statements are prepared again after each cut
		c.Fatal(err)
	}
	c.proxy.Arm(cut)
	a, err := c.try()
	first := err
	unknown := errors.Is(err, store.ErrUnknown)
	if err != nil {
		_, err := c.s.Apply(within(c), a)
		if err == nil || errors.Is(err, store.ErrUnknown) != unknown {
			c.Fatalf("%+v: unknown: %t, and again while the server is gone: %v", cut, unknown, err)
		}
	}
	c.proxy.Allow()
	r, err := c.s.Apply(within(c), a)
	if err != nil {
		c.Fatalf("%+v: %v", cut, err)
	}
	if first != nil && !unknown && r.Repeated {
		c.Fatalf("%+v: it was there, and the answer was %v", cut, first)
	}
	if !c.isThere(a) {
		c.Fatalf("%+v: it is not there", cut)
	}
	return fmt.Sprintf("unknown: %t, there: %t", unknown, r.Repeated)
}

// hanging is a store whose commits hang within COMMIT until release.
type hanging struct {
	*testing.T
	conn *pgx.Conn
	s    *Store
}

const hangLock = 4711

func newHanging(t *testing.T, o Options) *hanging {
	h := &hanging{T: t, conn: raw(t, sharedServer(t).URL), s: mustOpen(t, o)}
	rawExec(t, h.conn, strings.ReplaceAll(`
		CREATE FUNCTION {s}.hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER hang AFTER INSERT ON {s}.commits DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {s}.hang()`,
		"{s}", o.Schema))
	rawExec(t, h.conn, `SELECT pg_advisory_lock($1)`, hangLock)
	return h
}

func (h *hanging) release() { rawExec(h, h.conn, `SELECT pg_advisory_unlock($1)`, hangLock) }

// pid waits until a session hangs in COMMIT, and returns its process.
func (h *hanging) pid() int {
	query := `SELECT coalesce(max(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted`
	eventually(h, "a session hangs in COMMIT", func() bool { return count(h, h.conn, query, hangLock) != 0 })
	return count(h, h.conn, query, hangLock)
}

func TestASessionTerminatedInMidCommitIsSettledAsNotDone(t *testing.T) {
	h := newHanging(t, quiet(sharedServer(t).URL, newSchema()))
	first := applying(within(t), h.s, writing("a"))
	rawExec(t, h.conn, `SELECT pg_terminate_backend($1)`, h.pid())
	a := <-first
	if a.err == nil || errors.Is(a.err, store.ErrUnknown) || !strings.Contains(a.err.Error(), errNothingWritten.Error()) {
		t.Fatalf("got %+v, %v", a.result, a.err)
	}
	h.release()
	if r := isDone(t, applying(within(t), h.s, writing("a"))); r.Repeated {
		t.Fatalf("got %+v after it was said that nothing was written", r)
	}
}

// The look-up must not overtake the commit that it is about.
func TestALookUpWaitsForTheCommitThatIsStillOnItsWay(t *testing.T) {
	proxy := sharedServer(t).Proxy(t)
	h := newHanging(t, quiet(proxy.URL, newSchema()))
	first := applying(within(t), h.s, writing("a"))
	h.pid()
	proxy.Sever()
	eventually(t, "the look-up waits for the lock", func() bool {
		return count(t, h.conn, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid <> $1 AND NOT granted`, hangLock) == 1
	})
	h.release()
	if r := isDone(t, first); r.Sequence == 0 || r.Repeated {
		t.Fatalf("got %+v", r)
	}
}

func TestAnApplyWhoseContextEndsWithinTheCommitIsUnknownAndOneThatWaitsIsWithdrawn(t *testing.T) {
	proxy := sharedServer(t).Proxy(t)
	h := newHanging(t, quiet(proxy.URL, newSchema()))
	ctx, cancel := context.WithCancel(within(t))
	hangs := applying(ctx, h.s, writing("hangs"))
	h.pid()
	waits := applying(ctx, h.s, writing("waits"))
	eventually(t, "it waits", func() bool { return h.s.queue.Len() > 0 })
	cancel()
	if a := <-hangs; !errors.Is(a.err, store.ErrUnknown) || !errors.Is(a.err, context.Canceled) {
		t.Fatalf("the one that hangs: %v", a.err)
	}
	if a := <-waits; errors.Is(a.err, store.ErrUnknown) || !errors.Is(a.err, context.Canceled) {
		t.Fatalf("the one that waits: %v", a.err)
	}
	h.release()
	isDone(t, applying(within(t), h.s, writing("next"))) // the writer has moved on

	proxy.Refuse()
	proxy.Sever()
	if a := <-applying(within(t), h.s, writing("hangs")); !errors.Is(a.err, store.ErrUnknown) {
		t.Fatalf("it came again while the server was gone: %v", a.err)
	}
	if a := <-applying(within(t), h.s, writing("waits")); a.err == nil || errors.Is(a.err, store.ErrUnknown) {
		t.Fatalf("the one that was withdrawn came again while the server was gone: %v", a.err)
	}
	proxy.Allow()
	if r := isDone(t, applying(within(t), h.s, writing("hangs"))); !r.Repeated {
		t.Fatalf("got %+v", r)
	}
	if r := isDone(t, applying(within(t), h.s, writing("waits"))); r.Repeated {
		t.Fatalf("got %+v", r)
	}
}

func TestNothingIsAcknowledgedThatItsStandbyLacks(t *testing.T) {
	server := postgrestest.Start(t)
	o := quiet(server.URL, "fairlead")
	o.faults.mute = false
	o.limits = limits{poll: 20 * time.Millisecond, settle: 300 * time.Millisecond, lock: time.Minute}
	s := mustOpen(t, o)
	if d := s.Guarantee().Description; !strings.Contains(d, "no synchronous standby") {
		t.Fatal(d)
	}
	conn := raw(t, server.URL)
	standbys := func(names string) {
		rawExec(t, conn, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		rawExec(t, conn, "SELECT pg_reload_conf()")
	}
	standbys("nowhere")
	eventually(t, "the guarantee names the standby", func() bool {
		return strings.Contains(s.Guarantee().Description, "waits for a synchronous standby (nowhere)")
	})
	waiting := `SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
	var first <-chan applied
	var a store.Apply
	// Which commits wait is told by another process of the server, a moment later.
	for n := 0; count(t, conn, waiting) == 0; n++ {
		a = writing(fmt.Sprint("a", n))
		first = applying(within(t), s, a)
		eventually(t, "the commit is done or waits", func() bool { return len(first) > 0 || count(t, conn, waiting) != 0 })
	}
	// The server now answers that the commit is done, and warns.
	rawExec(t, conn, `SELECT pg_cancel_backend($1)`, count(t, conn, waiting))
	if a := <-first; !errors.Is(a.err, store.ErrUnknown) {
		t.Fatalf("got %+v, %v", a.result, a.err)
	}
	standbys("")
	if r := isDone(t, applying(within(t), s, a)); !r.Repeated {
		t.Fatalf("got %+v", r)
	}
}
