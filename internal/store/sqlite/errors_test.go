package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/queue"
)

// leads checks that the error begins with what happened and what to do, and
// has no identity in it, which would tell its reader nothing.
func leads(t *testing.T, err error, a store.Apply, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), a.ID) {
		t.Fatalf("got %v, want it to begin with %q and to be without %q", err, want, a.ID)
	}
}

func TestAnErrorLeadsWithWhatHappenedAndTheIdentityIsInTheDebugLogOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "store.db")
	folder := filepath.Dir(path)
	var log bytes.Buffer
	s := mustOpen(t, Options{Path: path, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	a := writing("document")
	a.ID = "01M8MN0123456789ABCDEFGHJK"
	if _, err := s.Apply(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	other := writing("another")
	other.ID = a.ID
	_, err := s.Apply(t.Context(), other)
	leads(t, err, other, "invalid apply: its ID was used for other content")

	for cause, want := range map[error]string{
		fmt.Errorf("%w: database or disk is full (13)", store.ErrFull): "disk is full: make room in " + folder + "; until then",
		fmt.Errorf("%w: readonly (8)", store.ErrReadOnly):              "store is read-only: make " + folder + " writable",
		errors.New("disk I/O error (10)"):                              "the store's disk or database failed: look at the disk of " + folder + " (disk I/O error (10))",
	} {
		r := queue.NewRequest(a)
		s.refuse(r, cause)
		_, err := r.Answered()
		leads(t, err, a, want)
		if !errors.Is(err, cause) || !strings.HasSuffix(err.Error(), "; nothing was written") {
			t.Errorf("got %v", err)
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	a.ID = "01M8MN0123456789ABCDEFGHJZ"
	_, err = s.Apply(context.Background(), a)
	leads(t, err, a, "store's files were removed or replaced: "+path)
	if !strings.Contains(log.String(), a.ID) {
		t.Errorf("the log has no %s: %s", a.ID, &log)
	}
}

func TestADamagedFileIsSaidWithWhatToDoAndUnhealthy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	said := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "the store's file "+path+" is damaged: stop this process, put the store's folder back") {
			t.Errorf("got %v", err)
		}
	}
	s := mustOpen(t, Options{Path: path})
	for i := range 200 {
		if _, err := s.Apply(t.Context(), writing(fmt.Sprint("document", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	spoil := func(from int) { // pages lose their headers
		file := bytes.Clone(whole)
		for at := from * page; at < len(file); at += page {
			copy(file[at:], bytes.Repeat([]byte{0xff}, 64))
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil(len(whole) / page / 2)
	s = mustOpen(t, Options{Path: path})
	_, _, err = s.List(t.Context(), "thing")
	said(err)
	said(s.Health())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	spoil(1)
	_, err = Open(Options{Path: path})
	said(err)
}
