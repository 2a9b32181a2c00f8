package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// faltering is a program in Python that says of its database whatever it is
// asked to, by nothing but the standard library.
const faltering = `
import http.server, json, os, urllib.request

def say(degraded):
    word = {"dependencies": {"database": {"degraded": degraded, "detail": "pool exhausted"}}}
    urllib.request.urlopen(urllib.request.Request(
        os.environ["FAIRLEAD_SELF_URL"], method="PUT", data=json.dumps(word).encode(),
        headers={"Authorization": "Bearer " + os.environ["FAIRLEAD_SELF_TOKEN"]}))

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/database/"):
            say(float(self.path[len("/database/"):]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["FAIRLEAD_INSTANCE"].encode())
    def log_message(self, *args): pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`

func TestAPythonInstanceWhoseDatabaseFaltersLosesWeightAndStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	dir := t.TempDir()
	for name, text := range map[string]string{"app.py": faltering, "contract.yaml": "dependencies:\n- name: database\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.must("deploy", "shop", "--instances", "2", "--dir", dir, "--", "python3", "app.py")
	w.must("contract", "set", "shop", "-f", filepath.Join(dir, "contract.yaml"))
	code, id, _ := w.get("shop", "/database/0.6")
	if code != 200 {
		t.Fatalf("it is answered by %d %s", code, id)
	}
	eventually(t, time.Minute, "its weight falls by its word", func() bool {
		s := w.instances("shop")[id]
		return s.Verdict == "degraded" && s.Rule == "dependency"
	})
	why := w.must("explain", "shop/"+id).stdout
	for _, want := range []string{"database is degraded by 60%", "database degraded by 60.0% (pool exhausted); authority weight"} {
		if !strings.Contains(why, want) {
			t.Errorf("the explanation does not say %q:\n%s", want, why)
		}
	}
	for other, s := range w.instances("shop") {
		if other != id && s.Verdict != "eligible" {
			t.Errorf("its sibling is %+v", s)
		}
	}
	eventually(t, time.Minute, "it says that all is well", func() bool { // whichever answers, until it is this one
		_, answered, _ := w.get("shop", "/database/0")
		return answered == id
	})
	eventually(t, time.Minute, "its word is taken back", func() bool { return w.instances("shop")[id].Verdict == "eligible" })
}
