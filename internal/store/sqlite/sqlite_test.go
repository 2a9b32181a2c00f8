package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/storetest"
)

func TestMain(m *testing.M) {
	runChild()
	goleak.VerifyTestMain(m)
}

func TestSQLiteIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		path := filepath.Join(t.TempDir(), "data", "store.db")
		return storetest.Harness{
			Open: func(t testing.TB, o storetest.Options) store.Store {
				return mustOpen(t, Options{Path: path, Now: o.Now})
			},
			Second: func(testing.TB) (store.Store, error) { return Open(Options{Path: path}) },
		}
	})
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
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

func TestCloseLeavesOneFileForTheOperator(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := mustOpen(t, Options{Path: path})
	if _, err := s.Apply(t.Context(), writing("a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", suffix, err)
		}
	}
	var body string
	if err := raw(t, path).QueryRow("SELECT json_extract(body, '$.name') FROM documents").Scan(&body); err != nil || body != "a" {
		t.Fatalf("got %q, %v", body, err)
	}
}

func TestFilesAreTheirOwnersAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "data")
	s := mustOpen(t, Options{Path: filepath.Join(folder, "store.db"), Ballast: 1 << 20})
	if _, err := s.Apply(t.Context(), writing("a")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 5 {
		t.Fatalf("%d files, want database, log, index, lock and ballast: %v", len(entries), err)
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v: %v", e.Name(), st.Mode(), err)
		}
	}
	st, err := os.Stat(folder)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v: %v", st.Mode(), err)
	}
}

func TestTheLogIsBoundedInBytesAndIdentitiesStay(t *testing.T) {
	s := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "store.db"), LogBytes: 1000})
	for i := range 200 {
		if _, err := s.Apply(t.Context(), writing(fmt.Sprintf("a%03d", i))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Watch(t.Context(), 10)
	if !errors.Is(err, store.ErrTooOld) {
		t.Fatalf("got %v, want too old", err)
	}
	var counted, recorded int64
	err = s.engine.writer.QueryRowContext(t.Context(), "SELECT (SELECT sum(length(body)) FROM changes), log_bytes FROM head").Scan(&counted, &recorded)
	if err != nil || counted != recorded || counted > 1000 || counted < 500 {
		t.Fatalf("the log has %d bytes, recorded %d: %v", counted, recorded, err)
	}
	w, err := s.Watch(t.Context(), 195)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s.tail.reset(200) // reads the file from here on
	for want := uint64(196); want <= 200; want++ {
		c, err := w.Next(t.Context())
		if err != nil || c.Sequence != want || c.ApplyID != fmt.Sprintf("a%03d", want-1) || len(c.Changes) != 1 {
			t.Fatalf("got %+v, %v", c, err)
		}
	}
	r, err := s.Apply(t.Context(), writing("a000"))
	if err != nil || r != (store.Result{Sequence: 1, Repeated: true}) {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestAWatcherFarBehindReadsTheFileInPortions(t *testing.T) {
	s := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "store.db")})
	const n = 3 * readCommits
	for i := range n {
		a := writing(fmt.Sprintf("a%03d", i))
		if i%10 == 0 { // some so large that a portion ends before its number does
			a.Writes[0].Body = fmt.Appendf(nil, "%q", strings.Repeat("x", readBytes/3))
		}
		if _, err := s.Apply(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	s.tail.reset(n)
	w, err := s.Watch(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for want := uint64(1); want <= n; want++ {
		c, err := w.Next(t.Context())
		if err != nil || c.Sequence != want || len(c.Changes) != 1 || c.Changes[0].Name != c.ApplyID {
			t.Fatalf("got %d of %s, %v; want %d", c.Sequence, c.ApplyID, err, want)
		}
	}
}
