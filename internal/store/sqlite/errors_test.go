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
