package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestASecondProcessOnTheHostsFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	f, err := openFolder(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, err = openFolder(dir, slog.New(slog.DiscardHandler))
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second process: %v, want a conflict that names %d", err, os.Getpid())
	}
	f.close()
	again, err := openFolder(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	defer again.close()
	if again.marker != f.marker {
		t.Errorf("the folder's marker changed from %q to %q", f.marker, again.marker)
	}
}

func TestWhatAKilledHostHadBegunToWriteIsRemoved(t *testing.T) {
	dir := t.TempDir()
	f, err := openFolder(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f.close()
	var begun []string
	for _, d := range []string{"", dirSlots, dirInstances, dirArtifacts} {
		name := filepath.Join(dir, d, ".new-123456")
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		begun = append(begun, name)
	}
	if f, err = openFolder(dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for _, name := range begun {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

func TestARecordThatCannotBeReadStopsNothingElse(t *testing.T) {
	f, err := openFolder(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.write(slotFile("good.0"), slotRecord{Restarts: 3, Assignment: service.Assignment{Slot: "good.0"}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path(slotFile("bad.0")), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, damaged, err := readAll[slotRecord](f, dirSlots, slog.New(slog.DiscardHandler))
	if err != nil || !damaged["bad.0"] || len(got) != 1 || got["good.0"].Restarts != 3 {
		t.Errorf("read %v, %v", got, err)
	}
	if _, err := os.Stat(f.path(slotFile("bad.0")) + ".bad"); err != nil {
		t.Errorf("the bad record was not put aside: %v", err)
	}
}

func TestOutputIsBoundedAndFollowedAcrossRotation(t *testing.T) {
	j := &journal{path: filepath.Join(t.TempDir(), "x.log"), max: 4096}
	out, err := j.open()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var m mark
	var read bytes.Buffer
	drain := func() {
		buf := make([]byte, 1000)
		for {
			n, next, err := j.read(m, buf)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return
			}
			m = next
			read.Write(buf[:n])
		}
	}
	var want bytes.Buffer
	for i := range 2000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if _, err := out.WriteString(line); err != nil {
			t.Fatal(err)
		}
		if i%300 == 0 {
			drain()
		}
		if i%100 == 0 {
			if err := j.rotate(); err != nil {
				t.Fatal(err)
			}
		}
	}
	drain()
	if !bytes.Equal(read.Bytes(), want.Bytes()) {
		t.Errorf("a follower read %d bytes of %d", read.Len(), want.Len())
	}
	for _, f := range []string{j.path, j.older()} {
		if st, err := os.Stat(f); err != nil || st.Size() > j.max+1000 {
			t.Errorf("%s: %v bytes, %v", f, st.Size(), err)
		}
	}
	lines, _, err := j.tail(3)
	if err != nil || len(lines) != 3 || string(lines[2]) != "line 1999" {
		t.Errorf("tail is %q, %v", lines, err)
	}
}

func TestATailReachesIntoTheOlderFile(t *testing.T) {
	j := &journal{path: filepath.Join(t.TempDir(), "x.log"), max: 10}
	if err := os.WriteFile(j.older(), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.path, []byte("three\nunfinished"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, at, err := j.tail(2)
	if err != nil || len(lines) != 2 || string(lines[0]) != "two" || string(lines[1]) != "three" {
		t.Errorf("tail is %q, %v", lines, err)
	}
	buf := make([]byte, 100)
	if n, _, err := j.read(at, buf); err != nil || string(buf[:n]) != "unfinished" {
		t.Errorf("after the tail comes %q, %v", buf[:n], err)
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestAnArtifactIsFetchedOnceAndRunsFromItsCopy(t *testing.T) {
	content := []byte("#!/bin/sh\n")
	var mu sync.Mutex
	fetched := 0
	a := &artifacts{dir: t.TempDir(), fetch: func(_ context.Context, _ string, to io.Writer) error {
		mu.Lock()
		defer mu.Unlock()
		fetched++
		_, err := to.Write(content)
		return err
	}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			path, err := a.get(t.Context(), digestOf(content))
			if err != nil {
				t.Error(err)
				return
			}
			if err := executable(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := a.get(t.Context(), digestOf(content)); err != nil || fetched != 1 {
		t.Errorf("fetched %d times, %v", fetched, err)
	}
}

func TestAnArtifactOfAnotherDigestIsRefusedAndNotKept(t *testing.T) {
	a := &artifacts{dir: t.TempDir(), fetch: func(_ context.Context, _ string, to io.Writer) error {
		_, err := to.Write([]byte("something else"))
		return err
	}}
	for _, digest := range []string{digestOf([]byte("wanted")), "sha256:../../etc/passwd", "md5:00", ""} {
		if _, err := a.get(t.Context(), digest); err == nil {
			t.Errorf("artifact %q was taken", digest)
		}
	}
	left, err := os.ReadDir(a.dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestArtifactsInUseAreKeptAndOthersCollected(t *testing.T) {
	a := &artifacts{dir: t.TempDir()}
	for _, name := range []string{"used", "unused"} {
		if err := os.WriteFile(filepath.Join(a.dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.collect(nil, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(a.dir); len(left) != 2 {
		t.Fatalf("%d are left of 2 that were used just now", len(left))
	}
	if err := a.collect(map[string]bool{"sha256:used": true}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(a.dir); len(left) != 1 || left[0].Name() != "used" {
		t.Errorf("left: %v", left)
	}
}

func TestACommandThatIsNotFoundSaysWhereItWasLookedFor(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, path, want string }{
		{"nope", "/", "/usr/bin:" + dir, `cannot find "nope": looked in /usr/bin, ` + dir},
		{"data", "/", dir, "cannot run " + dir + "/data: it is not executable"},
		{"./data", dir, "/usr/bin", "cannot run " + dir + "/data: it is not executable"},
		{dir, "/", "/usr/bin", "cannot run " + dir + ": it is a folder"},
		{"", "/", "/usr/bin", "cannot run an empty command"},
	} {
		_, err := findCommand(c.name, c.dir, c.path)
		if err == nil || err.Error() != c.want {
			t.Errorf("findCommand(%q): %v, want %q", c.name, err, c.want)
		}
	}
}

func TestAFollowerGoesOnAfterOutputWasGivenUpForRoom(t *testing.T) {
	j := &journal{path: filepath.Join(t.TempDir(), "x.log"), max: 10}
	out, err := j.open()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	print := func(s string) {
		if _, err := out.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	print("older output\n")
	if err := j.rotate(); err != nil {
		t.Fatal(err)
	}
	print("read so far\n")
	_, m, err := j.tail(10)
	if err != nil {
		t.Fatal(err)
	}
	print("not read yet\n")
	st, err := os.Stat(j.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.giveUp(st.Size()); err != nil {
		t.Fatal(err)
	}
	print("after it\n")
	buf := make([]byte, 100)
	if n, _, err := j.read(m, buf); err != nil || string(buf[:n]) != "after it\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	if _, err := os.Stat(j.older()); !os.IsNotExist(err) {
		t.Errorf("the older file still takes room: %v", err)
	}
}

func TestWhatTheProcessBeforeSaidIsReadBeforeWhatThisOneSays(t *testing.T) {
	dir := t.TempDir()
	journalOf := func(name string, says string) *journal {
		j := &journal{path: filepath.Join(dir, name), max: 1000}
		out, err := j.open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.WriteString(says); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		return j
	}
	for name, c := range map[string]struct{ before, want string }{
		"whole lines":           {"FATAL: no database\n", "FATAL: no database|[fairlead] the process before ended with: exit status 3|starting"},
		"a line without an end": {"FATAL", "FATAL|[fairlead] the process before ended with: exit status 3|starting"},
		"nothing":               {"", "[fairlead] the process before ended with: exit status 3|starting"},
	} {
		before, now := journalOf("before "+name, c.before), journalOf("now "+name, "starting\n")
		if err := now.inherit(before, "exit status 3"); err != nil {
			t.Fatal(err)
		}
		lines, _, err := now.tail(10)
		if got := string(bytes.Join(lines, []byte("|"))); err != nil || got != c.want {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
		if err := before.remove(); err != nil {
			t.Errorf("%s: the ended instance cannot be forgotten: %v", name, err)
		}
		if lines, _, _ := now.tail(10); len(lines) < 2 {
			t.Errorf("%s: forgetting it took its output away", name)
		}
	}
}
