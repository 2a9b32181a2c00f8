package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
)

// inPrivateMounts runs the body in this test binary started again, with mounts
// of its own that nobody else sees and that end with it.
func inPrivateMounts(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	const marker = "FAIRLEAD_PRIVATE_MOUNTS"
	if os.Getenv(marker) == t.Name() {
		body(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a file system of its own: run it as root (in a container, for example)")
	}
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	c.Env = append(os.Environ(), marker+"="+t.Name())
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("in private mounts: %v\n%s", err, out)
	}
}

func TestOnAFullDiskNothingIsWrittenAndTheErrorSaysSo(t *testing.T) {
	inPrivateMounts(t, func(t *testing.T) {
		server := postgrestest.Start(t)
		disk := filepath.Join(server.Folder, "disk")
		if err := os.Mkdir(disk, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m,mode=777"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(server.Stop(), unix.Unmount(disk, unix.MNT_DETACH)); err != nil {
				t.Error(err)
			}
		})
		if out, err := server.Command("mkdir", disk+"/space").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		// The server was started before the mount, and is started again to see it.
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		conn := raw(t, server.URL)
		rawExec(t, conn, "CREATE TABLESPACE small LOCATION '"+disk+"/space'")
		s := mustOpen(t, Options{URL: server.URL + "&default_tablespace=small"})
		isDone(t, applying(within(t), s, writing("first")))
		full := fillUp(t, s)
		if _, err := s.Get(within(t), full.Writes[0].Key); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("got %v after it was said that nothing was written", err)
		}
		if r := isDone(t, applying(within(t), s, writing("first"))); !r.Repeated {
			t.Fatalf("a repeated Apply on a full disk: %+v", r)
		}
		if a := <-applying(within(t), s, store.Apply{ID: "conflicting", Writes: writing("first").Writes}); store.AsConflict(a.err) == nil {
			t.Fatalf("a conflict on a full disk: %v", a.err)
		}
	})
}

// fillUp applies large bodies until there is no room, and returns the one that
// was refused.
func fillUp(t *testing.T, s *Store) store.Apply {
	for i := range 100 {
		a := writing(fmt.Sprintf("large%02d", i))
		var text strings.Builder
		for n := range 40_000 { // of a kind that is not compressed away
			fmt.Fprintf(&text, "%x", n*n*2_654_435_761)
		}
		a.Writes[0].Body = fmt.Appendf(nil, "%q", text.String())
		got := <-applying(within(t), s, a)
		if got.err == nil {
			continue
		}
		if !errors.Is(got.err, store.ErrFull) || errors.Is(got.err, store.ErrUnknown) {
			t.Fatalf("got %v", got.err)
		}
		return a
	}
	t.Fatal("the disk is not full")
	return store.Apply{}
}

