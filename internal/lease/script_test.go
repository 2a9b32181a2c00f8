package lease_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata; commit the changes only if you understand what caused them")

// Each file of testdata is a story: lines of input, then ---- and what came of
// them, then an empty line.
func TestTheRoomDoesWhatItsScriptsSay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("cannot find the scripts: %v, %d files", err, len(files))
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(b))
			if *update {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(b) {
				t.Errorf("%s does not hold; it now reads:\n%s", f, got)
			}
		})
	}
}

// play runs a script and returns it with the answers of this run.
func play(t *testing.T, script string) string {
	w := newWorld()
	var out strings.Builder
	answering := false
	for line := range strings.Lines(script) {
		text := strings.TrimSpace(line)
		switch {
		case text == "----":
			answering = true
			out.WriteString("----\n" + w.take())
		case answering && text != "":
			// the old answer
		case text == "":
			answering = false
			out.WriteString(line)
		default:
			out.WriteString(line)
			if !strings.HasPrefix(text, "#") {
				if err := w.run(strings.Fields(text)); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
			}
		}
	}
	return out.String()
}

func (w *world) run(f []string) error {
	verb, args := f[0], f[1:]
	do, ok := map[string]func(*world, []string) error{
		"table": (*world).table, "offer": (*world).offer, "arrive": (*world).arrive,
		"end": (*world).end, "hangup": (*world).hangup, "at": (*world).at, "resend": (*world).resend,
		"terminating": (*world).terminating, "gone": (*world).gone, "recall": (*world).recall,
		"refused": (*world).refused, "draw": (*world).draw, "view": (*world).view, "relent": (*world).relent,
	}[verb]
	if !ok {
		return fmt.Errorf("no such input: %s", verb)
	}
	return do(w, args)
}
