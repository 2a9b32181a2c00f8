package dir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/bucket/buckettest"
	"github.com/fairlead-platform/fairlead/internal/bucket/dir"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv("FAIRLEAD_BUCKET_CHILD"); folder != "" {
		os.Exit(putForEver(folder))
	}
	goleak.VerifyTestMain(m)
}

func mustOpen(t *testing.T, folder string) *dir.Bucket {
	t.Helper()
	b, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestAFolderIsABucket(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return mustOpen(t, filepath.Join(t.TempDir(), "new", "bucket")) })
}

func TestABlobThatLeadsOutOfTheFolderIsNotFollowed(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(filepath.Join(outside, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "=secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	b := mustOpen(t, folder)
	for link, target := range map[string]string{"=file": filepath.Join(outside, "=secret"), "+folder": outside} {
		if err := os.Symlink(target, filepath.Join(folder, "blobs", link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "folder/secret"} {
		if r, _, err := b.Open(t.Context(), name); err == nil {
			_ = r.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if _, err := b.Put(t.Context(), "folder/new", strings.NewReader("x"), false); err == nil {
		t.Error("folder/new was written")
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 2 {
		t.Fatalf("outside has %v, %v", entries, err)
	}
}

func TestBlobsAreTheirOwnersAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "bucket")
	b := mustOpen(t, folder)
	if _, err := b.Put(t.Context(), "a/b", strings.NewReader("x"), false); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// putForEver puts blobs until it is killed, and prints the name of each after.
func putForEver(folder string) int {
	b, err := dir.Open(folder)
	for i := 0; err == nil; i++ {
		name := fmt.Sprintf("n/%d", i)
		if _, err = b.Put(context.Background(), name, strings.NewReader(strings.Repeat(name, 20_000)), false); err == nil {
			_, err = fmt.Println(name)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestADeathLeavesWholeBlobsAndNothingElse(t *testing.T) {
	folder := t.TempDir()
	for round := range 5 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "FAIRLEAD_BUCKET_CHILD="+folder)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_, readErr := io.CopyN(io.Discard, out, int64(20+17*round))
		killErr := c.Process.Kill()
		_ = c.Wait()
		if err := errors.Join(readErr, killErr); err != nil {
			t.Fatal(err)
		}
		// What a death in mid-write leaves, in any case once:
		if err := os.WriteFile(filepath.Join(folder, "tmp", "LEFTOVER"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		b := mustOpen(t, folder)
		left, err := os.ReadDir(filepath.Join(folder, "tmp"))
		if err != nil || len(left) != 0 {
			t.Fatalf("left over: %v, %v", left, err)
		}
		list, err := b.List(t.Context(), "")
		if err != nil || len(list) < 3 {
			t.Fatalf("%d blobs, %v", len(list), err)
		}
		for _, i := range list {
			if i.Size != int64(20_000*len(i.Name)) {
				t.Errorf("%s has %d bytes", i.Name, i.Size)
			}
		}
	}
}

func TestAFullDiskIsToldAndLeavesNothing(t *testing.T) {
	const marker = "FAIRLEAD_PRIVATE_MOUNTS"
	if os.Getenv(marker) == "" {
		if os.Geteuid() != 0 {
			t.Fatal("this test mounts a small disk of its own: run it as root (in a container, for example)")
		}
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
		c.Env = append(os.Environ(), marker+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Fatalf("in private mounts: %v\n%s", err, out)
		}
		return
	}
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=1048576"); err != nil {
		t.Fatalf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b := mustOpen(t, folder)
	if _, err := b.Put(t.Context(), "small", strings.NewReader("x"), false); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := b.Put(t.Context(), "big", bytes.NewReader(make([]byte, 2<<20)), false)
		if !errors.Is(err, bucket.ErrFull) {
			t.Fatalf("got %v, want %v", err, bucket.ErrFull)
		}
	}
	list, err := b.List(t.Context(), "")
	if err != nil || len(list) != 1 {
		t.Fatalf("the list is %v, %v", list, err)
	}
	if _, err := b.Put(t.Context(), "half", bytes.NewReader(make([]byte, 512<<10)), false); err != nil {
		t.Fatalf("what fits, after what did not: %v", err)
	}
}

func TestOpeningASharedFolderLeavesWhatOthersWriteAndRemovesOldLeftovers(t *testing.T) {
	folder := t.TempDir()
	first, err := dir.OpenShared(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	old := filepath.Join(folder, "tmp", "OLD")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	body, end := io.Pipe()
	put := make(chan error, 1)
	go func() {
		_, err := first.Put(context.Background(), "a", body, true)
		put <- err
	}()
	if _, err := end.Write([]byte("half ")); err != nil { // taken: it is written to
		t.Fatal(err)
	}
	second, err := dir.OpenShared(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover of a dead process: %v", err)
	}
	if _, err := end.Write([]byte("whole")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(end.Close(), <-put); err != nil {
		t.Fatalf("what was written meanwhile: %v", err)
	}
	r, _, err := second.Open(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "half whole" {
		t.Errorf("read %q, %v", b, err)
	}
}