func TestADatabaseThatIsReadOnlyIsReadAndRefusesWrites(t *testing.T) {
	o := fresh(t)
	s := mustOpen(t, o)
	isDone(t, applying(within(t), s, writing("a")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Options{URL: o.URL + "&default_transaction_read_only=on", Schema: o.Schema})
	readsOnly(t, s)
	_, err := Open(within(t), Options{URL: o.URL + "&default_transaction_read_only=on", Schema: newSchema()})
	if !errors.Is(err, store.ErrReadOnly) {
		t.Fatalf("a new store: %v", err)
	}
}

// readsOnly: the store holds what writing("a") wrote, and takes no more.
func readsOnly(t *testing.T, s *Store) {
	t.Helper()
	if a := <-applying(within(t), s, writing("b")); !errors.Is(a.err, store.ErrReadOnly) || !strings.Contains(a.err.Error(), errNothingWritten.Error()) {
		t.Fatalf("got %v", a.err)
	}
	if r := isDone(t, applying(within(t), s, writing("a"))); !r.Repeated {
		t.Fatalf("a repeated Apply: %+v", r)
	}
	if a := <-applying(within(t), s, store.Apply{ID: "x", Writes: writing("a").Writes}); store.AsConflict(a.err) == nil {
		t.Fatalf("a conflict: %v", a.err)
	}
	if list, _, err := s.List(within(t), ""); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
}

func TestAStandbyIsReadAndFollowedAndRefusesWrites(t *testing.T) {
	primary := postgrestest.Start(t)
	s := mustOpen(t, Options{URL: primary.URL})
	isDone(t, applying(within(t), s, writing("a")))
	standby := primary.Standby(t)
	o := Options{URL: standby.URL}
	o.limits.poll = 20 * time.Millisecond // a standby passes no wake-ups
	follower := mustOpen(t, o)
	readsOnly(t, follower)
	if follower.Incarnation() != s.Incarnation() {
		t.Fatal("another incarnation")
	}
	_, sequence, err := follower.List(within(t), "")
	if err != nil {
		t.Fatal(err)
	}
	w := watching(t, follower, sequence)
	isDone(t, applying(within(t), s, writing("b")))
	if id := nextID(t, w); id != "b" {
		t.Fatalf("got %s", id)
	}
	// The standby takes over: it takes writes now, and wakes who waits.
	if err := primary.Crash(); err != nil {
		t.Fatal(err)
	}
	rawExec(t, raw(t, standby.URL), "SELECT pg_promote()")
	isDone(t, applying(within(t), follower, writing("c")))
	if id := nextID(t, w); id != "c" {
		t.Fatalf("got %s", id)
	}
}

func TestASchemaNewerThanTheProgramIsRefusedAndNothingChanges(t *testing.T) {
	o := fresh(t)
	s := mustOpen(t, o)
	conn := raw(t, o.URL)
	rawExec(t, conn, "UPDATE "+o.Schema+".head SET schema_version = 99")
	_, err := Open(within(t), o)
	if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "up to 1") {
		t.Fatalf("got %v", err)
	}
	// One that was open before the upgrade writes nothing more.
	if a := <-applying(within(t), s, writing("a")); !errors.Is(a.err, store.ErrNewer) {
		t.Fatalf("got %v", a.err)
	}
	if n := count(t, conn, "SELECT count(*) FROM "+o.Schema+".documents"); n != 0 {
		t.Fatalf("%d documents", n)
	}
}

func TestASchemaOfAnotherProgramIsRefusedAndNothingChanges(t *testing.T) {
	o := fresh(t)
	conn := raw(t, o.URL)
	rawExec(t, conn, "CREATE SCHEMA "+o.Schema)
	rawExec(t, conn, "CREATE TABLE "+o.Schema+".head (theirs text)")
	if _, err := Open(within(t), o); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Fatalf("got %v", err)
	}
	if n := count(t, conn, "SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace", o.Schema); n != 1 {
		t.Fatalf("%d relations", n)
	}
}

func TestWhatCannotBeAStoreIsRefusedWithTheReason(t *testing.T) {
	o := fresh(t)
	rawExec(t, raw(t, o.URL), "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no URL":           {Options{}, "no database is named"},
		"a bad URL":        {Options{URL: "postgres://u:secret@h:port/d"}, "cannot parse"},
		"a bad schema":     {Options{URL: o.URL, Schema: "A;"}, "lower-case"},
		"another encoding": {Options{URL: strings.Replace(o.URL, "/postgres?", "/latin?", 1)}, "ENCODING 'UTF8'"},
		"no such database": {Options{URL: strings.Replace(o.URL, "/postgres?", "/none?", 1)}, "does not exist"},
		"nobody listens":   {Options{URL: "postgres://u:secret@127.0.0.1:1/d"}, "refused"},
	} {
		_, err := Open(within(t), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q and no password", name, err, c.want)
		}
	}
}

