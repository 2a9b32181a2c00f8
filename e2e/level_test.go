package e2e

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// level is how much there is of what could grow, :: figure → amount. Memory
// is in KiB.
type level map[string]float64

// bounds of growth, :: end of a figure's name → what is no growth: more by a
// quarter and so much. The heap is what lives after a collection; anonymous
// memory has room for garbage besides, of which there may be four times the
// heap, and for what is given back later.
var bounds = []struct {
	figure string
	slack  float64
}{
	{"heap", 3 << 10},
	{"anonymous memory", 40 << 10},
	{"open files", 12},
	{"goroutines", 24},
	{"files", 40},
	{"folder control KiB on disk", 160 << 10}, // the store's log keeps 64 MiB of bodies, which take about twice that
	{"KiB on disk", 4 << 10},
}

func slackOf(figure string) float64 {
	for _, b := range bounds {
		if strings.HasSuffix(" "+figure, " "+b.figure) {
			return b.slack
		}
	}
	return 0
}

// grown names what is more in the end than in the beginning.
func grown(when string, from, to level) []string {
	var out []string
	for _, figure := range slices.Sorted(maps.Keys(to)) {
		if limit := from[figure]*1.25 + slackOf(figure); to[figure] > limit {
			out = append(out, fmt.Sprintf("%s has grown %s: from %.0f to %.0f, over %.0f", figure, when, from[figure], to[figure], limit))
		}
	}
	return out
}

// lasting is what can be compared from one life of a process to another: not
// the memory around its heap, which is of its age.
func (l level) lasting() level {
	out := maps.Clone(l)
	maps.DeleteFunc(out, func(figure string, _ float64) bool { return strings.HasSuffix(figure, " anonymous memory") })
	return out
}

func growthTable(early, quiet, last level) string {
	var b strings.Builder
	b.WriteString("| figure | after the warm-up | after the last kill | at the end |\n| --- | --- | --- | --- |\n")
	for _, figure := range slices.Sorted(maps.Keys(last)) {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f |\n", figure, early[figure], quiet[figure], last[figure])
	}
	return b.String()
}

// ofProcess has it collect its garbage first, through its profiles.
func (l level) ofProcess(name string, pid int, ops string) error {
	if _, err := fetch("http://" + ops + "/debug/pprof/heap?gc=1"); err != nil {
		return err
	}
	text, err := fetch("http://" + ops + "/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		metric, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseFloat(value, 64) // comments hold none
		switch metric {
		case "go_memstats_heap_alloc_bytes":
			l[name+" heap"] = n / 1024
		case "go_goroutines":
			l[name+" goroutines"] = n
		case "process_open_fds":
			l[name+" open files"] = n
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	l[name+" anonymous memory"], err = strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return err
}

func fetch(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return string(body), err
}

// ofFolder counts by the folders at its top, those of the tests left out.
func (l level) ofFolder(folder string, except string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || path == filepath.Clean(except) {
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil // it was removed meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // as above
		}
		top, _, below := strings.Cut(strings.TrimPrefix(path, folder+"/"), "/")
		if !below {
			top = "itself"
		}
		if !strings.Contains(path, "/+evidence/") { // it is kept for days, a file for each 30 s, and has a bound of its own
			l["folder "+top+" files"]++
		}
		l["folder "+top+" KiB on disk"] += float64(info.Size()) / 1024
		return nil
	})
}

func TestALevelNoticesWhatGrows(t *testing.T) {
	from := level{"gw1 heap": 8 << 10, "gw1 open files": 20, "folder control files": 5}
	for name, c := range map[string]struct {
		to   level
		want string
	}{
		"nothing":              {level{"gw1 heap": 10 << 10, "gw1 open files": 22, "folder control files": 5}, ""},
		"less":                 {level{"gw1 heap": 1}, ""},
		"memory":               {level{"gw1 heap": 14 << 10}, "gw1 heap"},
		"open files":           {level{"gw1 open files": 60}, "gw1 open files"},
		"a folder that is new": {level{"folder slots files": 100}, "folder slots files"},
	} {
		got := grown("here", from, c.to)
		if (c.want == "") != (len(got) == 0) || len(got) > 0 && !strings.HasPrefix(got[0], c.want+" has grown here") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
