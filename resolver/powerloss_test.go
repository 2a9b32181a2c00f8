package resolver

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a loss of power may undo is what no sync covers. So the record of a
// child's system calls must show, before each word that a table is kept: the
// new file written and synced, then renamed, then the folder synced.
func TestKeptMeansThatALossOfPowerCannotUndoIt(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal("this test needs strace (Debian: apt-get install strace)")
	}
	dir := t.TempDir()
	path, record := filepath.Join(dir, "routes"), filepath.Join(t.TempDir(), "record")
	cmd := exec.Command(strace, "-f", "-qq", "-y", "-o", record, "-e", "signal=none",
		"-e", "trace=write,fsync,fdatasync,rename,renameat,renameat2", os.Args[0])
	cmd.Env = append(os.Environ(), "RESOLVER_TEST_WRITES="+path, "RESOLVER_TEST_COUNT=3")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "..." {
		t.Fatalf("the child said %q: %v", out, err)
	}
	got := calls(t, record, path)
	want := strings.TrimSpace(strings.Repeat("write-new sync-new rename sync-folder kept ", 3))
	if got != want {
		t.Errorf("the child did\n%s\nwant\n%s", got, want)
	}
}

// calls names what a record says of the file, in order; one write may be many.
func calls(t *testing.T, record, path string) string {
	t.Helper()
	f, err := os.Open(record)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	of := func(call, file string) *regexp.Regexp {
		return regexp.MustCompile(`(^|\s)` + call + `\(\d+<` + regexp.QuoteMeta(file) + `>`)
	}
	named := []struct {
		name  string
		shape *regexp.Regexp
	}{
		{"write-new", of("write", path+".tmp")},
		{"sync-new", of("f(?:data)?sync", path+".tmp")},
		{"rename", regexp.MustCompile(`rename\w*\(.*"` + regexp.QuoteMeta(path) + `.tmp".*"` + regexp.QuoteMeta(path) + `"`)},
		{"sync-folder", of("f(?:data)?sync", filepath.Dir(path))},
		{"write-kept-file", of("write", path)},
		{"kept", regexp.MustCompile(`write\(1<[^>]*>, "\.", 1`)},
	}
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, n := range named {
			if n.shape.MatchString(lines.Text()) && !(n.name == "write-new" && len(out) > 0 && out[len(out)-1] == n.name) {
				out = append(out, n.name)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}