func TestOfStoresThatAreMadeAtOnceThereIsOne(t *testing.T) {
	o := fresh(t)
	var all sync.WaitGroup
	incarnations := make([]string, 6)
	for i := range incarnations {
		all.Go(func() {
			s, err := Open(context.Background(), o)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			incarnations[i] = s.Incarnation()
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	all.Wait()
	for _, x := range incarnations {
		if x != incarnations[0] || x == "" {
			t.Fatalf("incarnations %q", incarnations)
		}
	}
}

// A role that owns its schema and may make none is enough.
func TestARoleWithASchemaOfItsOwnIsEnough(t *testing.T) {
	o := fresh(t)
	conn := raw(t, o.URL)
	rawExec(t, conn, "CREATE ROLE modest LOGIN")
	modest := Options{URL: strings.Replace(o.URL, "postgres@", "modest@", 1), Schema: o.Schema}
	if _, err := Open(within(t), modest); !errors.Is(err, store.ErrReadOnly) {
		t.Fatalf("without a schema: %v", err)
	}
	rawExec(t, conn, "CREATE SCHEMA "+o.Schema+" AUTHORIZATION modest")
	isDone(t, applying(within(t), mustOpen(t, modest), writing("a")))
}

func TestEverySessionAcknowledgesWhatIsOnDiskOnly(t *testing.T) {
	o := fresh(t)
	rawExec(t, raw(t, o.URL), "CREATE ROLE hasty LOGIN SUPERUSER")
	rawExec(t, raw(t, o.URL), "ALTER ROLE hasty SET synchronous_commit = off")
	s := mustOpen(t, Options{URL: strings.Replace(o.URL, "postgres@", "hasty@", 1), Schema: o.Schema})
	var setting string
	if err := s.writer.conn.QueryRow(within(t), "SHOW synchronous_commit").Scan(&setting); err != nil || setting != "on" {
		t.Fatalf("got %q, %v", setting, err)
	}
	if d := s.Guarantee().Description; !strings.Contains(d, "not the loss of the server's disk") {
		t.Fatal(d)
	}
	// What is weaker after it was set is noticed.
	rawExec(t, s.writer.conn, "SET synchronous_commit = off")
	if err := s.observe(within(t), s.writer.conn); err == nil || !strings.Contains(err.Error(), "not on disk") {
		t.Fatalf("got %v", err)
	}
}

func TestAServerWithoutSyncsIsNotPraised(t *testing.T) {
	server := postgrestest.Start(t, "fsync=off")
	if d := mustOpen(t, Options{URL: server.URL}).Guarantee().Description; !strings.Contains(d, "does not survive power loss") {
		t.Fatal(d)
	}
}

// A body that the server cannot read fails its own Apply, not its group.
func TestABodyThatTheServerRefusesFailsItsOwnApplyAlone(t *testing.T) {
	o := fresh(t)
	o.URL += "&max_stack_depth=100kB"
	s := openLate(t, o)
	isResting := applying(within(t), s, writing("first"))
	<-s.resting
	deep := writing("deep")
	deep.Writes[0].Body = []byte(strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000))
	refusedOne := applying(within(t), s, deep)
	others := []<-chan applied{applying(within(t), s, writing("a")), applying(within(t), s, writing("b"))}
	eventually(t, "all three wait", func() bool { return s.queue.Len() == 3 })
	s.release()
	isDone(t, isResting)
	for _, c := range others {
		isDone(t, c)
	}
	if a := <-refusedOne; a.err == nil || !strings.Contains(a.err.Error(), errNothingWritten.Error()) {
		t.Fatalf("got %v", a.err)
	}
}

func TestAnOperatorReadsTheDocumentsWithPsql(t *testing.T) {
	o := fresh(t)
	isDone(t, applying(within(t), mustOpen(t, o), writing("a")))
	var name string
	query := "SELECT body->>'name' FROM " + pgx.Identifier{o.Schema, "documents"}.Sanitize() + " WHERE kind = 'thing'"
	if err := raw(t, o.URL).QueryRow(within(t), query).Scan(&name); err != nil || name != "a" {
		t.Fatalf("got %q, %v", name, err)
	}
}
