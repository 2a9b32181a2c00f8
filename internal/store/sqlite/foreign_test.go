package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

func TestWhatAnotherProgramWritesEndsTheWatchersSoThatTheyListAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	path := filepath.Join(t.TempDir(), "store.db")
	s := mustOpen(t, Options{Path: path})
	first, err := s.Apply(ctx, writing("a"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(ctx, first.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := s.Apply(ctx, writing("b")); err != nil {
		t.Fatal(err)
	}
	if c, err := w.Next(ctx); err != nil || c.Changes[0].Name != "b" {
		t.Fatalf("our own commit: %v, %v", c, err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE documents SET body = '{"edited":true}' WHERE name = 'a'`); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(ctx); !errors.Is(err, store.ErrTooOld) {
		t.Fatalf("after a foreign write: %v, want %v", err, store.ErrTooOld)
	}
	list, sequence, err := s.List(ctx, "thing")
	if err != nil || len(list) != 2 || string(list[0].Body) != `{"edited":true}` {
		t.Fatalf("listing: %v, %v", list, err)
	}
	again, err := s.Watch(ctx, sequence)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	third, err := s.Apply(ctx, writing("c"))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := again.Next(ctx); err != nil || c.Sequence != third.Sequence {
		t.Fatalf("after it: %v, %v", c, err)
	}
}
