package dir_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/bucket/dir"
)

// said is what a bucket logs, one line each.
type said struct{ strings.Builder }

func (s *said) lines() int { return strings.Count(s.String(), "\n") }

func listenTo(b *dir.Bucket) *said {
	s := &said{}
	b.Log = slog.New(slog.NewTextHandler(s, nil))
	return s
}

func mustPut(t *testing.T, b *dir.Bucket, name string) {
	t.Helper()
	if _, err := b.Put(t.Context(), name, strings.NewReader(name), true); err != nil {
		t.Fatal(err)
	}
	r, _, err := b.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(content) != name {
		t.Fatalf("%s reads %q, %v", name, content, err)
	}
}

func TestABucketOutlivesItsFolder(t *testing.T) {
	for what, lose := range map[string]func(folder string) error{
		"the folder was removed":    os.RemoveAll,
		"all above it was removed":  func(folder string) error { return os.RemoveAll(filepath.Dir(folder)) },
		"the folder was moved away": func(folder string) error { return os.Rename(folder, folder+".old") },
		"the folder was replaced": func(folder string) error {
			return errors.Join(os.Rename(folder, folder+".old"), os.Mkdir(folder, 0o700))
		},
		"tmp was removed":   func(folder string) error { return os.RemoveAll(filepath.Join(folder, "tmp")) },
		"blobs was removed": func(folder string) error { return os.RemoveAll(filepath.Join(folder, "blobs")) },
	} {
		t.Run(what, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "data", "bucket")
			b := mustOpen(t, folder)
			log := listenTo(b)
			mustPut(t, b, "a/before")
			if log.lines() != 0 {
				t.Fatalf("said before anything happened: %s", log)
			}
			if err := lose(folder); err != nil {
				t.Fatal(err)
			}
			mustPut(t, b, "a/after")
			mustPut(t, b, "b/after")
			if log.lines() != 1 || !strings.Contains(log.String(), folder) {
				t.Fatalf("said %d times, want once with the folder: %s", log.lines(), log)
			}
			if err := b.Health(); err != nil {
				t.Fatal(err)
			}
			// It is where another process looks for it.
			list, err := mustOpen(t, folder).List(t.Context(), "b/")
			if err != nil || len(list) != 1 {
				t.Fatalf("another sees %v, %v", list, err)
			}
		})
	}
}

func TestEveryCallOpensALostFolderAgain(t *testing.T) {
	for call, do := range map[string]func(ctx context.Context, b *dir.Bucket) error{
		"open":   func(ctx context.Context, b *dir.Bucket) error { _, _, err := b.Open(ctx, "a"); return err },
		"stat":   func(ctx context.Context, b *dir.Bucket) error { _, err := b.Stat(ctx, "a"); return err },
		"list":   func(ctx context.Context, b *dir.Bucket) error { _, err := b.List(ctx, ""); return err },
		"delete": func(ctx context.Context, b *dir.Bucket) error { return b.Delete(ctx, "a") },
		"health": func(_ context.Context, b *dir.Bucket) error { return b.Health() },
	} {
		t.Run(call, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "bucket")
			b := mustOpen(t, folder)
			mustPut(t, b, "a")
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			if err := do(t.Context(), b); err != nil && !errors.Is(err, bucket.ErrNotFound) {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(folder, "tmp")); err != nil {
				t.Fatalf("it was not made again: %v", err)
			}
		})
	}
}

func TestAFolderThatCannotBeMadeAgainIsToldUntilItCan(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "bucket")
	b := mustOpen(t, folder)
	if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := b.Put(t.Context(), "a", strings.NewReader("x"), false)
	for what, err := range map[string]error{"put": err, "health": b.Health()} {
		if err == nil || !strings.Contains(err.Error(), folder+" was removed or replaced") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if err := b.Health(); err != nil {
		t.Fatal(err)
	}
	mustPut(t, b, "a")
}

func TestAPutIntoAFolderThatIsLostMeanwhileIsNotAcknowledged(t *testing.T) {
	for what, lose := range map[string]func(folder string) error{
		"removed":    os.RemoveAll,
		"moved away": func(folder string) error { return os.Rename(folder, folder+".old") },
	} {
		t.Run(what, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "bucket")
			b := mustOpen(t, folder)
			body, end := io.Pipe()
			put := make(chan error, 1)
			go func() {
				_, err := b.Put(context.Background(), "a", body, false)
				put <- err
			}()
			if _, err := end.Write([]byte("half ")); err != nil { // taken: it is written to
				t.Fatal(err)
			}
			if err := lose(folder); err != nil {
				t.Fatal(err)
			}
			if err := end.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-put; err == nil || !strings.Contains(err.Error(), "put it again") {
				t.Fatalf("got %v", err)
			}
			mustPut(t, b, "a")
		})
	}
}

func TestAClosedBucketMakesNoFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "bucket")
	b := mustOpen(t, folder)
	if err := errors.Join(b.Close(), os.RemoveAll(folder)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "a", strings.NewReader("x"), false); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if err := b.Health(); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the folder is there: %v", err)
	}
}
