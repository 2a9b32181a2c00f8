package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

func TestASecondProcessOnTheSameFileIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	child := command("hold", path)
	lines, _ := startChild(t, child)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the child said %q", lines.Text())
	}
	refused := func(state string) {
		t.Helper()
		start := time.Now()
		_, err := Open(Options{Path: path})
		if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", child.Process.Pid)) {
			t.Fatalf("%s: got %v, want it refused naming pid %d", state, err, child.Process.Pid)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("%s: refused after %s, want at once", state, took)
		}
	}
	refused("running")
	stop(t, child.Process.Pid)
	refused("stopped")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the killed child ended well")
	}
	mustOpen(t, Options{Path: path})
}

func TestWhatWasAcknowledgedSurvivesDeath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	child := command("write", path)
	lines, _ := startChild(t, child)
	var acked []string
	for _, upto := range []int{1, 40, 100, 160} {
		for len(acked) < upto && lines.Scan() {
			acked = append(acked, strings.TrimPrefix(lines.Text(), "ack "))
		}
		stop(t, child.Process.Pid)
		imitateDeath(t, path, acked)
		if err := child.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		acked = append(acked, strings.TrimPrefix(lines.Text(), "ack "))
	}
	_ = child.Wait()
	imitateDeath(t, path, acked)
}

// imitateDeath opens a copy of the files and looks for what was acknowledged.
func imitateDeath(t *testing.T, path string, acked []string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "store.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lost, err := missing(mustOpen(t, Options{Path: copied}), acked)
	if err != nil || len(acked) == 0 || len(lost) > 0 {
		t.Fatalf("of %d acknowledged, lost %v: %v", len(acked), lost, err)
	}
}

// stop stops the process and waits until each of its threads stands.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		if allStopped(t, pid) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

func allStopped(t *testing.T, pid int) bool {
	t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			return false // a thread that just ended
		}
		if _, state, _ := bytes.Cut(b, []byte(") ")); state[0] != 'T' && state[0] != 'Z' {
			return false
		}
	}
	return true
}

// raw opens the file without the store.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "_pragma", "journal_mode(WAL)"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func rawExec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(err)
	}
}

// files returns the content of the database's files, without SQLite's index
// into its log, which holds no content.
func files(t *testing.T, path string) map[string]string {
	t.Helper()
	all := map[string]string{} // :: suffix → content
	for _, suffix := range []string{"", "-wal"} {
		if b, err := os.ReadFile(path + suffix); err == nil && len(b) > 0 {
			all[suffix] = string(b)
		}
	}
	return all
}

func TestASchemaNewerThanTheProgramIsRefusedAndNothingChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := mustOpen(t, Options{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	rawExec(t, db, "PRAGMA user_version = 99")

	// While the other connection is open the version stands in the log only.
	inLog := filepath.Join(t.TempDir(), "store.db")
	for suffix, content := range files(t, path) {
		if err := os.WriteFile(inLog+suffix, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]string{"in the file": path, "in the log": inLog} {
		before := files(t, p)
		if _, logged := before["-wal"]; logged != (p == inLog) {
			t.Fatalf("%s: the log is there: %t", name, logged)
		}
		_, err := Open(Options{Path: p, Ballast: 1 << 20})
		if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "up to 1") {
			t.Fatalf("%s: got %v", name, err)
		}
		after := files(t, p)
		for suffix := range before {
			if before[suffix] != after[suffix] {
				t.Fatalf("%s: %q was changed", name, suffix)
			}
		}
		if _, err := os.Stat(p + ".ballast"); err == nil {
			t.Fatalf("%s: a ballast was made", name)
		}
	}
}

func TestAFileOfAnotherProgramIsRefusedAndNothingChanges(t *testing.T) {
	folder := t.TempDir()
	other := filepath.Join(folder, "other.db")
	db := raw(t, other)
	rawExec(t, db, "CREATE TABLE theirs (x)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{other, text} {
		before := files(t, p)
		if _, err := Open(Options{Path: p}); err == nil {
			t.Fatalf("%s was opened", p)
		}
		if after := files(t, p); after[""] != before[""] {
			t.Fatalf("%s was changed", p)
		}
	}
}
