package resolver

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/view"
)

func someHeld(t testing.TB, counter uint64) *view.Held {
	t.Helper()
	e := view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}
	table := view.NewTable(view.Version{Incarnation: "i", Epoch: 1, Counter: counter}, e, []view.Route{
		{Service: "a", Sequence: counter, Hosts: []string{"a.localhost"}},
		{Service: "b", Sequence: 1, Deleted: true},
	})
	h, _, err := (*view.Held)(nil).Take(table.Whole(), view.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The file of a table, as these tests use it.

func encode(s view.Snapshot) ([]byte, error)    { return tableFile.encode(s) }
func frame(body []byte) []byte                  { return tableFile.frame(body) }
func replace(path string, content []byte) error { return tableFile.replace(path, content) }
func decode(b []byte) (view.Snapshot, error) {
	var s view.Snapshot
	err := tableFile.decode(b, &s)
	return s, err
}

func load(path string) (got struct {
	loaded
	snapshot view.Snapshot
},
) {
	got.loaded = tableFile.load(path, &got.snapshot)
	return got
}

func content(t testing.TB, h *view.Held) []byte {
	t.Helper()
	b, err := encode(h.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAFileIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes")
	h := someHeld(t, 7)
	if err := replace(path, content(t, h)); err != nil {
		t.Fatal(err)
	}
	got := load(path)
	if diff := cmp.Diff(h.Snapshot(), got.snapshot); diff != "" || !got.found || len(got.notes) != 0 {
		t.Errorf("found %v, notes %q:\n%s", got.found, got.notes, diff)
	}
}

func TestAFileThatCannotBeReadIsSetAsideAndSaidAndNeverFatal(t *testing.T) {
	whole := content(t, someHeld(t, 7))
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)-5] ^= 1
	for name, c := range map[string]struct {
		content []byte
		suffix  string
	}{
		"empty":           {nil, ".unreadable-1"},
		"truncated":       {whole[:len(whole)-3], ".unreadable-1"},
		"header only":     {whole[:20], ".unreadable-1"},
		"one bit flipped": {flipped, ".unreadable-1"},
		"longer":          {append(append([]byte(nil), whole...), 'x'), ".unreadable-1"},
		"something else":  {[]byte("{\"a\": 1}\n{}"), ".unreadable-1"},
		"newer format":    {[]byte(strings.Replace(string(whole), "table 1 ", "table 2 ", 1)), ".newer-1"},
		"newer header":    {[]byte("fairlead-table 3 zstd whatever\n\x00\x01"), ".newer-1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "routes")
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := OpenHolder(HolderConfig{Name: "g", Path: path, Controls: []string{"127.0.0.1:1"}})
			if err != nil {
				t.Fatal(err)
			}
			notes := h.Status().Notes
			if h.Table() != nil || len(notes) != 1 || !strings.Contains(notes[0], "set aside as routes"+c.suffix) {
				t.Errorf("holds %v, notes %q", h.Table(), notes)
			}
			aside, err := os.ReadFile(path + c.suffix)
			if err != nil || string(aside) != string(c.content) {
				t.Errorf("what was set aside is not what was there: %v", err)
			}
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

func TestWhatIsSetAsideIsBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "routes")
	for range 3 * maxAside {
		if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
			t.Fatal(err)
		}
		load(path)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != maxAside {
		t.Errorf("%d files are set aside, want %d: %v", len(entries), maxAside, err)
	}
}

func TestAFileThatIsNoFileIsSaidAndNeverFatal(t *testing.T) {
	path := t.TempDir() // a folder
	h, err := OpenHolder(HolderConfig{Name: "g", Path: path, Controls: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if notes := h.Status().Notes; len(notes) != 1 {
		t.Errorf("notes: %q", notes)
	}
}

func TestAFullDiskLeavesTheFormerFileAndIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes")
	h, err := OpenHolder(HolderConfig{Name: "g", Path: path, Controls: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	one, two := someHeld(t, 1), someHeld(t, 2)
	h.held = one
	if !h.keep() {
		t.Fatal(h.keepErr)
	}
	h.held = two
	if err := os.Symlink("/dev/full", path+".tmp"); err != nil { // writing to it gives ENOSPC
		t.Fatal(err)
	}
	if h.keep() {
		t.Fatal("kept on a full disk")
	}
	if s := h.Status(); s.Keeps.Counter != 1 || !strings.Contains(s.KeepError, "no space left") || s.Version.Counter != 2 {
		t.Errorf("status: %+v", s)
	}
	if got := load(path); got.snapshot.Version.Counter != 1 {
		t.Errorf("on disk is %s", got.snapshot.Version)
	}
	if !h.keep() { // what was begun was removed: there is room again
		t.Fatal(h.keepErr)
	}
	if s := h.Status(); s.Keeps.Counter != 2 || s.KeepError != "" {
		t.Errorf("status: %+v", s)
	}
}

// TestMain is also the child of tests: it writes one table after the other.
func TestMain(m *testing.M) {
	if path := os.Getenv("RESOLVER_TEST_WRITES"); path != "" {
		count, err := strconv.ParseUint(os.Getenv("RESOLVER_TEST_COUNT"), 10, 64)
		if err != nil {
			count = math.MaxUint64
		}
		write(path, count)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func write(path string, count uint64) {
	e := view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}
	for i := uint64(1); i <= count; i++ {
		routes := make([]view.Route, 200)
		for j := range routes {
			routes[j] = view.Route{Service: string(rune('a'+j%26)) + strings.Repeat("x", j), Sequence: i}
		}
		h, _, err := (*view.Held)(nil).Take(view.NewTable(view.Version{Incarnation: "i", Epoch: 1, Counter: i}, e, routes).Whole(), view.Rules{})
		if err != nil {
			panic(err)
		}
		b, err := encode(h.Snapshot())
		if err != nil {
			panic(err)
		}
		if err := replace(path, b); err != nil {
			panic(err)
		}
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			os.Exit(1)
		}
	}
}

func TestAProcessKilledWhileItWritesLeavesAWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes")
	for round := range 15 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "RESOLVER_TEST_WRITES="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // one is written whole
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(round)*700*time.Microsecond, func() { cmd.Process.Kill() }) // at any moment of a write
		cmd.Wait()
		if got := load(path); !got.found || len(got.notes) != 0 {
			t.Fatalf("round %d: %q", round, got.notes)
		}
	}
}

// FuzzFile gives the reader whatever may stand on a disk.
func FuzzFile(f *testing.F) {
	f.Add(content(f, someHeld(f, 7)))
	f.Add([]byte(nil))
	f.Add([]byte("fairlead-table 2 x\n"))
	f.Add([]byte("fairlead-table 1 sha256:x 3\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decode(b)
		if err != nil {
			return
		}
		again, err := encode(view.Restore(s, view.Route.Check).Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again); err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
	})
}

// FuzzContent does the same behind a checksum that agrees.
func FuzzContent(f *testing.F) {
	f.Add([]byte(`{"version":{"incarnation":"i","epoch":1,"counter":2},"epoch":{"incarnation":"i","number":1,"nonce":"n"},"routes":[{"service":"a","sequence":1,"limits":{}}],"kept":[{"route":{"service":"b","sequence":1,"limits":{}},"orphaned":{"incarnation":"j","epoch":1,"counter":1}}],"marks":[{"epoch":{"incarnation":"i","number":1,"nonce":"n"},"version":{"incarnation":"i","epoch":1,"counter":2}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := decode(frame(body))
		if err != nil {
			return
		}
		h := view.Restore(s, view.Route.Check)
		back := view.Restore(h.Snapshot(), view.Route.Check)
		if diff := cmp.Diff(h.Serving().Routes(), back.Serving().Routes()); diff != "" {
			t.Fatalf("served otherwise after it was kept:\n%s", diff)
		}
		h.Objections()
		h.Orphaned()
	})
}
